# The bytes that both sides map and the messages that both sides speak.

noinst_LTLIBRARIES += shm/libshm.la
shm_libshm_la_SOURCES = \
	shm/lease.h \
	shm/segment.h \
	shm/table.h \
	shm/wire.h \
	$(NULL)
shm_libshm_la_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
shm_libshm_la_LIBADD = base/libbase.la
