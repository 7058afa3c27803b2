/* SPDX-License-Identifier: MIT */
/*
 * Undoing what was inherited: one function for each kind, which notes what it
 * cannot undo.
 *
 * A hard limit on CPU time is noted, and no reason to refuse to start: on the
 * login nodes of many clusters every process has one. It counts for each
 * process by itself. The server, which works most, meets it first and is
 * replaced without loss; the keeper, which hardly works, in months. Somebody
 * who finds the daemon gone can see the reason in an earlier status.
 */
#include "daemon/keeper/inherited.h"

#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/ioprio.h>
#include <linux/keyctl.h>
#include <linux/mempolicy.h>

#include "base/checked.h"
#include "base/fd.h"
#include "base/policy_calls.h"

#define TIMER_SLACK_NS 50000   /* the kernel's default */
#define STACK_LEAST (8u << 20) /* the usual soft limit */
#define CPUS_MAX 8192          /* the kernel's largest NR_CPUS */
#define OOM_SCORE "/proc/self/oom_score_adj"

static void note(char text[INHERITED_MAX], const char *fmt, ...)
	__attribute__((__format__(printf, 2, 3)));

static void note(char text[INHERITED_MAX], const char *fmt, ...)
{
	size_t n = strlen(text);
	va_list ap;

	n += (size_t)snprintf(text + n, INHERITED_MAX - n, "%s", n ? "; " : "");
	if (n >= INHERITED_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(text + n, INHERITED_MAX - n, fmt, ap);
	va_end(ap);
}

/* ---- limits -------------------------------------------------------------- */

static void raise_to(int which, rlim_t most)
{
	struct rlimit limit;

	if (getrlimit(which, &limit) < 0)
		return;
	most = MIN(most, limit.rlim_max);
	if (limit.rlim_cur >= most)
		return;
	limit.rlim_cur = most;
	setrlimit(which, &limit);
}

/* Not RLIMIT_CORE: a core file would contain all users' memory. */
static void raise_limits(char text[INHERITED_MAX])
{
	static const int all[] = {RLIMIT_AS, RLIMIT_CPU, RLIMIT_DATA,
		RLIMIT_FSIZE, RLIMIT_LOCKS, RLIMIT_MEMLOCK, RLIMIT_NOFILE,
		RLIMIT_NPROC, RLIMIT_RSS, RLIMIT_RTTIME, RLIMIT_SIGPENDING};
	struct rlimit cpu;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		raise_to(all[i], RLIM_INFINITY);
	/* More would change how a program that is executed is laid out. */
	raise_to(RLIMIT_STACK, STACK_LEAST);
	if (getrlimit(RLIMIT_CPU, &cpu) == 0 && cpu.rlim_cur != RLIM_INFINITY)
		note(text, "CPU time %llu s", (unsigned long long)cpu.rlim_cur);
}

/* ---- CPUs ---------------------------------------------------------------- */

/* The kernel takes those away that the cpuset does not allow. */
static void use_all_cpus(char text[INHERITED_MAX])
{
	unsigned long all[CPUS_MAX / (8 * sizeof(unsigned long))];

	memset(all, 0xff, sizeof(all));
	if (sched_setaffinity(0, sizeof(all), (cpu_set_t *)all) < 0)
		note(text, "CPU affinity");
}

static void run_as_usual(char text[INHERITED_MAX])
{
	const struct sched_param none = {0};
	int policy = sched_getscheduler(0);
	int nice;

	if (policy > 0 && sched_setscheduler(0, SCHED_OTHER, &none) < 0)
		note(text, "scheduling policy %d", policy);
	nice = getpriority(PRIO_PROCESS, 0);
	if (nice != 0 && setpriority(PRIO_PROCESS, 0, 0) < 0)
		note(text, "nice %d", nice);
	prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
}

static void read_as_usual(char text[INHERITED_MAX])
{
	long priority = syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0);
	int class = priority < 0 ? 0 : (int)(priority >> IOPRIO_CLASS_SHIFT);

	if (class != IOPRIO_CLASS_NONE &&
		syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, 0) < 0)
		note(text, "I/O class %d", class);
}

/* ---- memory -------------------------------------------------------------- */

static void use_all_memory(char text[INHERITED_MAX])
{
	int policy = MPOL_DEFAULT;

	if (policy_own(&policy) == 0 && policy != MPOL_DEFAULT &&
		policy_own_default() < 0)
		note(text, "memory policy %d", policy);
	if (prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1 &&
		prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0) < 0)
		note(text, "no huge pages");
}

/* A job may offer itself to the OOM killer; not what others keep here. */
static void keep_from_oom(char text[INHERITED_MAX])
{
	_cleanup_fd_ int fd = -1;
	char score[32];

	if (fd_read_text(OOM_SCORE, score, sizeof(score)) <= 0 ||
		atoi(score) <= 0)
		return;
	fd = open(OOM_SCORE, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "0", 1) != 1)
		note(text, "OOM score %d", atoi(score));
}

/* ---- the rest ------------------------------------------------------------ */

/* Without these it would not be slower, so nothing is noted. */
static void take_leave(void)
{
	umask(077);
	personality(PER_LINUX);
	/* The keys of a session: a new one, empty, for this process. */
	syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
}

void inherited_shed(bool automatic, char ret[INHERITED_MAX])
{
	ret[0] = '\0';
	raise_limits(ret);
	if (!automatic)
		return;
	use_all_cpus(ret);
	run_as_usual(ret);
	read_as_usual(ret);
	use_all_memory(ret);
	keep_from_oom(ret);
	take_leave();
}
