/* SPDX-License-Identifier: MIT */
/*
 * A lock for what takes some tens of nanoseconds, and is nearly always free.
 *
 * Of a mutex both ends are locked instructions, since who lets go has to see
 * whether anybody sleeps. Here nobody is woken: who finds it taken looks a few
 * times, then naps and looks again (brief.c), so letting go is a plain store,
 * and taking it the one locked instruction. No thread that is kept off its
 * processor while it has the lock is waited for by spinning, whatever the
 * priorities are.
 *
 * It may be taken before a fork and let go after it, in parent and child.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

struct brief {
	atomic_bool taken; /* false at first */
};

/* It was found taken. */
void brief_await(struct brief *brief);

static inline void brief_lock(struct brief *brief)
{
	/* Acquire: pairs with the release in brief_unlock(). */
	if (__builtin_expect(atomic_exchange_explicit(
				     &brief->taken, true, memory_order_acquire),
		    0))
		brief_await(brief);
}

static inline void brief_unlock(struct brief *brief)
{
	/* Release: pairs with the acquire of who takes it next. */
	atomic_store_explicit(&brief->taken, false, memory_order_release);
}
