SHM_TESTS = \
	tests/shm/lease \
	tests/shm/name \
	tests/shm/ring \
	tests/shm/ring_dead \
	tests/shm/ring_full \
	tests/shm/ring_hostile \
	tests/shm/ring_kill \
	tests/shm/ring_late \
	tests/shm/ring_quiet \
	tests/shm/ring_threads \
	tests/shm/ring_wait \
	tests/shm/ring_wakes \
	tests/shm/ring_watch \
	tests/shm/segment_seal \
	tests/shm/table \
	tests/shm/table_check \
	tests/shm/table_churn \
	tests/shm/table_crash \
	tests/shm/table_expiry \
	tests/shm/table_hostile \
	tests/shm/table_million \
	tests/shm/table_publisher \
	tests/shm/table_readers \
	tests/shm/table_segments \
	tests/shm/wake \
	tests/shm/wire \
	tests/shm/wire_parts \
	tests/shm/wire_queue \
	tests/shm/wire_short \
	$(NULL)
check_PROGRAMS += $(SHM_TESTS)
TESTS += $(SHM_TESTS)
VALGRIND_EXCEPT += \
	tests/shm/lease \
	tests/shm/ring_kill \
	tests/shm/ring_late \
	tests/shm/ring_quiet \
	tests/shm/ring_threads \
	tests/shm/ring_wait \
	tests/shm/ring_wakes \
	tests/shm/ring_watch \
	tests/shm/table_check \
	tests/shm/table_crash \
	tests/shm/table_million \
	tests/shm/table_readers \
	tests/shm/table_segments \
	tests/shm/wake \
	$(NULL)

tests_shm_table_million_LDADD = $(DAEMON_LIBS)
