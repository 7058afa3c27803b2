/* SPDX-License-Identifier: MIT */
/*
 * Queues in shared memory, and processes that share a table of descriptors.
 *
 *	owner		the server, or a loader: puts descriptors into queues
 *	launcher		its child, cloned with CLONE_FILES: never closes one
 *	closers		the launcher's children, cloned likewise: close them
 *
 * Three facts of the kernel make this work. A table of descriptors that
 * several processes share is emptied by the last of them that ends: so the
 * owner, which closes no client's file, always ends at once. A process gives
 * up its memory before its descriptors: so a closer that hangs when it ends
 * keeps nothing but descriptors alive. And a close() that hangs in one process
 * keeps no other process from using the table.
 *
 * The descriptors that a hanging closer keeps open must not be those by which
 * others see that the owner has ended: a ring with reads in flight, segments
 * whose memory is wanted, pipes, the sockets that the keeper made. When the
 * owner ends, the launcher closes these, the memory first. Closing none of them
 * can hang, as no client can put anything into their queues. Then the launcher
 * ends, and the closers are killed. The last of these processes closes the
 * rest, which holds files and the sockets of clients: that may hang.
 *
 * The launcher is cloned while the owner has one thread and knows all that it
 * has mapped; later neither would be true. Closers are cloned from the
 * launcher, so they have none of the pool's memory either.
 *
 * tests/models/closer.pml is the model of the queue.
 */
#include "daemon/loop/closer.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/loop/closer_end.h"
#include "daemon/loop/log.h"
#include "daemon/loop/loop.h"

#define STUCK_NS 1000000000ull /* picked: no sound file takes so long */
#define QUEUE_SIZE 2048u       /* a power of two; twice what a user may leave */
#define STAT_SIZE 512          /* of a process's line in /proc */

struct process {
	_Atomic pid_t pid; /* the launcher; 0: there is none */
	/* The closer; when it has ended, the launcher. Not 0: it closes a
	 * descriptor, or looks for one. */
	_Atomic uint32_t busy;
};

/* Each line is written by those that it names. */
struct closer {
	/* the owner */
	_Alignas(64) _Atomic uint32_t put; /* descriptors queued so far; the
					      futex of closers */
	_Atomic uint32_t wanted;           /* processes */
	/* closers */
	_Alignas(64) _Atomic uint32_t taken; /* descriptors begun with */
	/* all of them */
	_Atomic uint64_t moved_at; /* when one was begun with, or could be */
	/* the launcher, closers */
	struct process processes[CLOSER_PROCESSES];
	/* the owner; slot i of a descriptor is its number modulo the size */
	_Alignas(64) _Atomic int fds[QUEUE_SIZE];
};

static struct closer *closers;
static unsigned n_closers;
static pid_t launcher;

/* ---- a closer ---------------------------------------------------------- */

static long futex(_Atomic uint32_t *word, int op, uint32_t value)
{
	return syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

/* The next descriptor; -1: there is none beyond *ret_put. Another closer may
 * take it first: then the one behind it is tried. */
static int take(struct closer *c, uint32_t *ret_put)
{
	/* Acquire, as where the exchange fails: pairs with the release of
	 * another closer's exchange, which has read put before. So put, read
	 * behind it, is never less than taken; if it were, what was never put
	 * would be taken: the number of a descriptor in use. */
	uint32_t taken = atomic_load_explicit(&c->taken, memory_order_acquire);
	int fd;

	do {
		/* Acquire: pairs with the release store in closer_close, which
		 * has written the slot before. */
		*ret_put = atomic_load_explicit(&c->put, memory_order_acquire);
		if (taken == *ret_put)
			return -1;
		fd = atomic_load_explicit(
			&c->fds[taken % QUEUE_SIZE], memory_order_relaxed);
		/* Release: pairs with the acquire load in queued: the slot
		 * was read before it is written again; and as above. */
	} while (!atomic_compare_exchange_weak_explicit(&c->taken, &taken,
		taken + 1, memory_order_acq_rel, memory_order_acquire));
	return fd;
}

/* Busy before it takes one, and until that one is closed. So a descriptor is
 * queued, or a closer is busy, or it is closed: no count can become wrong,
 * wherever this process is killed. A descriptor that it had taken and was not
 * yet closing stays open until the owner ends: its number may have been
 * reused. */
static _Noreturn void close_them(struct closer *c, struct process *self)
{
	for (;;) {
		uint32_t put;
		int fd;

		atomic_store(&self->busy, 1);
		fd = take(c, &put);
		if (fd >= 0) {
			atomic_store(&c->moved_at, loop_now());
			close(fd);
		}
		atomic_store(&self->busy, 0);
		if (fd < 0)
			futex(&c->put, FUTEX_WAIT, put);
	}
}

/* ---- the launcher -------------------------------------------------- */

/* As fork(), with one table of descriptors. The caller has one thread. */
static pid_t clone_sharing_files(void)
{
	return (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
}

static void start(struct closer *c, struct process *process)
{
	pid_t parent = getpid(), pid = clone_sharing_files();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(0);
		close_them(c, process);
	}
	if (pid > 0)
		atomic_store(&process->pid, pid);
}

/* Those that were killed, too, are started again. Without memory for one it is
 * tried again when the owner asks again. */
static void start_wanted(struct closer *c)
{
	uint32_t wanted = atomic_load(&c->wanted);

	for (uint32_t i = 0; i < wanted; i++)
		if (!atomic_load(&c->processes[i].pid))
			start(c, &c->processes[i]);
}

/* Closers end only when they are killed: by a process that may, or by the OOM
 * killer. A close() that waits ends with them, or they do not end. */
static void reap(void)
{
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		for (unsigned i = 0; i < n_closers * CLOSER_PROCESSES; i++) {
			struct process *p =
				&closers[i / CLOSER_PROCESSES]
					 .processes[i % CLOSER_PROCESSES];

			if (atomic_load(&p->pid) != pid)
				continue;
			atomic_store(&p->busy, 0);
			atomic_store(&p->pid, 0);
		}
}

/* Until no thread of the owner uses the table; all signals are blocked. Without a
 * pidfd it is not known when. */
static void await_owner(int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	if (pidfd >= 0)
		poll(&p, 1, -1);
}

/* Signals only wake it: what counts is whether the owner is there, and what it
 * wants. They are blocked from its birth on, so that none is lost. */
static _Noreturn void launcher_main(pid_t owner, pid_t keeper, int pidfd)
{
	sigset_t set;
	int which;

	prctl(PR_SET_NAME, "tarn-closer");
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1); /* the owner wants something */
	sigaddset(&set, SIGTERM); /* a thread of the owner has ended */
	sigaddset(&set, SIGCHLD); /* a closer has been killed */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	while (getppid() == owner) {
		reap();
		for (unsigned i = 0; i < n_closers; i++)
			start_wanted(&closers[i]);
		sigwait(&set, &which);
	}
	closer_end(keeper);
	await_owner(pidfd);
	_exit(0);
}

int closers_begin(unsigned n, void (*drop)(void *arg), void *arg)
{
	pid_t owner = getpid(), keeper = getppid();
	int pidfd;
	sigset_t all, old;
	void *map = mmap(NULL, n * sizeof(*closers), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (map == MAP_FAILED)
		return tarn_fail(errno, "no memory for %u closers: %s", n,
			tarn_errno_text(errno));
	closers = map;
	n_closers = n;
	/* By the owner, so that it knows how many descriptors it has. */
	pidfd = (int)syscall(SYS_pidfd_open, owner, 0);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	launcher = clone_sharing_files();
	if (launcher == 0) {
		drop(arg);
		launcher_main(owner, keeper, pidfd);
	}
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (launcher < 0)
		return tarn_fail(errno,
			"cannot start a process that closes files: %s",
			tarn_errno_text(errno));
	return 0;
}

/* ---- the owner --------------------------------------------------------- */

struct closer *closer_get(unsigned i)
{
	return &closers[i];
}

/* Descriptors that no process has begun with. */
static uint32_t queued(const struct closer *c)
{
	/* Acquire: pairs with the release of the exchange in take. */
	return atomic_load_explicit(&c->put, memory_order_relaxed) -
	       atomic_load_explicit(&c->taken, memory_order_acquire);
}

bool closer_has_room(const struct closer *c)
{
	return queued(c) < QUEUE_SIZE;
}

static uint32_t count_processes(const struct closer *c)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < CLOSER_PROCESSES; i++)
		n += atomic_load(&c->processes[i].pid) != 0;
	return n;
}

/* Queued, or being closed; in this order: a closer that takes one from the
 * queue is marked busy before. */
static uint32_t waiting(const struct closer *c)
{
	uint32_t n = queued(c);

	for (unsigned i = 0; i < CLOSER_PROCESSES; i++)
		n += atomic_load(&c->processes[i].busy);
	return n;
}

bool closer_is_idle(const struct closer *c)
{
	return !waiting(c);
}

/* A process that would run if there were a processor for it hangs in no
 * file. */
static bool is_runnable(pid_t pid)
{
	char path[64], text[STAT_SIZE];
	const char *end;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (!pid || fd_read_text(path, text, sizeof(text)) <= 0)
		return false;
	end = strrchr(text, ')');
	return end && strncmp(end, ") R", 3) == 0;
}

static bool one_is_runnable(const struct closer *c)
{
	bool yes = false;

	for (unsigned i = 0; i < CLOSER_PROCESSES && !yes; i++)
		yes = is_runnable(atomic_load(&c->processes[i].pid));
	return yes;
}

static bool is_still(const struct closer *c)
{
	/* A closer may store a later time meanwhile. */
	uint64_t at = atomic_load(&c->moved_at), now = loop_now();

	return now > at && now - at > STUCK_NS;
}

/* An owner without a launcher can close nothing and is of no use: another one
 * takes its place. */
static void check_launcher(void)
{
	if (waitpid(launcher, NULL, WNOHANG) != launcher)
		return;
	log_error("closer_gone", log_i64("pid", launcher));
	_exit(1);
}

/* Processes for what is queued: the first at once, others when those that
 * there are hang. */
static void want_process(struct closer *c)
{
	uint32_t wanted = atomic_load(&c->wanted);

	if (wanted && !is_still(c))
		return;
	check_launcher();
	if (wanted < CLOSER_PROCESSES && wanted == count_processes(c)) {
		/* Patience begins anew. */
		atomic_store(&c->moved_at, loop_now());
		atomic_store(&c->wanted, wanted + 1);
	}
	kill(launcher, SIGUSR1);
}

void closer_close(struct closer *c, int fd)
{
	uint32_t put = atomic_load_explicit(&c->put, memory_order_relaxed);

	if (fd < 0)
		return;
	if (queued(c) == QUEUE_SIZE) {
		/* Kept open rather than a chance to hang. */
		log_error("close_failed", log_i64("fd", fd),
			log_u64("waiting", waiting(c)));
		return;
	}
	if (!waiting(c))
		atomic_store(&c->moved_at, loop_now());
	atomic_store_explicit(
		&c->fds[put % QUEUE_SIZE], fd, memory_order_relaxed);
	/* Release: pairs with the acquire load in take. */
	atomic_store_explicit(&c->put, put + 1, memory_order_release);
	futex(&c->put, FUTEX_WAKE, 1);
	want_process(c);
}

uint64_t closer_poll(struct closer *c, uint64_t now)
{
	if (!waiting(c))
		return 0;
	if (queued(c) && count_processes(c) < CLOSER_PROCESSES)
		want_process(c);
	/* Nothing notifies the owner when a closer is idle. */
	return now + STUCK_NS;
}

bool closer_is_stuck(struct closer *c, unsigned max, bool *ret_many)
{
	*ret_many = waiting(c) > max;
	return *ret_many && is_still(c) && !one_is_runnable(c);
}
