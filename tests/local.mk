# TAP programs and scripts. Each runs in a folder of its own, with a time-out;
# tests/run complains about whatever is left behind.

check_LTLIBRARIES = tests/libtap.la
tests_libtap_la_SOURCES = tests/tap.c tests/tap.h

TEST_EXTENSIONS = .sh .py
TARN_TAP_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) \
	$(top_srcdir)/build-aux/tap-driver.sh
LOG_DRIVER = $(TARN_TAP_DRIVER)
SH_LOG_DRIVER = $(TARN_TAP_DRIVER)
PY_LOG_DRIVER = $(TARN_TAP_DRIVER)
LOG_COMPILER = tests/run$(EXEEXT)
SH_LOG_COMPILER = tests/run$(EXEEXT) bash
PY_LOG_COMPILER = tests/run$(EXEEXT) $(PYTHON)
AM_TESTS_ENVIRONMENT = CC='$(CC)'; export CC;

# White-box tests link all of the library with nothing hidden; this goes for
# every program that says nothing else. One of a single file says nothing: its
# source is tests/NAME.c.
WHITEBOX_LIBS = tests/libtap.la lib/libcore.la
LDADD = $(WHITEBOX_LIBS)

# What makes the whole machine wait for memory has every daemon on it give up
# the file that it used longest ago. So it comes after those that look for a
# file which nobody holds; but only after those of them that are run as well,
# which configure has make pick.
STALLING_FIRST_LOG = tests/daemon_pressure.log
STALLING_LOGS = \
	tests/oom.log \
	tests/pressure_stall.log \
	$(NULL)
CACHE_LOGS = \
	tests/daemon_full.log \
	tests/daemon_room.log \
	tests/evict.log \
	tests/lease_pages.log \
	tests/store.log \
	$(NULL)
$(STALLING_FIRST_LOG): $(CACHE_LOGS_RUN)
$(STALLING_LOGS): $(CACHE_LOGS_RUN) $(STALLING_FIRST_LOG_RUN)

# The slowest begin first: one that began last would be waited for alone.
TESTS += \
	tests/wheel.py \
	tests/soak \
	tests/daemon_shrink \
	tests/models_ring.sh \
	$(NULL)

# The harness, and the test of it.
check_PROGRAMS += tests/run
tests_run_SOURCES = \
	tests/cgroup_path.c \
	tests/cgroup_path.h \
	tests/leftovers.c \
	tests/leftovers.h \
	tests/run.c \
	$(NULL)
tests_run_LDADD =
tests_run_CPPFLAGS = \
	$(AM_CPPFLAGS) \
	-DPYTHON_PATH='"$(PYTHON)"' \
	-DTOP_SRCDIR='"$(abs_top_srcdir)"' \
	$(NULL)
dist_check_SCRIPTS += tests/harness.sh
LIMIT_KIT = tests/limit.c tests/limit.h
TOLD_KIT = tests/told.c tests/told.h
CGROUP_KIT = \
	tests/cgroup_kit.c \
	tests/cgroup_kit.h \
	tests/cgroup_path.c \
	tests/cgroup_path.h \
	$(NULL)
check_PROGRAMS += tests/bail
TESTS += tests/bail tests/harness.sh
tests_bail_SOURCES = \
	tests/bail.c \
	tests/daemon_helper.c \
	tests/daemon_helper.h \
	$(NULL)

# What rots where nothing runs it.
dist_check_SCRIPTS += \
	tests/headers.sh \
	tests/help.sh \
	tests/symbols.sh \
	tests/words.sh \
	$(NULL)
TESTS += \
	tests/headers.sh \
	tests/symbols.sh \
	tests/words.sh \
	$(NULL)

# This protocol and the previous one.
dist_check_SCRIPTS += tests/protocols.sh
TESTS += tests/protocols.sh
EXTRA_DIST += tests/protocols.list

# What says the same whatever was built with whatever options: texts and links,
# models, and a wheel, which has a build of its own.
AGAIN_EXCEPT = \
	$(MODEL_TESTS) \
	tests/headers.sh \
	tests/help.sh \
	tests/models_ring.sh \
	tests/py_stubs.py \
	tests/symbols.sh \
	tests/units.sh \
	tests/wheel.py \
	tests/words.sh \
	$(NULL)
.PHONY: check-again
check-again: all
	$(MAKE) $(AM_MAKEFLAGS) check-but EXCEPT="$(AGAIN_EXCEPT)"

# And what says the same to whoever runs it: it computes in memory of its own,
# and asks the system for nothing that one user has and another has not. A wheel
# is for those who are not root.
USER_EXCEPT = \
	$(FUZZ_TESTS) \
	$(LAYOUT_TESTS) \
	$(MODEL_TESTS) \
	$(RING_TESTS) \
	tests/convert \
	tests/convert_numpy.py \
	tests/headers.sh \
	tests/help.sh \
	tests/models_ring.sh \
	tests/move \
	tests/move_bytes \
	tests/nest \
	tests/number \
	tests/print \
	tests/print_numpy.py \
	tests/py_stubs.py \
	tests/read_plan \
	tests/symbols.sh \
	tests/table_crash \
	tests/table_readers \
	tests/units.sh \
	tests/view_numpy.py \
	tests/words.sh \
	$(NULL)
.PHONY: check-user
check-user: all
	$(MAKE) $(AM_MAKEFLAGS) check-but EXCEPT="$(USER_EXCEPT)"

# The suite but for EXCEPT, each of which must be a test's name; what is left
# out is said.
.PHONY: check-but
check-but: all
	all=" "$$(echo $(TESTS))" "; tests=; \
	for t in $(EXCEPT); do \
		case "$$all" in *" $$t "*) ;; *) echo "no test $$t"; exit 1 ;; esac; \
	done; \
	for t in $(TESTS); do \
		case " "$$(echo $(EXCEPT))" " in \
		*" $$t "*) echo "left out: $$t" ;; \
		*) tests="$$tests $$t" ;; \
		esac; \
	done; \
	$(MAKE) $(AM_MAKEFLAGS) check TESTS="$$tests"

# The C tests under valgrind, except those that race processes or kill them a
# thousand times: it runs one thread at a time, and a race takes it for ever.
VALGRIND_EXCEPT = \
	tests/lease \
	tests/restart_storm \
	tests/soak \
	tests/table_crash \
	tests/table_readers \
	$(NULL)
VALGRIND = valgrind -q --leak-check=full --errors-for-leak-kinds=definite \
	--show-leak-kinds=definite --error-exitcode=97
.PHONY: check-valgrind
check-valgrind: all
	tests=; for t in $(TESTS); do \
		case " $(VALGRIND_EXCEPT) $$t" in \
		*.sh|*.py|*" $$t "*) ;; \
		*) tests="$$tests $$t" ;; \
		esac; \
	done; \
	TARN_TEST_SAMPLE=31 TARN_TEST_TIMEOUT=300 \
	$(MAKE) $(AM_MAKEFLAGS) check TESTS="$$tests" \
		LOG_COMPILER='tests/run$(EXEEXT) ./libtool --mode=execute $(VALGRIND)'

# Those that move bytes between files and memory, for an engine that TARN_IO
# names.
ENGINE_TESTS = \
	tests/cli_copy.sh \
	tests/cli_save.sh \
	tests/cli_store.sh \
	tests/copy \
	tests/copy_numpy.py \
	tests/copy_read \
	tests/copy_read_fails \
	tests/copy_relay \
	tests/copy_write \
	tests/copy_write_fails \
	tests/daemon_load_hostile \
	tests/daemon_loads \
	tests/daemon_wedge \
	tests/evict \
	tests/fill \
	tests/fill_fails \
	tests/fill_faults \
	tests/io_engine \
	tests/load_again \
	tests/load_file \
	tests/load_gone \
	tests/load_shards \
	tests/load_verified \
	tests/loader \
	tests/loader_bad \
	$(POOL_TESTS) \
	tests/publish \
	tests/restart_load \
	tests/save \
	tests/save_faults \
	tests/save_power \
	tests/save_refused \
	tests/shards \
	tests/soak \
	tests/storage \
	tests/store \
	tests/stream \
	tests/stream_attack \
	tests/stream_file \
	tests/stream_holds \
	tests/stream_poll \
	tests/stream_slots \
	tests/stream_stuck \
	tests/verify \
	$(NULL)
.PHONY: check-engine
check-engine: all
	$(MAKE) $(AM_MAKEFLAGS) check TESTS="$(ENGINE_TESTS)"

# Those in which threads share memory, in a build with --enable-sanitizers=thread.
# ThreadSanitizer follows locks and atomics, but no fence and nothing between
# processes: what stands on fences is for spin (tests/models) and for the tests
# that race it (lease, table_readers). A report by the daemon, which the library
# outlives, is looked for in the logs.
TSAN_TESTS = \
	tests/channel_fd \
	tests/channel_fork \
	tests/channel_handles \
	tests/channel_threads \
	tests/copy_read \
	tests/copy_read_fails \
	tests/evict \
	tests/file_lock \
	tests/file_map \
	tests/io_engine \
	tests/lease \
	tests/lease_book \
	tests/move \
	tests/mutable \
	tests/private \
	tests/private_held \
	tests/publish_life \
	tests/publish_sealed \
	tests/publish_threads \
	tests/restart \
	tests/ring_quiet \
	tests/ring_threads \
	tests/ring_wait \
	tests/ring_watch \
	tests/storage \
	tests/store \
	tests/store_fake \
	tests/store_fork \
	tests/store_fork_calls \
	tests/store_fork_who \
	tests/store_resume \
	tests/store_wait \
	tests/store_wait_file \
	tests/stream \
	tests/stream_holds \
	tests/stream_poll \
	tests/stream_slots \
	tests/stream_stuck \
	$(NULL)
.PHONY: build-tsan check-tsan
build-tsan: all
	$(MAKE) $(AM_MAKEFLAGS) check TESTS= \
		check_PROGRAMS="tests/run $(TSAN_TESTS)"
check-tsan: all
	$(MAKE) $(AM_MAKEFLAGS) check TESTS="$(TSAN_TESTS)" \
		check_PROGRAMS="tests/run $(TSAN_TESTS)"
	! grep -A 20 'WARNING: ThreadSanitizer' $(TSAN_TESTS:=.log)

# Layouts.
LAYOUT_TESTS = \
	tests/dtype \
	tests/layout_expr \
	tests/layout_make \
	tests/layout_pairs \
	tests/reshape_explain \
	$(NULL)
check_PROGRAMS += $(LAYOUT_TESTS)
TESTS += $(LAYOUT_TESTS)
check_PROGRAMS += tests/apply_tool
dist_check_SCRIPTS += tests/view_cli.sh tests/view_numpy.py
TESTS += tests/view_cli.sh tests/view_numpy.py
tests_layout_expr_SOURCES = tests/layout_expr.c tests/layout_text.h
tests_layout_pairs_SOURCES = tests/layout_pairs.c tests/layout_text.h

# The Python module; each skips itself where that is not built.
EXTRA_DIST += tests/py_kit.py tests/py_loader_kit.py tests/tap.py
PYTHON_TESTS = \
	tests/py_arrays.py \
	tests/py_examples.py \
	tests/py_channel.py \
	tests/py_channel_fork.py \
	tests/py_channel_pool.py \
	tests/py_channel_put.py \
	tests/py_copies.py \
	tests/py_pack.py \
	tests/py_pack_hostile.py \
	tests/py_loader.py \
	tests/py_loader_again.py \
	tests/py_loader_batches.py \
	tests/py_loader_copies.py \
	tests/py_loader_faults.py \
	tests/py_loader_state.py \
	tests/py_readme.py \
	tests/py_safe_open.py \
	tests/py_store.py \
	tests/py_stubs.py \
	tests/py_tensor.py \
	tests/py_torch.py \
	tests/py_views.py \
	$(NULL)
dist_check_SCRIPTS += $(PYTHON_TESTS) tests/wheel.py
TESTS += $(PYTHON_TESTS)

# The daemon's parts that stand alone.
DAEMON_LIBS = tests/libtap.la daemon/libdaemon.la
check_PROGRAMS += \
	tests/alloc \
	tests/close_from \
	tests/headroom \
	tests/headroom_cgroup \
	tests/loop \
	tests/populate \
	$(NULL)
TESTS += \
	tests/alloc \
	tests/close_from \
	tests/headroom \
	tests/headroom_cgroup \
	tests/loop \
	tests/populate \
	$(NULL)
tests_alloc_SOURCES = tests/alloc.c
tests_alloc_LDADD = $(DAEMON_LIBS)
tests_close_from_SOURCES = tests/close_from.c
tests_close_from_LDADD = $(DAEMON_LIBS)
tests_headroom_SOURCES = tests/headroom.c
tests_headroom_LDADD = $(DAEMON_LIBS)
tests_headroom_cgroup_SOURCES = \
	$(CGROUP_KIT) \
	tests/headroom_cgroup.c \
	$(NULL)
tests_headroom_cgroup_LDADD = $(DAEMON_LIBS)
tests_loop_SOURCES = tests/loop.c
tests_loop_LDADD = $(DAEMON_LIBS)
tests_populate_SOURCES = tests/populate.c
tests_populate_LDADD = $(DAEMON_LIBS)
check_PROGRAMS += tests/loader tests/loader_bad
TESTS += tests/loader tests/loader_bad
tests_loader_SOURCES = \
	tests/loader.c \
	tests/loader_kit.c \
	tests/loader_kit.h \
	$(NULL)
tests_loader_LDADD = $(DAEMON_LIBS)
tests_loader_bad_SOURCES = \
	tests/loader_bad.c \
	tests/loader_kit.c \
	tests/loader_kit.h \
	$(NULL)
tests_loader_bad_LDADD = $(DAEMON_LIBS)

# A server that dies, and what the keeper holds for the next.
check_PROGRAMS += tests/kept
TESTS += tests/kept
tests_kept_SOURCES = tests/kept.c
tests_kept_LDADD = $(DAEMON_LIBS)
RESTART_KIT = \
	tests/catch.c \
	tests/catch.h \
	tests/daemon_helper.c \
	tests/daemon_helper.h \
	tests/raw_client.c \
	tests/raw_client.h \
	tests/restart_kit.c \
	tests/restart_kit.h \
	tests/witness.c \
	tests/witness.h \
	$(NULL)
check_PROGRAMS += \
	tests/restart \
	tests/restart_leases \
	tests/restart_load \
	tests/restart_parked \
	tests/restart_storm \
	$(NULL)
TESTS += \
	tests/restart \
	tests/restart_leases \
	tests/restart_load \
	tests/restart_parked \
	tests/restart_storm \
	$(NULL)
# valgrind would watch the test, not the daemon.
VALGRIND_EXCEPT += tests/restart_load tests/restart_parked
tests_restart_SOURCES = tests/restart.c $(RESTART_KIT)
tests_restart_leases_SOURCES = tests/restart_leases.c $(RESTART_KIT)
tests_restart_load_SOURCES = \
	tests/restart_load.c \
	tests/fuse_hang.c \
	tests/fuse_hang.h \
	$(RESTART_KIT)
tests_restart_parked_SOURCES = \
	tests/parcel.c \
	tests/parcel.h \
	tests/restart_parked.c \
	$(RESTART_KIT)
tests_restart_storm_SOURCES = tests/restart_storm.c $(RESTART_KIT)

# Tensors.
check_PROGRAMS += \
	tests/move \
	tests/move_bytes \
	tests/nest \
	tests/read_plan \
	tests/convert \
	tests/number \
	tests/storage \
	tests/tensor \
	tests/tensor_copy \
	tests/tensor_create \
	$(NULL)
TESTS += \
	tests/move \
	tests/move_bytes \
	tests/nest \
	tests/read_plan \
	tests/convert \
	tests/number \
	tests/storage \
	tests/tensor \
	tests/tensor_copy \
	tests/tensor_create \
	$(NULL)
check_PROGRAMS += tests/convert_tool
dist_check_SCRIPTS += tests/convert_numpy.py
TESTS += tests/convert_numpy.py
tests_convert_SOURCES = \
	tests/convert.c \
	tests/convert_oracle.c \
	tests/convert_oracle.h \
	$(NULL)
tests_convert_CFLAGS = $(AM_CFLAGS) $(TARN_VECTOR_CFLAGS)
MOVE_KIT = tests/move_kit.c tests/move_kit.h
tests_move_SOURCES = tests/move.c $(MOVE_KIT)
tests_move_bytes_SOURCES = tests/move_bytes.c $(MOVE_KIT)
check_PROGRAMS += tests/print tests/print_tool
TESTS += tests/print tests/print_numpy.py
dist_check_SCRIPTS += tests/print_numpy.py

# The verb, and streams of it.
COPY_TESTS = \
	tests/copy \
	tests/copy_read \
	tests/copy_read_fails \
	tests/copy_relay \
	tests/copy_write \
	tests/copy_write_fails \
	tests/stream \
	tests/stream_attack \
	tests/stream_file \
	tests/stream_holds \
	tests/stream_poll \
	tests/stream_slots \
	tests/stream_stuck \
	$(NULL)
check_PROGRAMS += $(COPY_TESTS) tests/copy_tool
dist_check_SCRIPTS += tests/copy_numpy.py
TESTS += $(COPY_TESTS) tests/copy_numpy.py
COPY_READ_KIT = \
	tests/copy_read_kit.c \
	tests/copy_read_kit.h \
	tests/filling.h \
	$(NULL)
tests_copy_read_SOURCES = \
	tests/copy_read.c \
	tests/loop_device.c \
	tests/loop_device.h \
	$(COPY_READ_KIT)
tests_copy_read_fails_SOURCES = \
	tests/copy_read_fails.c \
	tests/fault_engine.c \
	tests/fault_engine.h \
	$(COPY_READ_KIT)
tests_copy_relay_SOURCES = tests/copy_relay.c tests/written.h
tests_copy_write_SOURCES = tests/copy_write.c tests/written.h
tests_copy_write_fails_SOURCES = tests/copy_write_fails.c tests/written.h
STREAM_KIT = tests/stream_kit.h tests/written.h
tests_stream_attack_SOURCES = \
	tests/stream_attack.c \
	tests/stream_forms.c \
	tests/stream_forms.h \
	$(STREAM_KIT)
tests_stream_poll_SOURCES = tests/stream_poll.c $(STREAM_KIT)
tests_stream_stuck_SOURCES = tests/stream_stuck.c $(LIMIT_KIT) $(STREAM_KIT)

# shm: the control region, leases, segments, messages.
check_PROGRAMS += \
	tests/lease \
	tests/segment_seal \
	tests/table \
	tests/table_crash \
	tests/table_hostile \
	tests/table_readers \
	tests/wire \
	tests/wire_short \
	$(NULL)
TESTS += \
	tests/lease \
	tests/segment_seal \
	tests/table \
	tests/table_crash \
	tests/table_hostile \
	tests/table_readers \
	tests/wire \
	tests/wire_short \
	$(NULL)
WIRE_KIT = tests/wire_kit.c tests/wire_kit.h
tests_wire_SOURCES = tests/wire.c $(WIRE_KIT)
tests_wire_short_SOURCES = tests/wire_short.c $(WIRE_KIT) $(LIMIT_KIT)
VALGRIND_EXCEPT += tests/table_crash tests/table_readers

# shm: the ring of a channel.
RING_TESTS = \
	tests/ring \
	tests/ring_dead \
	tests/ring_full \
	tests/ring_hostile \
	tests/ring_kill \
	tests/ring_late \
	tests/ring_quiet \
	tests/ring_threads \
	tests/ring_wait \
	tests/ring_watch \
	$(NULL)
check_PROGRAMS += $(RING_TESTS)
TESTS += $(RING_TESTS)
RING_KIT = tests/ring_kit.c tests/ring_kit.h
tests_ring_SOURCES = tests/ring.c $(RING_KIT)
tests_ring_dead_SOURCES = tests/ring_dead.c $(RING_KIT)
tests_ring_full_SOURCES = tests/ring_full.c $(RING_KIT)
tests_ring_hostile_SOURCES = tests/ring_hostile.c $(RING_KIT)
tests_ring_late_SOURCES = tests/ring_late.c $(RING_KIT)
tests_ring_quiet_SOURCES = tests/ring_quiet.c $(RING_KIT)
tests_ring_threads_SOURCES = tests/ring_threads.c $(RING_KIT)
tests_ring_wait_SOURCES = tests/ring_wait.c $(RING_KIT)
tests_ring_watch_SOURCES = tests/ring_watch.c $(RING_KIT)
VALGRIND_EXCEPT += tests/ring_kill tests/ring_late tests/ring_quiet
VALGRIND_EXCEPT += tests/ring_threads tests/ring_wait tests/ring_watch
VALGRIND_EXCEPT += tests/channel_fork tests/channel_soak tests/channel_threads

# Channels, from the server's side.
CHANNEL_DAEMON_TESTS = \
	tests/brief \
	tests/channel \
	tests/channel_hostile \
	tests/channel_restart \
	tests/channel_storm \
	tests/server_channel \
	tests/server_channel_end \
	tests/server_channel_hostile \
	tests/server_channel_search \
	$(NULL)
check_PROGRAMS += $(CHANNEL_DAEMON_TESTS)
TESTS += $(CHANNEL_DAEMON_TESTS)
tests_channel_hostile_SOURCES = \
	tests/channel_hostile.c \
	tests/parcel.c \
	tests/parcel.h \
	$(RESTART_KIT)
tests_channel_restart_SOURCES = \
	tests/channel_restart.c \
	tests/upgrade_kit.c \
	tests/upgrade_kit.h \
	$(RESTART_KIT)
tests_channel_storm_SOURCES = tests/channel_storm.c $(RESTART_KIT)
VALGRIND_EXCEPT += tests/channel_storm
SERVER_CHANNEL_KIT = tests/server_channel_kit.c tests/server_channel_kit.h
tests_server_channel_SOURCES = tests/server_channel.c $(SERVER_CHANNEL_KIT)
tests_server_channel_LDADD = $(DAEMON_LIBS)
tests_server_channel_end_SOURCES = \
	tests/server_channel_end.c \
	$(SERVER_CHANNEL_KIT)
tests_server_channel_end_LDADD = $(DAEMON_LIBS)
tests_server_channel_hostile_SOURCES = \
	tests/server_channel_hostile.c \
	$(SERVER_CHANNEL_KIT)
tests_server_channel_hostile_LDADD = $(DAEMON_LIBS)
tests_server_channel_search_SOURCES = \
	tests/server_channel_search.c \
	$(SERVER_CHANNEL_KIT)
tests_server_channel_search_LDADD = $(DAEMON_LIBS)
tests_server_channel_search_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=lease_batch_search \
	-Wl,--wrap=channel_search \
	$(NULL)

# Channels, through a daemon.
CHANNEL_TESTS = \
	tests/channel_calls \
	tests/channel_fd \
	tests/channel_fork \
	tests/channel_handles \
	tests/channel_late \
	tests/channel_left \
	tests/channel_names \
	tests/channel_pages \
	tests/channel_records \
	tests/channel_send \
	tests/channel_soak \
	tests/channel_threads \
	$(NULL)
check_PROGRAMS += $(CHANNEL_TESTS)
TESTS += $(CHANNEL_TESTS)
CHANNEL_KIT = \
	tests/channel_kit.c \
	tests/channel_kit.h \
	tests/daemon_helper.c \
	tests/daemon_helper.h \
	$(NULL)
tests_channel_calls_SOURCES = tests/channel_calls.c $(CHANNEL_KIT)
tests_channel_fd_SOURCES = tests/channel_fd.c $(CHANNEL_KIT)
tests_channel_fork_SOURCES = tests/channel_fork.c $(CHANNEL_KIT)
tests_channel_handles_SOURCES = tests/channel_handles.c $(CHANNEL_KIT)
tests_channel_late_SOURCES = tests/channel_late.c $(CHANNEL_KIT)
tests_channel_left_SOURCES = tests/channel_left.c $(CHANNEL_KIT)
tests_channel_names_SOURCES = tests/channel_names.c $(CHANNEL_KIT)
tests_channel_pages_SOURCES = tests/channel_pages.c $(CHANNEL_KIT)
tests_channel_pages_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=headroom_check \
	-Wl,--wrap=calloc
tests_channel_records_SOURCES = tests/channel_records.c $(CHANNEL_KIT)
tests_channel_send_SOURCES = tests/channel_send.c $(CHANNEL_KIT)
tests_channel_soak_SOURCES = \
	tests/channel_kit.c \
	tests/channel_kit.h \
	tests/channel_soak.c \
	tests/channel_soak.h \
	tests/channel_soak_worker.c \
	$(RESTART_KIT)
tests_channel_threads_SOURCES = tests/channel_threads.c $(CHANNEL_KIT)

# Names that end, and who waits for names and bytes.
WAIT_TESTS = \
	tests/file_lock \
	tests/mutable \
	tests/publish_life \
	tests/store_wait \
	tests/store_wait_file \
	tests/table_expiry \
	$(NULL)
check_PROGRAMS += $(WAIT_TESTS)
dist_check_SCRIPTS += tests/cli_wait.sh
TESTS += $(WAIT_TESTS) tests/cli_wait.sh
tests_mutable_SOURCES = \
	tests/daemon_helper.c \
	tests/daemon_helper.h \
	tests/mutable.c \
	$(NULL)
tests_publish_life_SOURCES = \
	tests/daemon_helper.c \
	tests/daemon_helper.h \
	tests/publish_life.c \
	$(NULL)
tests_store_wait_SOURCES = \
	tests/daemon_helper.c \
	tests/daemon_helper.h \
	tests/store_wait.c \
	$(NULL)
tests_store_wait_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=store_import
tests_store_wait_file_SOURCES = \
	tests/daemon_helper.c \
	tests/daemon_helper.h \
	tests/fake_daemon.c \
	tests/fake_daemon.h \
	tests/store_wait_file.c \
	$(NULL)

# Leases, from both sides.
check_PROGRAMS += \
	tests/evict \
	tests/lease_book \
	tests/lease_pages \
	tests/private \
	tests/private_held \
	tests/reap \
	tests/store_fork \
	tests/store_fork_calls \
	tests/store_fork_who \
	$(NULL)
TESTS += \
	tests/evict \
	tests/lease_book \
	tests/lease_pages \
	tests/private \
	tests/private_held \
	tests/reap \
	tests/store_fork \
	tests/store_fork_calls \
	tests/store_fork_who \
	$(NULL)
tests_evict_SOURCES = \
	tests/daemon_helper.c \
	tests/daemon_helper.h \
	tests/evict.c \
	$(NULL)
PRIVATE_KIT = \
	tests/daemon_helper.c \
	tests/daemon_helper.h \
	tests/private_kit.c \
	tests/private_kit.h \
	$(NULL)
tests_private_SOURCES = tests/private.c $(PRIVATE_KIT)
tests_private_held_SOURCES = tests/private_held.c $(PRIVATE_KIT)
tests_reap_SOURCES = tests/reap.c
tests_reap_LDADD = $(DAEMON_LIBS)
tests_reap_LDFLAGS = -Wl,--wrap=lease_batch_search
tests_lease_pages_SOURCES = tests/lease_pages.c $(DAEMON_KIT)
STORE_FORK_KIT = \
	tests/daemon_helper.c \
	tests/daemon_helper.h \
	tests/store_fork_kit.c \
	tests/store_fork_kit.h \
	$(NULL)
tests_store_fork_SOURCES = tests/store_fork.c $(STORE_FORK_KIT)
tests_store_fork_calls_SOURCES = tests/store_fork_calls.c $(STORE_FORK_KIT)
tests_store_fork_who_SOURCES = \
	tests/raw_client.c \
	tests/raw_client.h \
	tests/store_fork_who.c \
	tests/witness.c \
	tests/witness.h \
	$(STORE_FORK_KIT) \
	$(TOLD_KIT)
VALGRIND_EXCEPT += tests/lease_pages tests/private tests/private_held
VALGRIND_EXCEPT += tests/store_fork tests/store_fork_calls tests/store_fork_who

# The protocols, model-checked.
EXTRA_DIST += \
	tests/models/README \
	tests/models/channel.pml \
	tests/models/lease.pml \
	tests/models/resume.pml \
	tests/models/ring.pml \
	tests/models/ring_cast.pml \
	tests/models/ring_full.pml \
	tests/models/ring_rest.pml \
	tests/models/ring_wait.pml \
	tests/models/table.pml \
	tests/models_kit.sh \
	$(NULL)
MODEL_TESTS = \
	tests/models_channel.sh \
	tests/models_lease.sh \
	tests/models_lease_broken.sh \
	tests/models_names.sh \
	tests/models_ring_cast.sh \
	tests/models_ring_full.sh \
	tests/models_ring_rest.sh \
	tests/models_ring_wait.sh \
	$(NULL)
dist_check_SCRIPTS += $(MODEL_TESTS) tests/models_ring.sh
TESTS += $(MODEL_TESTS)

# Memory that runs out: a module to preload, and what it is preloaded into.
check_LTLIBRARIES += tests/libfail_alloc.la
tests_libfail_alloc_la_SOURCES = tests/fail_alloc.c tests/fail_alloc.h
tests_libfail_alloc_la_LDFLAGS = -module -avoid-version -rpath /nowhere
FAIL_TESTS = \
	tests/fail_call \
	tests/fail_daemon \
	tests/fail_fresh \
	tests/fail_keep \
	tests/fail_library \
	$(NULL)
check_PROGRAMS += $(FAIL_TESTS)
TESTS += $(FAIL_TESTS)
VALGRIND_EXCEPT += $(FAIL_TESTS)
FAIL_KIT = \
	tests/daemon_helper.c \
	tests/daemon_helper.h \
	tests/fail_alloc.h \
	tests/fail_kit.c \
	tests/fail_kit.h \
	$(NULL)
tests_fail_call_SOURCES = tests/fail_call.c $(FAIL_KIT)
tests_fail_daemon_SOURCES = tests/fail_daemon.c $(FAIL_KIT)
tests_fail_fresh_SOURCES = tests/fail_fresh.c $(FAIL_KIT)
tests_fail_keep_SOURCES = tests/fail_keep.c $(FAIL_KIT)
tests_fail_library_SOURCES = tests/fail_library.c $(FAIL_KIT)

# Files.
check_PROGRAMS += \
	tests/eight \
	tests/file_map \
	tests/file_tool \
	tests/head \
	tests/fuzz_files \
	tests/load_file \
	tests/npy \
	tests/replace \
	tests/safetensors \
	tests/safetensors_cases \
	tests/safetensors_plain \
	tests/shards \
	$(NULL)
dist_check_SCRIPTS += \
	tests/make_checkpoint.py \
	tests/npy_numpy.py \
	$(NULL)
TESTS += \
	tests/eight \
	tests/file_map \
	tests/fuzz_files \
	tests/make_checkpoint.py \
	tests/head \
	tests/load_file \
	tests/npy \
	tests/npy_numpy.py \
	tests/replace \
	tests/safetensors \
	tests/safetensors_cases \
	tests/safetensors_plain \
	tests/shards \
	$(NULL)
tests_file_map_SOURCES = \
	tests/file_bytes.c \
	tests/file_bytes.h \
	tests/file_map.c \
	$(NULL)
tests_load_file_SOURCES = \
	tests/file_bytes.c \
	tests/file_bytes.h \
	tests/load_file.c \
	$(NULL)
tests_fuzz_files_SOURCES = \
	tests/file_bytes.c \
	tests/file_bytes.h \
	tests/fuzz_files.c \
	$(NULL)
tests_fuzz_files_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_fuzz_files_LDADD = $(WHITEBOX_LIBS) $(JANSSON_LIBS)
tests_npy_SOURCES = tests/file_bytes.c tests/file_bytes.h tests/npy.c
tests_safetensors_plain_SOURCES = \
	tests/file_bytes.c \
	tests/file_bytes.h \
	tests/safetensors_plain.c \
	$(NULL)
tests_safetensors_plain_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_shards_SOURCES = \
	tests/file_bytes.c \
	tests/file_bytes.h \
	tests/shards.c \
	$(LIMIT_KIT)
tests_safetensors_SOURCES = \
	tests/file_bytes.c \
	tests/file_bytes.h \
	tests/safetensors.c \
	$(NULL)

# Saving and verifying.
SAVE_TESTS = \
	tests/load_shards \
	tests/load_verified \
	tests/save \
	tests/save_faults \
	tests/save_power \
	tests/save_refused \
	tests/verify \
	$(NULL)
check_PROGRAMS += $(SAVE_TESTS) tests/save_tool
dist_check_SCRIPTS += tests/save_reference.py
TESTS += $(SAVE_TESTS) tests/save_reference.py
SAVE_KIT = tests/save_kit.c tests/save_kit.h
SAVE_CALLS = tests/save_calls.c tests/save_calls.h $(SAVE_KIT)
tests_load_shards_SOURCES = \
	tests/daemon_helper.c \
	tests/daemon_helper.h \
	tests/load_shards.c \
	$(SAVE_KIT)
VALGRIND_EXCEPT += tests/load_shards
tests_load_verified_SOURCES = \
	tests/daemon_helper.c \
	tests/daemon_helper.h \
	tests/load_verified.c \
	$(SAVE_KIT)
VALGRIND_EXCEPT += tests/load_verified
tests_save_SOURCES = tests/save.c $(SAVE_KIT)
tests_save_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
tests_save_faults_SOURCES = tests/save_faults.c $(SAVE_CALLS)
tests_save_power_SOURCES = tests/save_power.c $(SAVE_CALLS)
tests_save_refused_SOURCES = tests/save_refused.c $(SAVE_KIT)
tests_verify_SOURCES = tests/verify.c $(SAVE_KIT)
tests_verify_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)

# The I/O engines, and fills on them.
check_PROGRAMS += \
	tests/fill \
	tests/fill_fails \
	tests/fill_faults \
	tests/io_engine \
	tests/road \
	$(NULL)
TESTS += \
	tests/fill \
	tests/fill_fails \
	tests/fill_faults \
	tests/io_engine \
	tests/road \
	$(NULL)
tests_fill_SOURCES = tests/fill.c tests/filling.h
tests_fill_fails_SOURCES = tests/fill_fails.c tests/filling.h
tests_fill_faults_SOURCES = \
	tests/fault_engine.c \
	tests/fault_engine.h \
	tests/fill_faults.c \
	tests/filling.h \
	$(NULL)
tests_io_engine_SOURCES = tests/filling.h tests/io_engine.c
tests_road_SOURCES = \
	tests/filling.h \
	tests/loop_device.c \
	tests/loop_device.h \
	tests/road.c \
	$(NULL)

# The client, against a daemon that the test plays itself.
check_PROGRAMS += \
	tests/descriptor \
	tests/socket_path \
	tests/store_fake \
	tests/store_resume \
	tests/store_short \
	$(NULL)
TESTS += \
	tests/descriptor \
	tests/socket_path \
	tests/store_fake \
	tests/store_resume \
	tests/store_short \
	$(NULL)
tests_descriptor_SOURCES = \
	tests/descriptor.c \
	tests/fake_daemon.c \
	tests/fake_daemon.h \
	$(NULL)
tests_store_fake_SOURCES = \
	tests/fake_daemon.c \
	tests/fake_daemon.h \
	tests/store_fake.c \
	$(NULL)
tests_store_resume_SOURCES = \
	tests/fake_daemon.c \
	tests/fake_daemon.h \
	tests/store_resume.c \
	$(NULL)
tests_store_resume_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=clock_gettime \
	-Wl,--wrap=wire_push \
	-Wl,--wrap=wire_push_again
tests_store_short_SOURCES = \
	tests/fake_daemon.c \
	tests/fake_daemon.h \
	tests/store_short.c \
	$(LIMIT_KIT) \
	$(RESTART_KIT)
# What the kernel hands over is more than valgrind's own limit knows of.
VALGRIND_EXCEPT += tests/store_short

# The daemon under attack: each with a daemon of its own, an innocent client,
# and a look at the books afterwards.
DAEMON_KIT = \
	tests/daemon_helper.c \
	tests/daemon_helper.h \
	tests/raw_client.c \
	tests/raw_client.h \
	tests/witness.c \
	tests/witness.h \
	$(NULL)
DAEMON_TESTS = \
	tests/daemon_cgroup \
	tests/daemon_clients \
	tests/daemon_descriptors \
	tests/daemon_full \
	tests/daemon_garbage \
	tests/daemon_idle \
	tests/daemon_limits \
	tests/daemon_load_hostile \
	tests/daemon_loads \
	tests/daemon_wedge \
	tests/reader_cannot_write \
	$(NULL)
check_PROGRAMS += $(DAEMON_TESTS)
TESTS += $(DAEMON_TESTS)
# valgrind would watch the test, not the daemon.
VALGRIND_EXCEPT += $(DAEMON_TESTS)
tests_daemon_garbage_SOURCES = tests/daemon_garbage.c $(DAEMON_KIT)
tests_daemon_cgroup_SOURCES = \
	$(CGROUP_KIT) \
	tests/daemon_cgroup.c \
	$(DAEMON_KIT)
tests_daemon_clients_SOURCES = tests/daemon_clients.c $(DAEMON_KIT)
tests_daemon_descriptors_SOURCES = \
	tests/daemon_descriptors.c \
	tests/parcel.c \
	tests/parcel.h \
	$(RESTART_KIT)
tests_daemon_idle_SOURCES = tests/daemon_idle.c $(DAEMON_KIT)
tests_reader_cannot_write_SOURCES = tests/reader_cannot_write.c $(DAEMON_KIT)
tests_daemon_load_hostile_SOURCES = tests/daemon_load_hostile.c $(DAEMON_KIT)
tests_daemon_full_SOURCES = tests/daemon_full.c $(DAEMON_KIT)
tests_daemon_loads_SOURCES = \
	tests/catch.c \
	tests/catch.h \
	tests/daemon_loads.c \
	$(DAEMON_KIT)
tests_daemon_limits_SOURCES = tests/daemon_limits.c $(DAEMON_KIT)
tests_daemon_wedge_SOURCES = \
	tests/daemon_wedge.c \
	tests/fuse_hang.c \
	tests/fuse_hang.h \
	$(DAEMON_KIT)

# Growing and shrinking.
GROWTH_TESTS = \
	tests/daemon_pressure \
	tests/daemon_room \
	tests/pool_extent \
	tests/pressure \
	tests/pressure_stall \
	tests/server_pressure \
	tests/table_churn \
	tests/table_million \
	$(NULL)
check_PROGRAMS += $(GROWTH_TESTS) tests/daemon_shrink
TESTS += $(GROWTH_TESTS)
VALGRIND_EXCEPT += tests/daemon_room tests/daemon_shrink tests/table_million
tests_table_million_SOURCES = tests/table_million.c
tests_table_million_LDADD = $(DAEMON_LIBS)
VALGRIND_EXCEPT += tests/daemon_pressure
tests_daemon_pressure_SOURCES = \
	$(CGROUP_KIT) \
	tests/daemon_pressure.c \
	$(DAEMON_KIT)
tests_daemon_pressure_LDADD = $(DAEMON_LIBS)
VALGRIND_EXCEPT += tests/pressure_stall
tests_pressure_SOURCES = tests/pressure.c
tests_pressure_stall_SOURCES = \
	$(CGROUP_KIT) \
	tests/pressure_stall.c \
	$(DAEMON_KIT)
tests_pressure_stall_LDADD = $(DAEMON_LIBS)
tests_pressure_LDADD = $(DAEMON_LIBS)
tests_server_pressure_SOURCES = tests/server_pressure.c
tests_server_pressure_LDADD = $(DAEMON_LIBS)
tests_daemon_room_SOURCES = \
	tests/daemon_room.c \
	tests/parcel.c \
	tests/parcel.h \
	$(DAEMON_KIT)
tests_daemon_shrink_SOURCES = \
	$(CGROUP_KIT) \
	tests/daemon_shrink.c \
	$(DAEMON_KIT)

# The client, against the real daemon.
check_PROGRAMS += \
	tests/autostart \
	tests/store \
	$(NULL)
TESTS += \
	tests/autostart \
	tests/store \
	$(NULL)
tests_store_SOURCES = \
	tests/daemon_helper.c \
	tests/daemon_helper.h \
	tests/store.c \
	$(NULL)

# The command.
check_PROGRAMS += \
	tests/cli_channel \
	tests/cli_channel_watch \
	tests/cli_gauge \
	tests/cli_progress \
	tests/cli_rm \
	tests/cli_save_lock \
	$(NULL)
check_LTLIBRARIES += tests/libhold_sync.la
tests_libhold_sync_la_SOURCES = tests/hold_sync.c
tests_libhold_sync_la_LDFLAGS = -module -avoid-version -rpath /nowhere
EXTRA_DIST += tests/cli_kit.sh
dist_check_SCRIPTS += \
	tests/cli_copy.sh \
	tests/cli_copy_numpy.py \
	tests/cli_info.sh \
	tests/cli_numpy.py \
	tests/cli_save.sh \
	tests/cli_save_signal.py \
	tests/cli_shards.sh \
	tests/cli_store.sh \
	tests/cli_usage.sh \
	tests/cli_verify.sh \
	tests/daemon_path.sh \
	tests/daemon_started.sh \
	tests/daemon_streams.sh \
	$(NULL)
TESTS += \
	tests/cli_channel \
	tests/cli_channel_watch \
	tests/cli_copy.sh \
	tests/cli_copy_numpy.py \
	tests/cli_gauge \
	tests/cli_info.sh \
	tests/cli_numpy.py \
	tests/cli_progress \
	tests/cli_rm \
	tests/cli_save.sh \
	tests/cli_save_lock \
	tests/cli_save_signal.py \
	tests/cli_shards.sh \
	tests/cli_store.sh \
	tests/cli_usage.sh \
	tests/cli_verify.sh \
	tests/daemon_path.sh \
	tests/daemon_started.sh \
	tests/daemon_streams.sh \
	tests/help.sh \
	$(NULL)
CLI_CHANNEL_KIT = \
	tests/cli_channel_kit.c \
	tests/cli_channel_kit.h \
	$(CHANNEL_KIT)
tests_cli_channel_SOURCES = tests/cli_channel.c $(CLI_CHANNEL_KIT)
tests_cli_channel_watch_SOURCES = tests/cli_channel_watch.c $(CLI_CHANNEL_KIT)
tests_cli_gauge_SOURCES = cli/gauge.c tests/cli_gauge.c
tests_cli_gauge_LDADD = tests/libtap.la
tests_cli_progress_SOURCES = \
	cli/ending.c \
	cli/progress.c \
	cli/text.c \
	tests/cli_progress.c \
	$(NULL)
tests_cli_progress_LDADD = tests/libtap.la
tests_cli_rm_SOURCES = \
	tests/cli_rm.c \
	tests/daemon_helper.c \
	tests/daemon_helper.h \
	$(NULL)
tests_cli_save_lock_SOURCES = \
	tests/cli_save_lock.c \
	tests/daemon_helper.c \
	tests/daemon_helper.h \
	$(NULL)

# What people on call see: the log, reports, checks.
check_PROGRAMS += \
	tests/daemon_drain \
	tests/log \
	tests/report \
	tests/server_check \
	tests/systemd \
	tests/table_check \
	$(NULL)
dist_check_SCRIPTS += \
	tests/check_crash.sh \
	tests/daemon_log.py \
	tests/metrics.py \
	tests/units.sh \
	$(NULL)
TESTS += \
	tests/check_crash.sh \
	tests/daemon_drain \
	tests/daemon_log.py \
	tests/log \
	tests/metrics.py \
	tests/report \
	tests/server_check \
	tests/systemd \
	tests/table_check \
	tests/units.sh \
	$(NULL)
tests_daemon_drain_SOURCES = tests/daemon_drain.c $(DAEMON_KIT)
tests_systemd_SOURCES = tests/systemd.c $(DAEMON_KIT)
VALGRIND_EXCEPT += tests/daemon_drain tests/systemd
tests_server_check_SOURCES = tests/server_check.c
tests_server_check_LDADD = $(DAEMON_LIBS)
tests_report_SOURCES = \
	tests/fake_daemon.c \
	tests/fake_daemon.h \
	tests/report.c \
	$(DAEMON_KIT)
VALGRIND_EXCEPT += tests/report tests/table_check
tests_log_SOURCES = tests/log.c
tests_log_LDADD = $(DAEMON_LIBS)

# The examples that people read first.
dist_check_SCRIPTS += tests/examples.sh
TESTS += tests/examples.sh

# The configuration, and pools that users share.
dist_check_SCRIPTS += tests/conf.sh
TESTS += tests/conf.sh

# What clients publish.
PUBLISH_TESTS = \
	tests/publish \
	tests/publish_again \
	tests/publish_busy \
	tests/publish_hostile \
	tests/publish_memory \
	tests/publish_restart \
	tests/publish_sealed \
	tests/publish_threads \
	tests/remove_again \
	tests/publish_unread \
	$(NULL)
check_PROGRAMS += $(PUBLISH_TESTS)
TESTS += $(PUBLISH_TESTS)
VALGRIND_EXCEPT += $(PUBLISH_TESTS)
dist_check_SCRIPTS += tests/cli_put.sh
TESTS += tests/cli_put.sh
tests_publish_SOURCES = \
	tests/daemon_helper.c \
	tests/daemon_helper.h \
	tests/publish.c \
	$(NULL)
AGAIN_KIT = tests/again_kit.c tests/again_kit.h $(RESTART_KIT)
tests_publish_again_SOURCES = tests/publish_again.c $(AGAIN_KIT)
tests_publish_busy_SOURCES = \
	tests/parcel.c \
	tests/parcel.h \
	tests/publish_busy.c \
	$(DAEMON_KIT)
tests_publish_unread_SOURCES = tests/publish_unread.c $(DAEMON_KIT)
PUBLISH_KIT = \
	tests/parcel.c \
	tests/parcel.h \
	tests/publish_kit.c \
	tests/publish_kit.h \
	$(DAEMON_KIT)
tests_publish_hostile_SOURCES = \
	tests/catch.c \
	tests/catch.h \
	tests/publish_hostile.c \
	$(PUBLISH_KIT)
tests_publish_memory_SOURCES = tests/publish_memory.c $(PUBLISH_KIT)
tests_publish_restart_SOURCES = tests/publish_restart.c $(DAEMON_KIT)
tests_publish_sealed_SOURCES = tests/publish_sealed.c $(DAEMON_KIT)
tests_publish_threads_SOURCES = \
	tests/daemon_helper.c \
	tests/daemon_helper.h \
	tests/publish_threads.c \
	$(NULL)
tests_remove_again_SOURCES = tests/remove_again.c $(AGAIN_KIT)

# The trust model: what the man page promises, line by line.
SECURITY_TESTS = \
	tests/security_channel \
	tests/security_mutable \
	tests/security_uids \
	$(NULL)
check_PROGRAMS += $(SECURITY_TESTS)
dist_check_SCRIPTS += tests/security.sh
TESTS += $(SECURITY_TESTS) tests/security.sh
VALGRIND_EXCEPT += $(SECURITY_TESTS)
tests_security_channel_SOURCES = tests/security_channel.c $(POOL_KIT)
tests_security_mutable_SOURCES = tests/security_mutable.c $(POOL_KIT)
tests_security_uids_SOURCES = tests/security_uids.c $(DAEMON_KIT)
POOL_KIT = \
	tests/daemon_helper.c \
	tests/daemon_helper.h \
	tests/pool_kit.c \
	tests/pool_kit.h \
	tests/raw_client.c \
	tests/raw_client.h \
	$(NULL)
POOL_DEEDS = tests/pool_deeds.c tests/pool_deeds.h $(POOL_KIT)
POOL_TESTS = \
	tests/pools \
	tests/pools_reload \
	tests/pools_users \
	$(NULL)
check_PROGRAMS += $(POOL_TESTS)
TESTS += $(POOL_TESTS)
VALGRIND_EXCEPT += $(POOL_TESTS)
tests_pools_SOURCES = tests/pools.c $(POOL_DEEDS)
tests_pools_reload_SOURCES = tests/pools_reload.c $(POOL_DEEDS)
tests_pools_users_SOURCES = tests/pools_users.c $(POOL_DEEDS)

# A minute of kills; by hand for longer: tests/soak --seconds N.
check_PROGRAMS += tests/soak
tests_soak_SOURCES = \
	tests/daemon_helper.c \
	tests/daemon_helper.h \
	tests/soak.c \
	tests/soak.h \
	tests/soak_words.c \
	tests/soak_worker.c \
	$(NULL)
check_PROGRAMS += tests/quotas tests/quotas_shared
TESTS += tests/quotas tests/quotas_shared
VALGRIND_EXCEPT += tests/quotas tests/quotas_shared
tests_quotas_shared_SOURCES = tests/quotas_shared.c $(POOL_KIT) $(TOLD_KIT)
tests_quotas_SOURCES = \
	tests/parcel.c \
	tests/parcel.h \
	tests/quotas.c \
	tests/witness.c \
	tests/witness.h \
	$(POOL_KIT)

# A server's books, made by hand; memory that comes when there is no server.
check_PROGRAMS += tests/evict_many tests/restart_growing tests/server_takeover
TESTS += tests/evict_many tests/restart_growing tests/server_takeover
tests_evict_many_SOURCES = tests/evict_many.c
tests_evict_many_LDADD = $(DAEMON_LIBS)
tests_restart_growing_SOURCES = tests/restart_growing.c $(RESTART_KIT)
tests_server_takeover_SOURCES = tests/server_takeover.c
tests_server_takeover_LDADD = $(DAEMON_LIBS)
VALGRIND_EXCEPT += tests/restart_growing

# The daemon becomes another program.
UPGRADE_KIT = $(RESTART_KIT) tests/upgrade_kit.c tests/upgrade_kit.h
check_PROGRAMS += tests/table_move tests/upgrade tests/upgrade_load
TESTS += tests/table_move tests/upgrade tests/upgrade_load
tests_table_move_SOURCES = tests/table_move.c
tests_upgrade_SOURCES = tests/upgrade.c $(LIMIT_KIT) $(UPGRADE_KIT)
tests_upgrade_load_SOURCES = tests/upgrade_load.c $(UPGRADE_KIT)
VALGRIND_EXCEPT += tests/upgrade tests/upgrade_load

# Acts of enemies: each harms nobody else; and faults that are told.
dist_check_SCRIPTS += tests/check_faults.py
TESTS += tests/check_faults.py
HOSTILE_TESTS = \
	tests/hostile_flood \
	tests/hostile_memory \
	tests/hostile_unclosed \
	tests/hostile_words \
	tests/oom \
	$(NULL)
check_PROGRAMS += $(HOSTILE_TESTS)
TESTS += $(HOSTILE_TESTS)
VALGRIND_EXCEPT += $(HOSTILE_TESTS)
tests_hostile_flood_SOURCES = \
	tests/hostile_flood.c \
	tests/parcel.c \
	tests/parcel.h \
	$(DAEMON_KIT)
tests_hostile_unclosed_SOURCES = \
	tests/fuse_hang.c \
	tests/fuse_hang.h \
	tests/hostile_unclosed.c \
	$(DAEMON_KIT)
tests_hostile_words_SOURCES = \
	tests/hostile_words.c \
	tests/parcel.c \
	tests/parcel.h \
	$(DAEMON_KIT)
tests_oom_SOURCES = \
	$(CGROUP_KIT) \
	tests/oom.c \
	$(DAEMON_KIT)
tests_hostile_memory_SOURCES = \
	tests/hostile_memory.c \
	tests/parcel.c \
	tests/parcel.h \
	$(DAEMON_KIT)

# What is said again is done once.
check_PROGRAMS += tests/load_again
TESTS += tests/load_again
tests_load_again_SOURCES = tests/load_again.c $(AGAIN_KIT)
tests_load_again_LDADD = $(DAEMON_LIBS)
check_PROGRAMS += tests/load_gone
TESTS += tests/load_gone
tests_load_gone_SOURCES = tests/load_gone.c $(AGAIN_KIT)
tests_load_gone_LDADD = $(DAEMON_LIBS)
