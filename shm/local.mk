# The bytes that both sides map and the messages that both sides speak.

noinst_LTLIBRARIES += shm/libshm.la
shm_libshm_la_SOURCES = \
	shm/channel.c \
	shm/channel.h \
	shm/lease.c \
	shm/lease.h \
	shm/lease_batch.c \
	shm/lease_note.c \
	shm/messages.h \
	shm/name.c \
	shm/patch.c \
	shm/patch.h \
	shm/place.h \
	shm/record.h \
	shm/report_record.h \
	shm/ring.c \
	shm/ring.h \
	shm/ring_broadcast.c \
	shm/ring_end.c \
	shm/ring_full.c \
	shm/ring_internal.h \
	shm/ring_member.c \
	shm/ring_peek.c \
	shm/ring_publish.c \
	shm/ring_reap.c \
	shm/ring_receive.c \
	shm/ring_wait.c \
	shm/ring_word.h \
	shm/segment.c \
	shm/segment.h \
	shm/table.c \
	shm/table.h \
	shm/table_check.c \
	shm/table_check.h \
	shm/table_check_names.c \
	shm/table_check_storages.c \
	shm/table_completions.c \
	shm/table_expiry.c \
	shm/table_names.c \
	shm/table_prefault.c \
	shm/table_read.c \
	shm/table_records.c \
	shm/table_replicas.c \
	shm/table_recover.c \
	shm/table_segments.c \
	shm/table_set.c \
	shm/table_storages.c \
	shm/table_versions.c \
	shm/table_write.c \
	shm/table_writer.h \
	shm/table_writer_internal.h \
	shm/wake.c \
	shm/wake.h \
	shm/wire.c \
	shm/wire.h \
	shm/wire_body.c \
	shm/wire_internal.h \
	shm/wire_part.c \
	shm/wire_queue.c \
	shm/wire_send.c \
	$(NULL)
shm_libshm_la_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
shm_libshm_la_LIBADD = base/libbase.la
