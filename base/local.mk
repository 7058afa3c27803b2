# What every room needs and no room owns: errors, checked sizes, descriptors.

noinst_LTLIBRARIES += base/libbase.la
base_libbase_la_SOURCES = \
	base/checked.h \
	base/cleanup.h \
	base/fail.c \
	base/fail.h \
	base/fd.c \
	base/fd.h \
	$(NULL)
