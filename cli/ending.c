/* SPDX-License-Identifier: MIT */
#include "cli/ending.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/clock.h"

#define SAME_MS 300 /* after the first: picked; too short for a second Ctrl-C */

void ending_by(int number)
{
	signal(number, SIG_DFL);
	raise(number); /* in a handler: when it has returned */
}

bool ending_is_first(int number)
{
	/* The handlers' alone, in one thread or in several: relaxed. */
	static _Atomic int64_t began; /* 0: it has not */
	int64_t now = clock_ms(), first = 0;

	if (atomic_compare_exchange_strong_explicit(&began, &first, now,
		    memory_order_relaxed, memory_order_relaxed))
		return true;
	if (now - first >= SAME_MS)
		ending_by(number);
	return false;
}
