STORE_TESTS = \
	tests/store/autostart \
	tests/store/descriptor \
	tests/store/device \
	tests/store/device_many \
	tests/store/device_others \
	tests/store/fake \
	tests/store/open_files \
	tests/store/patch_hostile \
	tests/store/flooded \
	tests/store/follow \
	tests/store/inflated \
	tests/store/last_answers \
	tests/store/fork \
	tests/store/fork_calls \
	tests/store/fork_pins \
	tests/store/fork_who \
	tests/store/held \
	tests/store/stopped \
	tests/store/segments \
	tests/store/huge_mutable \
	tests/store/lease_book \
	tests/store/lease_pages \
	tests/store/load_again \
	tests/store/load_gone \
	tests/store/load_ranges \
	tests/store/load_shards \
	tests/store/load_verified \
	tests/store/many_threads \
	tests/store/mutable \
	tests/store/not_kept \
	tests/store/one_version \
	tests/store/cow \
	tests/store/cow_held \
	tests/store/node \
	tests/store/publish \
	tests/store/publish_again \
	tests/store/publish_hostile \
	tests/store/publish_ttl \
	tests/store/publish_locked \
	tests/store/publish_memory \
	tests/store/publish_prefix \
	tests/store/publish_restart \
	tests/store/publish_sealed \
	tests/store/publish_threads \
	tests/store/publish_unread \
	tests/store/release \
	tests/store/remove_again \
	tests/store/replicas \
	tests/store/replicas_dying \
	tests/store/replicas_hostile \
	tests/store/resume \
	tests/store/no_resources \
	tests/store/snapshot \
	tests/store/socket_path \
	tests/store/store \
	tests/store/untaken \
	tests/store/wait \
	tests/store/wait_file \
	$(NULL)
STORE_SCRIPT_TESTS = tests/store/load_images.sh
check_PROGRAMS += $(STORE_TESTS)
dist_check_SCRIPTS += $(STORE_SCRIPT_TESTS)
TESTS += $(STORE_TESTS) $(STORE_SCRIPT_TESTS)
VALGRIND_EXCEPT += \
	tests/store/device_many \
	tests/store/device_others \
	tests/store/device \
	tests/store/device_many \
	tests/store/device_others \
	tests/store/fork \
	tests/store/fork_calls \
	tests/store/fork_pins \
	tests/store/fork_who \
	tests/store/huge_mutable \
	tests/store/lease_pages \
	tests/store/load_ranges \
	tests/store/load_shards \
	tests/store/load_verified \
	tests/store/many_threads \
	tests/store/not_kept \
	tests/store/one_version \
	tests/store/cow \
	tests/store/cow_held \
	tests/store/node \
	tests/store/publish \
	tests/store/publish_again \
	tests/store/publish_hostile \
	tests/store/publish_locked \
	tests/store/publish_memory \
	tests/store/publish_prefix \
	tests/store/publish_restart \
	tests/store/publish_sealed \
	tests/store/publish_threads \
	tests/store/publish_unread \
	tests/store/release \
	tests/store/remove_again \
	tests/store/no_resources \
	$(NULL)

tests_store_autostart_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=open
tests_store_inflated_LDADD = $(DAEMON_LIBS) $(ZLIB_LIBS)
tests_store_load_again_LDADD = $(DAEMON_LIBS)
tests_store_load_gone_LDADD = $(DAEMON_LIBS)
tests_store_node_LDADD = $(DAEMON_LIBS)
tests_store_resume_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=clock_gettime \
	-Wl,--wrap=wire_push \
	$(NULL)
tests_store_wait_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=store_import_nearest
tests_store_replicas_LDADD = $(DAEMON_LIBS)
tests_store_replicas_dying_LDADD = $(DAEMON_LIBS)
tests_store_replicas_hostile_LDADD = $(DAEMON_LIBS)
NOT_KNOWING_NODES = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=tarn_tensor_node \
	-Wl,--wrap=store_place_node \
	-Wl,--wrap=node_here \
	$(NULL)
tests_store_replicas_LDFLAGS = $(NOT_KNOWING_NODES)
tests_store_replicas_dying_LDFLAGS = $(NOT_KNOWING_NODES)
