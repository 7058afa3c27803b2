# What every room needs and no room owns: errors, checked sizes, descriptors,
# how much memory is left.

noinst_LTLIBRARIES += base/libbase.la
base_libbase_la_SOURCES = \
	base/alone.h \
	base/checked.h \
	base/cleanup.h \
	base/clock.h \
	base/fail.c \
	base/fail.h \
	base/fd.c \
	base/fd.h \
	base/file_limit.h \
	base/headroom.c \
	base/headroom.h \
	base/headroom_cgroup.c \
	base/headroom_impl.h \
	base/streams.h \
	$(NULL)
