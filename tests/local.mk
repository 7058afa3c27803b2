# TAP programs and scripts. Each runs in a folder of its own, with a time-out;
# tests/run complains about whatever is left behind.

# Each room of the tree has its tests in a folder of that name; what they share
# is tests/kit.

# An archive: a program gets of it what it calls.
check_LTLIBRARIES = tests/libkit.la
tests_libkit_la_SOURCES = \
	tests/kit/again.c \
	tests/kit/again.h \
	tests/kit/stopped_load.c \
	tests/kit/stopped_load.h \
	tests/kit/stamps.c \
	tests/kit/stamps.h \
	tests/kit/replica.c \
	tests/kit/replica.h \
	tests/kit/cgroup.c \
	tests/kit/cgroup.h \
	tests/kit/cgroup_path.c \
	tests/kit/cgroup_path.h \
	tests/kit/channel.c \
	tests/kit/channel.h \
	tests/kit/cli_channel.c \
	tests/kit/cli_channel.h \
	tests/kit/cold.c \
	tests/kit/cold.h \
	tests/kit/counting.c \
	tests/kit/counting.h \
	tests/kit/copy_read.c \
	tests/kit/copy_read.h \
	tests/kit/daemon_helper.c \
	tests/kit/daemon_helper.h \
	tests/kit/device.c \
	tests/kit/device.h \
	tests/kit/enemy.c \
	tests/kit/enemy.h \
	tests/kit/fail.c \
	tests/kit/fail.h \
	tests/kit/fail_alloc.h \
	tests/kit/fake_daemon.c \
	tests/kit/fake_daemon.h \
	tests/kit/file_bytes.c \
	tests/kit/file_bytes.h \
	tests/kit/filling.h \
	tests/kit/fuse_hang.c \
	tests/kit/fuse_hang.h \
	tests/kit/huge_pages.c \
	tests/kit/huge_pages.h \
	tests/kit/layout_text.h \
	tests/kit/lease_passes.c \
	tests/kit/lease_passes.h \
	tests/kit/limit.c \
	tests/kit/limit.h \
	tests/kit/linger.c \
	tests/kit/linger.h \
	tests/kit/loader.c \
	tests/kit/loader.h \
	tests/kit/loop_device.c \
	tests/kit/loop_device.h \
	tests/kit/in_call.c \
	tests/kit/in_call.h \
	tests/kit/loop.c \
	tests/kit/loop.h \
	tests/kit/move.c \
	tests/kit/move.h \
	tests/kit/publish_msg.c \
	tests/kit/publish_msg.h \
	tests/kit/must.c \
	tests/kit/must.h \
	tests/kit/no_uring.c \
	tests/kit/no_uring.h \
	tests/kit/put_file.c \
	tests/kit/put_file.h \
	tests/kit/pool.c \
	tests/kit/pool.h \
	tests/kit/pool_deeds.c \
	tests/kit/pool_deeds.h \
	tests/kit/cow.c \
	tests/kit/cow.h \
	tests/kit/crowd.c \
	tests/kit/crowd.h \
	tests/kit/publish.c \
	tests/kit/publish.h \
	tests/kit/quota.c \
	tests/kit/quota.h \
	tests/kit/raw_client.c \
	tests/kit/raw_client.h \
	tests/kit/replace.c \
	tests/kit/replace.h \
	tests/kit/report.c \
	tests/kit/report.h \
	tests/kit/restart.c \
	tests/kit/restart.h \
	tests/kit/ring.c \
	tests/kit/ring.h \
	tests/kit/save.c \
	tests/kit/save.h \
	tests/kit/server_channel.c \
	tests/kit/server_channel.h \
	tests/kit/stepped.c \
	tests/kit/stepped.h \
	tests/kit/store_fork.c \
	tests/kit/store_fork.h \
	tests/kit/stream.h \
	tests/kit/stream_forms.c \
	tests/kit/stream_forms.h \
	tests/kit/tap.c \
	tests/kit/tap.h \
	tests/kit/tarn_start.c \
	tests/kit/tarn_start.h \
	tests/kit/command_child.c \
	tests/kit/command_child.h \
	tests/kit/tool_file.c \
	tests/kit/tool_file.h \
	tests/kit/trace.c \
	tests/kit/trace.h \
	tests/kit/upgrade.c \
	tests/kit/upgrade.h \
	tests/kit/versions.c \
	tests/kit/versions.h \
	tests/kit/wire.c \
	tests/kit/wire.h \
	tests/kit/witness.c \
	tests/kit/witness.h \
	tests/kit/written.h \
	$(NULL)
EXTRA_DIST += \
	tests/kit/blind.py \
	tests/kit/cli.sh \
	tests/kit/network.sh \
	tests/kit/engine_interfaces.py \
	tests/kit/models.sh \
	tests/kit/py_kit.py \
	tests/kit/py_dcp_kit.py \
	tests/kit/py_loader_kit.py \
	tests/kit/tap.py \
	tests/kit/torch_stand_in.py \
	$(NULL)

# Modules to preload: memory that runs out, a sync that is held up, processes that
# yield, and a file at which a program stops.
check_LTLIBRARIES += \
	tests/kit/libfail_alloc.la \
	tests/kit/libhold_sync.la \
	tests/kit/libnap_yield.la \
	tests/kit/libstop_open.la \
	$(NULL)
tests_kit_libfail_alloc_la_SOURCES = tests/kit/fail_alloc.c
tests_kit_libfail_alloc_la_LDFLAGS = $(MODULE)
tests_kit_libhold_sync_la_SOURCES = tests/kit/hold_sync.c
tests_kit_libhold_sync_la_LDFLAGS = $(MODULE)
tests_kit_libnap_yield_la_SOURCES = tests/kit/nap_yield.c
tests_kit_libnap_yield_la_LDFLAGS = $(MODULE)
tests_kit_libstop_open_la_SOURCES = tests/kit/stop_open.c
tests_kit_libstop_open_la_LDFLAGS = $(MODULE)
MODULE = -module -avoid-version -rpath /nowhere

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
# source is tests/ROOM/NAME.c.
WHITEBOX_LIBS = tests/libkit.la lib/libcore.la
DAEMON_LIBS = tests/libkit.la daemon/libdaemon.la
LDADD = $(WHITEBOX_LIBS)

# What makes the whole machine wait for memory has every daemon on it give up
# the file that it used longest ago. So it comes after all others that are run,
# which configure has make pick.
STALLING_FIRST_LOG = tests/daemon/daemon_pressure.log
STALLING_LOGS = \
	tests/daemon/oom.log \
	tests/daemon/pressure_stall.log \
	$(NULL)
$(STALLING_FIRST_LOG): $(OTHER_LOGS_RUN)
$(STALLING_LOGS): $(OTHER_LOGS_RUN) $(STALLING_FIRST_LOG_RUN)

# The slowest begin first: one that began last would be waited for alone.
TESTS += \
	tests/python/wheel.py \
	tests/soak/soak \
	tests/daemon/shrink \
	tests/models/ring.sh \
	$(NULL)

# The harness, and the test of it.
check_PROGRAMS += tests/run
tests_run_SOURCES = \
	tests/kit/cgroup_path.c \
	tests/kit/cgroup_path.h \
	tests/kit/huge_pages.h \
	tests/kit/leftovers.c \
	tests/kit/leftovers.h \
	tests/run.c \
	$(NULL)
tests_run_LDADD =
tests_run_CPPFLAGS = \
	$(AM_CPPFLAGS) \
	-DPYTHON_PATH='"$(PYTHON)"' \
	-DTOP_SRCDIR='"$(abs_top_srcdir)"' \
	$(NULL)

# Rooms leave out of it what races processes or kills them a thousand times
# (valgrind runs one thread at a time), what tests the daemon, which it would
# not watch, and what needs that which it does not know: cachestat(2), and
# processes that share a table of descriptors as those of daemon/loop/closer.c do.
VALGRIND_EXCEPT = tests/fuzz/wire

include tests/tree/local.mk
include tests/base/local.mk
include tests/shm/local.mk
include tests/lib/local.mk
include tests/store/local.mk
include tests/cuda/local.mk
include tests/set/local.mk
include tests/ops/local.mk
include tests/mpi/local.mk
include tests/data/local.mk
include tests/gpu/local.mk
include tests/channel/local.mk
include tests/daemon/local.mk
include tests/cli/local.mk
include tests/python/local.mk
include tests/models/local.mk
include tests/soak/local.mk
include tests/vm/local.mk

# What says the same whatever was built with whatever options: texts and links,
# models, and a wheel, which has a build of its own.
AGAIN_EXCEPT = \
	$(MODELS_SCRIPT_TESTS) \
	tests/tree/headers.sh \
	tests/tree/help.sh \
	tests/tree/man3.sh \
	tests/python/py_stubs.py \
	tests/tree/rooms.sh \
	tests/tree/symbols.sh \
	tests/tree/units.sh \
	tests/python/wheel.py \
	tests/tree/words.sh \
	$(NULL)
.PHONY: check-again
check-again: all
	$(MAKE) $(AM_MAKEFLAGS) check-but EXCEPT="$(AGAIN_EXCEPT)"

# And what says the same to whoever runs it: it computes in memory of its own,
# and asks the system for nothing that one user has and another has not. A wheel
# is for those who are not root.
USER_EXCEPT = \
	$(FUZZ_TESTS) \
	tests/lib/dtype \
	tests/lib/gather \
	tests/lib/gather_refused \
	tests/lib/layout_expr \
	tests/lib/layout_make \
	tests/lib/layout_pairs \
	tests/lib/reshape_explain \
	$(MODELS_SCRIPT_TESTS) \
	tests/shm/ring \
	tests/shm/ring_dead \
	tests/shm/ring_full \
	tests/shm/ring_hostile \
	tests/shm/ring_kill \
	tests/shm/ring_late \
	tests/shm/ring_quiet \
	tests/shm/ring_threads \
	tests/shm/ring_wait \
	tests/shm/ring_watch \
	tests/lib/convert \
	tests/lib/convert_numpy.py \
	tests/tree/headers.sh \
	tests/tree/man3.sh \
	tests/tree/help.sh \
	tests/lib/move \
	tests/lib/move_bytes \
	tests/lib/nest \
	tests/lib/number \
	tests/lib/print \
	tests/lib/print_numpy.py \
	tests/python/py_stubs.py \
	tests/lib/read_plan \
	tests/tree/rooms.sh \
	tests/tree/symbols.sh \
	tests/shm/table_crash \
	tests/shm/table_readers \
	tests/tree/units.sh \
	tests/lib/view_numpy.py \
	tests/tree/words.sh \
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

# The C tests under valgrind, but for those that their rooms leave out.
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
	TARN_TEST_SAMPLE=31 TARN_TEST_TIMEOUT=900 \
	$(MAKE) $(AM_MAKEFLAGS) check TESTS="$$tests" \
		LOG_COMPILER='tests/run$(EXEEXT) ./libtool --mode=execute $(VALGRIND)'

# Those that move bytes between files and memory, for an engine that TARN_ENGINE
# names.
ENGINE_TESTS = \
	tests/cli/copy.sh \
	tests/cli/save.sh \
	tests/cli/store.sh \
	tests/lib/copy \
	tests/lib/copy_numpy.py \
	tests/lib/copy_read \
	tests/lib/copy_read_fails \
	tests/lib/copy_relay \
	tests/lib/copy_write \
	tests/lib/copy_write_fails \
	tests/daemon/load_hostile \
	tests/daemon/loads \
	tests/daemon/load_others \
	tests/daemon/wedge \
	tests/daemon/wedge_waiting \
	tests/daemon/evict \
	tests/lib/fill \
	tests/lib/fill_fails \
	tests/lib/fill_faults \
	tests/lib/io_engine \
	tests/store/load_again \
	tests/lib/load_file \
	tests/store/load_gone \
	tests/store/load_shards \
	tests/store/load_verified \
	tests/daemon/loader \
	tests/daemon/loader_bad \
	tests/daemon/pools \
	tests/daemon/pools_reload \
	tests/daemon/pools_users \
	tests/store/publish \
	tests/daemon/restart_load \
	tests/lib/save \
	tests/lib/save_faults \
	tests/lib/save_power \
	tests/lib/save_refused \
	tests/lib/shards \
	tests/soak/soak \
	tests/lib/storage \
	tests/store/store \
	tests/lib/stream \
	tests/lib/stream_attack \
	tests/lib/stream_file \
	tests/lib/stream_holds \
	tests/lib/stream_poll \
	tests/lib/stream_slots \
	tests/lib/stream_stuck \
	tests/lib/verify \
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
	tests/channel/fd \
	tests/channel/fork \
	tests/channel/handles \
	tests/channel/threads \
	tests/cuda/beside \
	tests/cuda/memory \
	tests/lib/copy_read \
	tests/lib/copy_read_fails \
	tests/daemon/evict \
	tests/store/open_files \
	tests/lib/file_lock \
	tests/lib/file_map \
	tests/lib/gather \
	tests/lib/io_engine \
	tests/shm/lease \
	tests/store/lease_book \
	tests/lib/move \
	tests/store/mutable \
	tests/store/cow \
	tests/store/cow_held \
	tests/store/publish_ttl \
	tests/store/publish_sealed \
	tests/store/publish_threads \
	tests/daemon/restart \
	tests/shm/ring_quiet \
	tests/shm/ring_threads \
	tests/shm/ring_wait \
	tests/shm/ring_watch \
	tests/lib/storage \
	tests/store/store \
	tests/store/fake \
	tests/store/fork \
	tests/store/fork_calls \
	tests/store/fork_who \
	tests/store/resume \
	tests/store/wait \
	tests/store/wait_file \
	tests/lib/stream \
	tests/lib/stream_holds \
	tests/lib/stream_poll \
	tests/lib/stream_slots \
	tests/lib/stream_stuck \
	$(NULL)
if HAVE_BLAS
TSAN_TESTS += tests/ops/nn_threads
endif
.PHONY: build-tsan check-tsan
build-tsan: all
	$(MAKE) $(AM_MAKEFLAGS) check TESTS= \
		check_PROGRAMS="tests/run $(TSAN_TESTS)"
check-tsan: all
	$(MAKE) $(AM_MAKEFLAGS) check TESTS="$(TSAN_TESTS)" \
		check_PROGRAMS="tests/run $(TSAN_TESTS)"
	! grep -A 20 'WARNING: ThreadSanitizer' $(TSAN_TESTS:=.log)
