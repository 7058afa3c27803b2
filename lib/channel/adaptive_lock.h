/* SPDX-License-Identifier: MIT */
/*
 * A lock for sections of some tens of nanoseconds that is nearly always free.
 *
 * A mutex needs a locked instruction at both ends, since an unlock must see
 * whether a thread sleeps. This lock wakes no thread: one that finds it taken
 * looks a few times, then naps and looks again (adaptive_lock.c). So unlocking
 * is a plain store, and locking the one locked instruction, or none in a
 * process with one thread. No thread spins for long on a holder that was
 * preempted, whatever the priorities are.
 *
 * It may be taken before a fork and released after it, in parent and child.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/single_threaded.h"

struct adaptive_lock {
	atomic_bool taken; /* initially false */
};

/* Waits for the lock, after it was found taken. */
void adaptive_lock_await(struct adaptive_lock *lock);

/* For the only thread of the process: no other can come between test and store,
 * since this thread would have to create it, later. */
static inline bool adaptive_lock_take_single(struct adaptive_lock *lock)
{
	/* Acquire: pairs with the release of a thread that has ended since. */
	if (!tarn_is_single_threaded() ||
		atomic_load_explicit(&lock->taken, memory_order_acquire))
		return false;
	/* Relaxed: a later thread is created by this one. */
	atomic_store_explicit(&lock->taken, true, memory_order_relaxed);
	return true;
}

static inline void adaptive_lock_take(struct adaptive_lock *lock)
{
	if (adaptive_lock_take_single(lock))
		return;
	/* Acquire: pairs with the release in adaptive_lock_give(). */
	if (__builtin_expect(atomic_exchange_explicit(
				     &lock->taken, true, memory_order_acquire),
		    0))
		adaptive_lock_await(lock);
}

static inline void adaptive_lock_give(struct adaptive_lock *lock)
{
	/* Release: pairs with the acquire of the next holder. */
	atomic_store_explicit(&lock->taken, false, memory_order_release);
}
