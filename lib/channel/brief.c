/* SPDX-License-Identifier: MIT */
/*
 * Waiting for a brief lock.
 *
 * The idea: whoever has it is through in less time than a system call takes,
 * unless he was taken off his processor, and then he needs one, perhaps ours.
 */
#include "lib/channel/brief.h"

#include <time.h>

/* Some microseconds: far more than is ever done with the lock by who runs. */
#define LOOKS 200
/* Of a time slice a small part. */
#define NAP_NS 20000

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield");
#endif
}

static bool try_lock(struct brief *brief)
{
	/* Relaxed: only a look, so that those who wait write nothing. Acquire:
	 * pairs with the release in brief_unlock(). */
	return !atomic_load_explicit(&brief->taken, memory_order_relaxed) &&
	       !atomic_exchange_explicit(
		       &brief->taken, true, memory_order_acquire);
}

void brief_await(struct brief *brief)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};

	for (;;) {
		for (int i = 0; i < LOOKS; i++) {
			if (try_lock(brief))
				return;
			relax();
		}
		nanosleep(&nap, NULL);
	}
}
