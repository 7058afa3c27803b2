CLI_TESTS = \
	tests/cli/channel \
	tests/cli/channel_watch \
	tests/cli/device \
	tests/cli/doctor \
	tests/cli/doctor_here \
	tests/cli/gauge \
	tests/cli/progress \
	tests/cli/rm \
	tests/cli/save_lock \
	$(NULL)
CLI_SCRIPT_TESTS = \
	tests/cli/check_crash.sh \
	tests/cli/check_faults.py \
	tests/cli/cli_copy_numpy.py \
	tests/cli/cli_numpy.py \
	tests/cli/cli_save_signal.py \
	tests/cli/cli_top.py \
	tests/cli/copy.sh \
	tests/cli/data.py \
	tests/cli/data_peers.py \
	tests/cli/data_sources.py \
	tests/cli/data_tar.py \
	tests/cli/doctor.sh \
	tests/cli/engine.sh \
	tests/cli/info.sh \
	tests/cli/metrics.py \
	tests/cli/namespaces.sh \
	tests/cli/put.sh \
	tests/cli/replicate.sh \
	tests/cli/save.sh \
	tests/cli/shards.sh \
	tests/cli/store.sh \
	tests/cli/usage.sh \
	tests/cli/verify.sh \
	tests/cli/wait.sh \
	$(NULL)
check_PROGRAMS += $(CLI_TESTS)
dist_check_SCRIPTS += $(CLI_SCRIPT_TESTS)
TESTS += $(CLI_TESTS) $(CLI_SCRIPT_TESTS)

DOCTOR_SOURCES = \
	cli/doctor/doctor.h \
	cli/doctor/files.c \
	cli/doctor/findings.c \
	cli/doctor/gpu.c \
	cli/doctor/machine.c \
	cli/doctor/memory.c \
	cli/doctor/nodes.c \
	cli/doctor/pages.c \
	cli/doctor/reading.c \
	cli/doctor/system.c \
	cli/message.c \
	cli/size.c \
	cli/text.c \
	tests/cli/doctor_findings.c \
	tests/cli/doctor_findings.h \
	$(NULL)
tests_cli_doctor_SOURCES = \
	$(DOCTOR_SOURCES) \
	tests/cli/doctor.c \
	tests/cli/doctor_machines.h \
	$(NULL)
tests_cli_doctor_here_SOURCES = $(DOCTOR_SOURCES) tests/cli/doctor_here.c
tests_cli_gauge_SOURCES = cli/gauge.c tests/cli/gauge.c
tests_cli_gauge_LDADD = tests/libkit.la
tests_cli_progress_SOURCES = \
	cli/ending.c \
	cli/progress.c \
	cli/size.c \
	cli/text.c \
	tests/cli/progress.c \
	$(NULL)
tests_cli_progress_LDADD = tests/libkit.la
