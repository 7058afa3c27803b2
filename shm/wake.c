/* SPDX-License-Identifier: MIT */
/*
 * See wake.h.
 *
 * FUTEX_WAKE without a mask wakes any wait, whatever its mask is. So a call
 * that may wake n passes n waits of that word at most, and there is no crowd
 * that it would pass without waking it.
 */
#include "shm/wake.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static wake_fn left_to;

static unsigned wake(_Atomic uint32_t *word, int n)
{
	/* Not FUTEX_PRIVATE: other processes wait, on their own mappings. */
	long woken = syscall(SYS_futex, word, FUTEX_WAKE, n, NULL, NULL, 0);

	return woken > 0 ? (unsigned)woken : 0;
}

unsigned wake_some(_Atomic uint32_t *word)
{
	return wake(word, WAKE_AT_ONCE);
}

void wake_all(_Atomic uint32_t *word)
{
	if (wake_some(word) == WAKE_AT_ONCE && !wake_leave(word))
		wake(word, INT_MAX);
}

void wake_leave_to(wake_fn fn)
{
	left_to = fn;
}

bool wake_is_left(void)
{
	return left_to;
}

bool wake_leave(_Atomic uint32_t *word)
{
	return left_to && left_to(word);
}
