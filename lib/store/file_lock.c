/* SPDX-License-Identifier: MIT */
/*
 * A reader/writer lock between processes, which the kernel releases when a
 * holder dies.
 *
 * Locks of open file descriptions (F_OFD_SETLK) end with the last reference to
 * the description, so they do not outlive their process, and no peer can
 * corrupt them. Each process has a description of its own. The kernel treats
 * the threads of one process as one owner, so this file distinguishes them: the
 * first reader takes the file's lock for all, the last releases it.
 *
 * Two bytes far beyond the end are locked: the gate and the lock. A writer
 * takes the gate, then the lock, and leaves the gate; a reader first passes the
 * gate. So a waiting writer keeps new readers out, and is not starved by them;
 * writers get it in no particular order. The kernel has no wait with a
 * deadline: a thread that does not get the lock tries again after a nap, which
 * grows to a millisecond.
 *
 * A forked child would hold its parent's locks, and keep them after the
 * parent's death. So its copies are closed before it does anything else; it
 * holds no lock, and opens its own description when it needs one. For the same
 * reason the description is never mapped: mappings are inherited.
 */
#include "lib/store/file_lock.h"

#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/fd.h"

#define LOCK_AT (1ll << 62) /* no file is so long */
#define GATE_AT (LOCK_AT + 1)

#define NAP_FIRST_NS 20000ull
#define NAP_LAST_NS 1000000ull /* the longest delay of a hand-over; picked */
#define LOOK_NS 50000000ull    /* a signal is noticed no later; picked */

/* ---- forks ----------------------------------------------------------- */

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct file_lock *all;

static void init_threads(struct file_lock *lock)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&lock->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&lock->freed, &attr);
	pthread_condattr_destroy(&attr);
}

/* So that no lock is in the middle of a change in the child. */
static void before_fork(void)
{
	pthread_mutex_lock(&all_lock);
	for (struct file_lock *l = all; l; l = l->next)
		pthread_mutex_lock(&l->lock);
}

static void after_fork(void)
{
	for (struct file_lock *l = all; l; l = l->next)
		pthread_mutex_unlock(&l->lock);
	pthread_mutex_unlock(&all_lock);
}

static void in_child(void)
{
	for (struct file_lock *l = all; l; l = l->next) {
		l->fd = fd_close(l->fd);
		l->readers = 0;
		l->writing = false;
		l->gate = NULL;
		init_threads(l);
	}
	pthread_mutex_init(&all_lock, NULL);
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

/* ---- life ------------------------------------------------------------ */

int file_lock_new(struct file_lock **ret)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct file_lock *lock = calloc(1, sizeof(*lock));

	if (!lock)
		return tarn_fail(ENOMEM, "lock: out of memory");
	pthread_once(&once, watch_forks);
	lock->fd = -1;
	init_threads(lock);
	pthread_mutex_lock(&all_lock);
	lock->next = all;
	if (all)
		all->before = lock;
	all = lock;
	pthread_mutex_unlock(&all_lock);
	*ret = lock;
	return 0;
}

struct file_lock *file_lock_free(struct file_lock *lock)
{
	if (!lock)
		return NULL;
	pthread_mutex_lock(&all_lock);
	if (lock->next)
		lock->next->before = lock->before;
	if (lock->before)
		lock->before->next = lock->next;
	else
		all = lock->next;
	pthread_mutex_unlock(&all_lock);
	fd_close(lock->fd);
	pthread_cond_destroy(&lock->freed);
	pthread_mutex_destroy(&lock->lock);
	free(lock);
	return NULL;
}

bool file_lock_has_fd(struct file_lock *lock)
{
	bool has;

	pthread_mutex_lock(&lock->lock);
	has = lock->fd >= 0;
	pthread_mutex_unlock(&lock->lock);
	return has;
}

void file_lock_set_fd(struct file_lock *lock, int fd)
{
	pthread_mutex_lock(&lock->lock);
	if (lock->fd < 0) {
		lock->fd = fd_steal(&fd);
		lock->may_write =
			(fcntl(lock->fd, F_GETFL) & O_ACCMODE) == O_RDWR;
	}
	pthread_mutex_unlock(&lock->lock);
	/* Another thread was faster. */
	fd_close(fd);
}

/* ---- one try, with the lock held ------------------------------------- */

/* 0; -EAGAIN: another process has it. */
static int set(struct file_lock *lock, short type, long long at)
{
	struct flock range = {.l_type = type, .l_start = at, .l_len = 1};

	if (fcntl(lock->fd, F_OFD_SETLK, &range) == 0)
		return 0;
	if (errno == EAGAIN || errno == EACCES)
		return -EAGAIN;
	return tarn_fail(errno, "lock: %s", tarn_errno_text(errno));
}

static int try_read(struct file_lock *lock)
{
	int r;

	if (lock->writing || lock->gate)
		return -EAGAIN;
	r = set(lock, F_RDLCK, GATE_AT);
	if (r < 0)
		return r;
	if (lock->readers == 0)
		r = set(lock, F_RDLCK, LOCK_AT);
	set(lock, F_UNLCK, GATE_AT);
	lock->readers += r == 0;
	return r;
}

static void leave_gate(struct file_lock *lock, const void *waiter)
{
	if (lock->gate != waiter)
		return;
	set(lock, F_UNLCK, GATE_AT);
	lock->gate = NULL;
	pthread_cond_broadcast(&lock->freed);
}

static int try_write(struct file_lock *lock, const void *waiter)
{
	int r = 0;

	if (lock->writing || (lock->gate && lock->gate != waiter))
		return -EAGAIN;
	if (!lock->gate)
		r = set(lock, F_WRLCK, GATE_AT);
	if (r < 0)
		return r;
	lock->gate = waiter;
	if (lock->readers)
		return -EAGAIN;
	r = set(lock, F_WRLCK, LOCK_AT);
	if (r < 0)
		return r;
	lock->writing = true;
	lock->writer = pthread_self();
	leave_gate(lock, waiter);
	return 0;
}

/* ---- waiting --------------------------------------------------------- */

/* Until then, or until a thread of this process releases something. */
static void nap(struct file_lock *lock, uint64_t until)
{
	struct timespec t = {.tv_sec = (time_t)(until / 1000000000u),
		.tv_nsec = (long)(until % 1000000000u)};

	pthread_cond_timedwait(&lock->freed, &lock->lock, &t);
}

struct caller {
	int (*look)(void *arg); /* NULL: it does not look */
	void *arg;
	uint64_t at; /* when it looks next */
};

/* It may do anything, such as to lock another tensor, or to fork: so it does that
 * without the mutex. */
static int let_look(struct file_lock *lock, struct caller *caller, uint64_t now)
{
	int r;

	if (!caller->look || now < caller->at)
		return 0;
	caller->at = now + LOOK_NS;
	pthread_mutex_unlock(&lock->lock);
	r = caller->look(caller->arg);
	pthread_mutex_lock(&lock->lock);
	return r;
}

static int take(struct file_lock *lock, bool write, int timeout_ms,
	struct caller *caller)
{
	uint64_t length = NAP_FIRST_NS, now = clock_ns(CLOCK_MONOTONIC);
	uint64_t deadline = timeout_ms < 0
				    ? UINT64_MAX
				    : now + (uint64_t)timeout_ms * 1000000u;
	char waiter;
	int r;

	caller->at = now + LOOK_NS;
	for (;;) {
		r = write ? try_write(lock, &waiter) : try_read(lock);
		if (r != -EAGAIN)
			break;
		now = clock_ns(CLOCK_MONOTONIC);
		if (now >= deadline) {
			r = tarn_fail(ETIMEDOUT,
				"lock: another thread or process has it, and "
				"has not released it within %d ms",
				timeout_ms);
			break;
		}
		r = let_look(lock, caller, now);
		if (r)
			break;
		nap(lock, MIN(now + length, deadline));
		length = MIN(length * 2, NAP_LAST_NS);
	}
	leave_gate(lock, &waiter);
	return r;
}

int file_lock_take_while(struct file_lock *lock, bool write, int timeout_ms,
	int (*look)(void *arg), void *arg)
{
	struct caller caller = {.look = look, .arg = arg};
	int r;

	pthread_mutex_lock(&lock->lock);
	if (lock->writing && pthread_equal(lock->writer, pthread_self()))
		r = tarn_fail(EDEADLK,
			"lock: this thread has it for writing already");
	else if (write && !lock->may_write)
		r = tarn_fail(EROFS,
			"lock: a process that may only read it may lock it "
			"only for reading");
	else
		r = take(lock, write, timeout_ms, &caller);
	pthread_mutex_unlock(&lock->lock);
	return r;
}

int file_lock_take(struct file_lock *lock, bool write, int timeout_ms)
{
	return file_lock_take_while(lock, write, timeout_ms, NULL, NULL);
}

int file_lock_give(struct file_lock *lock)
{
	int r = 0;

	pthread_mutex_lock(&lock->lock);
	if (lock->writing && pthread_equal(lock->writer, pthread_self()))
		lock->writing = false;
	else if (lock->readers)
		lock->readers--;
	else
		r = tarn_fail(EPERM, "unlock: this %s does not have it locked",
			lock->writing ? "thread" : "process");
	if (r == 0 && !lock->readers)
		r = set(lock, F_UNLCK, LOCK_AT);
	pthread_cond_broadcast(&lock->freed);
	pthread_mutex_unlock(&lock->lock);
	return r;
}
