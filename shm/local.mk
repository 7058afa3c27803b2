# The bytes that both sides map and the messages that both sides speak.

noinst_LTLIBRARIES += shm/libshm.la
shm_libshm_la_SOURCES = \
	$(NULL)
shm_libshm_la_LIBADD = base/libbase.la
