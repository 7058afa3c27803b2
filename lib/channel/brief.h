/* SPDX-License-Identifier: MIT */
/*
 * A lock for what takes some tens of nanoseconds, and is nearly always free.
 *
 * Of a mutex both ends are locked instructions, since who lets go has to see
 * whether anybody sleeps. Here nobody is woken: who finds it taken looks a few
 * times, then naps and looks again (brief.c), so letting go is a plain store,
 * and taking it the one locked instruction, or none where there is but one
 * thread. No thread that is kept off its processor while it has the lock is
 * waited for by spinning, whatever the priorities are.
 *
 * It may be taken before a fork and let go after it, in parent and child.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/alone.h"

struct brief {
	atomic_bool taken; /* false at first */
};

/* It was found taken. */
void brief_await(struct brief *brief);

/* For the only thread there is: nobody comes between look and store, since it
 * would be this one that makes him, later. */
static inline bool brief_lock_alone(struct brief *brief)
{
	/* Acquire: pairs with the release of a thread that has ended since. */
	if (!tarn_is_alone() ||
		atomic_load_explicit(&brief->taken, memory_order_acquire))
		return false;
	/* Relaxed: who comes later was made by this thread. */
	atomic_store_explicit(&brief->taken, true, memory_order_relaxed);
	return true;
}

static inline void brief_lock(struct brief *brief)
{
	if (brief_lock_alone(brief))
		return;
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
