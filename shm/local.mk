# The bytes that both sides map and the messages that both sides speak.

noinst_LTLIBRARIES += shm/libshm.la
shm_libshm_la_SOURCES = \
	shm/channel.c \
	shm/channel.h \
	shm/lease.c \
	shm/lease.h \
	shm/lease_batch.c \
	shm/lease_note.c \
	shm/name.c \
	shm/record.h \
	shm/ring.c \
	shm/ring.h \
	shm/ring_cast.c \
	shm/ring_end.c \
	shm/ring_full.c \
	shm/ring_member.c \
	shm/ring_peek.c \
	shm/ring_publish.c \
	shm/ring_receive.c \
	shm/ring_wait.c \
	shm/ring_words.h \
	shm/segment.c \
	shm/segment.h \
	shm/table.c \
	shm/table.h \
	shm/table_check.c \
	shm/table_check.h \
	shm/table_check_names.c \
	shm/table_check_storages.c \
	shm/table_expiry.c \
	shm/table_move.c \
	shm/table_names.c \
	shm/table_prefault.c \
	shm/table_read.c \
	shm/table_records.c \
	shm/table_recover.c \
	shm/table_storages.c \
	shm/table_token.c \
	shm/table_write.c \
	shm/table_writer.h \
	shm/wire.c \
	shm/wire.h \
	shm/wire_frame.h \
	shm/wire_queue.c \
	$(NULL)
shm_libshm_la_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
shm_libshm_la_LIBADD = base/libbase.la
