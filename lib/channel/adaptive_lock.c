/* SPDX-License-Identifier: MIT */
/*
 * Waiting for an adaptive lock.
 *
 * The holder is done in less time than a system call takes, unless it was
 * preempted; then it needs a processor, perhaps this one.
 */
#include "lib/channel/adaptive_lock.h"

#include <time.h>

/* Some microseconds: far longer than a running thread ever holds the lock. */
#define LOOKS 200
/* A small part of a time slice. */
#define NAP_NS 20000

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield");
#endif
}

static bool try_lock(struct adaptive_lock *lock)
{
	/* Relaxed: only a test, so that waiters do not write the line. Acquire:
	 * pairs with the release in adaptive_lock_give(). */
	return !atomic_load_explicit(&lock->taken, memory_order_relaxed) &&
	       !atomic_exchange_explicit(
		       &lock->taken, true, memory_order_acquire);
}

void adaptive_lock_await(struct adaptive_lock *lock)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};

	for (;;) {
		for (int i = 0; i < LOOKS; i++) {
			if (try_lock(lock))
				return;
			relax();
		}
		nanosleep(&nap, NULL);
	}
}
