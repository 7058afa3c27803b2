DAEMON_TESTS = \
	tests/daemon/admission \
	tests/daemon/alloc \
	tests/daemon/cgroup \
	tests/daemon/clients \
	tests/daemon/close_hangs \
	tests/daemon/checks \
	tests/daemon/closer \
	tests/daemon/crowd \
	tests/daemon/daemon_pressure \
	tests/daemon/deadline \
	tests/daemon/descriptors \
	tests/daemon/device_dies \
	tests/daemon/device_hostile \
	tests/daemon/listener \
	tests/daemon/listener_swap \
	tests/daemon/drain \
	tests/daemon/drop_refused \
	tests/daemon/end_refused \
	tests/daemon/evict \
	tests/daemon/evict_crowd \
	tests/daemon/evict_many \
	tests/daemon/fail_adopt \
	tests/daemon/fail_call \
	tests/daemon/fail_daemon \
	tests/daemon/fail_fresh \
	tests/daemon/fail_fd_store \
	tests/daemon/fail_fork \
	tests/daemon/fail_library \
	tests/daemon/full \
	tests/daemon/garbage \
	tests/daemon/growth_turns \
	tests/daemon/hostile_flood \
	tests/daemon/hostile_in_flight \
	tests/daemon/hostile_memory \
	tests/daemon/hostile_unclosed \
	tests/daemon/hostile_words \
	tests/daemon/idle \
	tests/daemon/imbalance \
	tests/daemon/in_flight_deaths \
	tests/daemon/inherits \
	tests/daemon/keeper_dies \
	tests/daemon/keeper_dies_early \
	tests/daemon/keeper_full \
	tests/daemon/keeper_last \
	tests/daemon/leases_ended \
	tests/daemon/fd_store \
	tests/daemon/lanes \
	tests/daemon/limits \
	tests/daemon/linger_hangs \
	tests/daemon/load_hostile \
	tests/daemon/load_join \
	tests/daemon/load_two_files \
	tests/daemon/loader \
	tests/daemon/loader_bad \
	tests/daemon/loader_copy \
	tests/daemon/loader_left \
	tests/daemon/load_others \
	tests/daemon/loads \
	tests/daemon/log \
	tests/daemon/log_budget \
	tests/daemon/long_answers \
	tests/daemon/long_requests \
	tests/daemon/loop \
	tests/daemon/loop_hang_up \
	tests/daemon/oom \
	tests/daemon/pages \
	tests/daemon/pool_extent \
	tests/daemon/pool_pages \
	tests/daemon/pools \
	tests/daemon/pools_reload \
	tests/daemon/pools_users \
	tests/daemon/populate \
	tests/daemon/populate_killed \
	tests/daemon/pressure \
	tests/daemon/pressure_stall \
	tests/daemon/quotas \
	tests/daemon/quotas_refused \
	tests/daemon/quotas_patches \
	tests/daemon/quotas_shared \
	tests/daemon/reader_cannot_write \
	tests/daemon/reap \
	tests/daemon/report \
	tests/daemon/restart \
	tests/daemon/restart_growing \
	tests/daemon/restart_leases \
	tests/daemon/restart_load \
	tests/daemon/restart_parked \
	tests/daemon/restart_storm \
	tests/daemon/reclaim \
	tests/daemon/security_channel \
	tests/daemon/security_device \
	tests/daemon/security_mutable \
	tests/daemon/security_register \
	tests/daemon/security_uids \
	tests/daemon/segment_numbers \
	tests/daemon/starved \
	tests/daemon/server_check \
	tests/daemon/server_pressure \
	tests/daemon/server_takeover \
	tests/daemon/systemd \
	tests/daemon/turn_share \
	tests/daemon/upgrade \
	tests/daemon/upgrade_config \
	tests/daemon/upgrade_hidden \
	tests/daemon/upgrade_load \
	tests/daemon/upgrade_patches \
	tests/daemon/users \
	tests/daemon/wedge \
	tests/daemon/wedge_waiting \
	$(NULL)
DAEMON_SCRIPT_TESTS = \
	tests/daemon/bare.sh \
	tests/daemon/conf.sh \
	tests/daemon/daemon_log.py \
	tests/daemon/path.sh \
	tests/daemon/security.sh \
	tests/daemon/socket.sh \
	tests/daemon/started.sh \
	tests/daemon/streams.sh \
	$(NULL)
check_PROGRAMS += \
	$(DAEMON_TESTS) \
	tests/daemon/imbalanced_daemon \
	tests/daemon/refusing_daemon \
	tests/daemon/shrink \
	$(NULL)
dist_check_SCRIPTS += $(DAEMON_SCRIPT_TESTS)
TESTS += $(DAEMON_TESTS) $(DAEMON_SCRIPT_TESTS)
VALGRIND_EXCEPT += \
	tests/daemon/device_dies \
	tests/daemon/device_hostile \
	tests/daemon/admission \
	tests/daemon/cgroup \
	tests/daemon/clients \
	tests/daemon/close_hangs \
	tests/daemon/closer \
	tests/daemon/crowd \
	tests/daemon/daemon_pressure \
	tests/daemon/descriptors \
	tests/daemon/listener \
	tests/daemon/drain \
	tests/daemon/drop_refused \
	tests/daemon/end_refused \
	tests/daemon/fail_adopt \
	tests/daemon/fail_call \
	tests/daemon/fail_daemon \
	tests/daemon/fail_fresh \
	tests/daemon/fail_fd_store \
	tests/daemon/fail_fork \
	tests/daemon/fail_library \
	tests/daemon/full \
	tests/daemon/garbage \
	tests/daemon/growth_turns \
	tests/daemon/hostile_flood \
	tests/daemon/hostile_in_flight \
	tests/daemon/hostile_memory \
	tests/daemon/hostile_unclosed \
	tests/daemon/hostile_words \
	tests/daemon/idle \
	tests/daemon/imbalance \
	tests/daemon/in_flight_deaths \
	tests/daemon/inherits \
	tests/daemon/keeper_dies \
	tests/daemon/keeper_dies_early \
	tests/daemon/keeper_full \
	tests/daemon/keeper_last \
	tests/daemon/limits \
	tests/daemon/linger_hangs \
	tests/daemon/load_hostile \
	tests/daemon/load_two_files \
	tests/daemon/load_others \
	tests/daemon/loader \
	tests/daemon/loader_bad \
	tests/daemon/loader_copy \
	tests/daemon/loader_left \
	tests/daemon/loads \
	tests/daemon/log_budget \
	tests/daemon/oom \
	tests/daemon/pool_pages \
	tests/daemon/pools \
	tests/daemon/pools_reload \
	tests/daemon/pools_users \
	tests/daemon/pressure_stall \
	tests/daemon/quotas \
	tests/daemon/quotas_refused \
	tests/daemon/quotas_patches \
	tests/daemon/quotas_shared \
	tests/daemon/reader_cannot_write \
	tests/daemon/report \
	tests/daemon/starved \
	tests/daemon/restart_growing \
	tests/daemon/restart_load \
	tests/daemon/restart_parked \
	tests/daemon/restart_storm \
	tests/daemon/reclaim \
	tests/daemon/security_channel \
	tests/daemon/security_device \
	tests/daemon/security_mutable \
	tests/daemon/security_register \
	tests/daemon/security_uids \
	tests/daemon/segment_numbers \
	tests/daemon/server_takeover \
	tests/daemon/shrink \
	tests/daemon/systemd \
	tests/daemon/turn_share \
	tests/daemon/upgrade \
	tests/daemon/upgrade_config \
	tests/daemon/upgrade_hidden \
	tests/daemon/upgrade_load \
	tests/daemon/upgrade_patches \
	tests/daemon/users \
	tests/daemon/wedge \
	tests/daemon/wedge_waiting \
	$(NULL)

tests_daemon_alloc_LDADD = $(DAEMON_LIBS)
tests_daemon_closer_LDADD = $(DAEMON_LIBS)
tests_daemon_crowd_LDADD = $(DAEMON_LIBS)
tests_daemon_daemon_pressure_LDADD = $(DAEMON_LIBS)
tests_daemon_deadline_LDADD = $(DAEMON_LIBS)
tests_daemon_keeper_dies_early_LDADD = $(DAEMON_LIBS)
tests_daemon_keeper_dies_early_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=prctl
tests_daemon_keeper_last_LDADD = $(DAEMON_LIBS)
tests_daemon_keeper_last_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=usleep
tests_daemon_leases_ended_LDADD = $(DAEMON_LIBS)
tests_daemon_listener_LDADD = $(DAEMON_LIBS)
tests_daemon_listener_swap_LDADD = $(DAEMON_LIBS)
tests_daemon_listener_swap_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=realpath \
	-Wl,--wrap=__realpath_chk \
	$(NULL)
tests_daemon_evict_crowd_LDADD = $(DAEMON_LIBS)
tests_daemon_evict_crowd_LDFLAGS = -Wl,--wrap=lease_batch_search
tests_daemon_drop_refused_LDADD = $(DAEMON_LIBS)
tests_daemon_drop_refused_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=fork \
	-Wl,--wrap=sendmsg \
	$(NULL)
tests_daemon_evict_many_LDADD = $(DAEMON_LIBS)
tests_daemon_evict_many_LDFLAGS = -Wl,--wrap=lease_batch_search
tests_daemon_lanes_LDADD = $(DAEMON_LIBS)
tests_daemon_fail_fork_LDADD = $(DAEMON_LIBS)
tests_daemon_fail_fork_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=fcntl \
	-Wl,--wrap=fcntl64 \
	-Wl,--wrap=dup3 \
	$(NULL)
# tarnd with a mistake.
tests_daemon_imbalanced_daemon_SOURCES = \
	daemon/main.c \
	tests/daemon/imbalanced_daemon.c \
	$(NULL)
tests_daemon_imbalanced_daemon_LDADD = daemon/libdaemon.la
tests_daemon_imbalanced_daemon_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=quota_return \
	$(NULL)
# tarnd where the kernel refuses to send descriptors.
tests_daemon_refusing_daemon_SOURCES = \
	daemon/main.c \
	tests/daemon/refusing_daemon.c \
	$(NULL)
tests_daemon_refusing_daemon_LDADD = daemon/libdaemon.la
tests_daemon_refusing_daemon_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=sendmsg \
	$(NULL)
tests_daemon_fd_store_LDADD = $(DAEMON_LIBS)
tests_daemon_load_join_LDADD = $(DAEMON_LIBS)
tests_daemon_loader_LDADD = $(DAEMON_LIBS)
tests_daemon_loader_bad_LDADD = $(DAEMON_LIBS)
tests_daemon_loader_copy_LDADD = $(DAEMON_LIBS)
tests_daemon_log_LDADD = $(DAEMON_LIBS)
tests_daemon_log_budget_LDADD = $(DAEMON_LIBS)
tests_daemon_loop_LDADD = $(DAEMON_LIBS)
tests_daemon_loop_hang_up_LDADD = $(DAEMON_LIBS)
tests_daemon_pages_LDADD = $(DAEMON_LIBS)
tests_daemon_populate_LDADD = $(DAEMON_LIBS)
tests_daemon_pressure_LDADD = $(DAEMON_LIBS)
tests_daemon_pressure_stall_LDADD = $(DAEMON_LIBS)
tests_daemon_reap_LDADD = $(DAEMON_LIBS)
tests_daemon_reap_LDFLAGS = -Wl,--wrap=lease_batch_search
tests_daemon_server_check_LDADD = $(DAEMON_LIBS)
tests_daemon_server_check_LDFLAGS = -Wl,--wrap=lease_batch_search
tests_daemon_server_pressure_LDADD = $(DAEMON_LIBS)
tests_daemon_server_pressure_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=sendmsg
tests_daemon_server_takeover_LDADD = $(DAEMON_LIBS)
tests_daemon_starved_SOURCES = tests/daemon/starved.c $(FUZZ_SERVER)
tests_daemon_starved_LDADD = $(DAEMON_LIBS)
tests_daemon_turn_share_SOURCES = tests/daemon/turn_share.c $(FUZZ_SERVER)
tests_daemon_turn_share_LDADD = $(DAEMON_LIBS)
tests_daemon_turn_share_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=load_publish \
	-Wl,--wrap=publish_commit \
	-Wl,--wrap=quantum_spend \
	$(NULL)
