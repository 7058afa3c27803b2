/* SPDX-License-Identifier: MIT */
/*
 * The first client of a user starts the daemon for all of them. That client may
 * be confined to one core, one memory node, a low priority, so many seconds; it
 * may have secrets in its environment. The daemon has none of it; what it could
 * not undo, it reports.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>
#include <linux/ioprio.h>
#include <linux/mempolicy.h>

#include <tarn/report.h>
#include <tarn/tarn.h>

#include "tests/kit/must.h"
#include "tests/kit/tap.h"

#define SECRET "THE_FIRST_CLIENTS_SECRET"

static cpu_set_t cpus; /* before any confinement */

/* ---- the client that is confined ----------------------------------- */

static void limit_soft(int which, rlim_t most)
{
	struct rlimit limit;

	getrlimit(which, &limit);
	limit.rlim_cur = most;
	setrlimit(which, &limit);
}

static bool to_one_cpu(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &cpus)) {
			CPU_SET(i, &one);
			break;
		}
	return sched_setaffinity(0, sizeof(one), &one) == 0;
}

static void write_oom_score(const char *score)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, score, strlen(score)) < 0)
		diag("oom_score_adj: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
}

static void confine(void)
{
	unsigned long node = 1;

	to_one_cpu();
	limit_soft(RLIMIT_CPU, 1000);
	limit_soft(RLIMIT_DATA, 1ul << 46); /* ASan takes 20 TiB */
	limit_soft(RLIMIT_NPROC, 5000);
	setpriority(PRIO_PROCESS, 0, 7);
	sched_setscheduler(0, SCHED_BATCH, &(struct sched_param) {0});
	syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0,
		IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0));
	prctl(PR_SET_TIMERSLACK, 40000000, 0, 0, 0);
	if (syscall(SYS_set_mempolicy, MPOL_BIND, &node, 64) < 0)
		diag("set_mempolicy: %s", strerror(errno));
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	personality(ADDR_NO_RANDOMIZE);
	write_oom_score("300");
	setenv(SECRET, "1", 1);
	setenv("NOTIFY_SOCKET", "@somebodys", 1);
}

/* ---- what the daemon has ------------------------------------------- */

/* A file of /proc, NULs as newlines; "" where it may not be read. */
static const char *proc(pid_t pid, const char *name)
{
	static char text[65536];
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	for (ssize_t i = 0; i < n; i++)
		if (!text[i])
			text[i] = '\n';
	return text;
}

static void is_raised(pid_t pid, int which, const char *name)
{
	struct rlimit limit = {0};

	prlimit(pid, which, NULL, &limit);
	ok(limit.rlim_cur == limit.rlim_max,
		"the daemon's soft limit is the hard one: %s", name);
}

static void test_cpu(pid_t pid, const char *who)
{
	cpu_set_t seen;

	CPU_ZERO(&seen);
	sched_getaffinity(pid, sizeof(seen), &seen);
	is_int(CPU_COUNT(&cpus), CPU_COUNT(&seen), "%s runs on every CPU", who);
	is_int(SCHED_OTHER, sched_getscheduler(pid),
		"%s has the default scheduler", who);
	is_int(0,
		syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, pid) >>
			IOPRIO_CLASS_SHIFT,
		"%s has the default I/O priority", who);
}

static void test_secrets(pid_t pid)
{
	if (geteuid() != 0) {
		skip(6, "an undumpable process shows these to root only");
		return;
	}
	ok(!strstr(proc(pid, "environ"), SECRET),
		"the daemon's environment has no secret");
	ok(!strstr(proc(pid, "environ"), "NOTIFY_SOCKET"),
		"the daemon does not inherit NOTIFY_SOCKET");
	ok(strstr(proc(pid, "environ"), "TARN_SOCKET="),
		"the daemon's environment has the variables meant for it");
	ok(!strstr(proc(pid, "numa_maps"), " bind:"),
		"the daemon's memory comes from every node");
	is_str("50000\n", proc(pid, "timerslack_ns"),
		"the daemon's timers have the default slack");
	is_str("00000000\n", proc(pid, "personality"),
		"the daemon has no personality");
}

static struct tarn_report *started(const char *name, tarn_store **ret)
{
	struct tarn_report *report;
	char path[300];

	snprintf(path, sizeof(path), "%s/%s/sock", test_tmpdir(), name);
	setenv("TARN_SOCKET", path, 1);
	setenv("TARN_AUTOSTART", "1", 1);
	if (tarn_store_open(NULL, NULL, ret) < 0 ||
		tarn_store_report(*ret, &report) < 0)
		bail("%s", tarn_error_message());
	return report;
}

static void stop(tarn_store *store, pid_t keeper, const char *name)
{
	char path[300];

	must(tarn_store_stop(store));
	tarn_store_unref(store);
	while (kill(keeper, 0) == 0)
		usleep(10000);
	snprintf(path, sizeof(path), "%s/%s", test_tmpdir(), name);
	rmdir(path);
}

static void test_undone(void)
{
	struct tarn_report *report;
	tarn_store *store;
	pid_t keeper;

	confine();
	report = started("undone", &store);
	keeper = report->daemon.keeper_pid;
	test_cpu(keeper, "the keeper");
	test_cpu(report->daemon.server_pid, "the server");
	is_raised(keeper, RLIMIT_CPU, "CPU time");
	is_raised(keeper, RLIMIT_DATA, "data");
	is_raised(keeper, RLIMIT_NPROC, "processes");
	ok(strstr(proc(keeper, "status"), "THP_enabled:\t1"),
		"the daemon may have huge pages");
	ok(atoi(proc(keeper, "oom_score_adj")) <= 0,
		"the daemon does not offer itself to the OOM killer");
	test_secrets(keeper);
	if (geteuid() == 0) {
		is_int(0, getpriority(PRIO_PROCESS, (id_t)keeper),
			"root's daemon has the default priority");
		is_str("", report->daemon.inherited,
			"the daemon reports nothing that it could not undo");
	} else {
		is_str("nice 7", report->daemon.inherited,
			"the daemon reports that it could not undo the "
			"priority");
		skip(1, "only root can raise a priority");
	}
	tarn_report_free(report);
	stop(store, keeper, "undone");
}

/* Neither a priority nor a hard limit can be raised without a right to. */
static void test_left(void)
{
	struct rlimit cpu = {1000, 2000};
	struct tarn_report *report;
	tarn_store *store;
	pid_t keeper;

	prctl(PR_CAPBSET_DROP, CAP_SYS_NICE, 0, 0, 0);
	prctl(PR_CAPBSET_DROP, CAP_SYS_RESOURCE, 0, 0, 0);
	write_oom_score("0");
	setpriority(PRIO_PROCESS, 0, 9);
	setrlimit(RLIMIT_CPU, &cpu);
	report = started("left", &store);
	keeper = report->daemon.keeper_pid;
	is_str("CPU time 2000 s; nice 9", report->daemon.inherited,
		"what cannot be undone is reported");
	tarn_report_free(report);
	stop(store, keeper, "left");
}

int main(void)
{
	/* Those that it may be given, also where the process that runs this was given
	 * fewer. */
	memset(&cpus, 0xff, sizeof(cpus));
	sched_setaffinity(0, sizeof(cpus), &cpus);
	sched_getaffinity(0, sizeof(cpus), &cpus);
	test_undone();
	test_left();
	return done(20);
}
