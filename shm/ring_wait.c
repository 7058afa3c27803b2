/* SPDX-License-Identifier: MIT */
/*
 * Waiting for a slot or an item: spin a little, then sleep on a futex.
 *
 * No wake-up is lost, because a sleeper sets a bit before it looks for the last
 * time (S1, S2), and a participant that changes something reads the bits
 * afterwards (W1, W2). It is a bit, not a count: it survives the death of the
 * sleeper, at the price of one superfluous system call.
 */
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/cpus.h"
#include "base/fail.h"
#include "shm/ring_internal.h"
#include "shm/wake.h"

/* The time between two calls of interrupted(): a signal may come just before
 * the sleep, where it would not end it. */
#define SLICE_NS 200000000ull
/* Looks before sleeping, at least and at most; some microseconds. */
#define SPIN_MIN 16u
#define SPIN_MAX 2000u

#define ONE 4u /* what the count in a futex word is incremented by */

static long futex_wake(_Atomic uint32_t *futex, int n, uint32_t whom)
{
	/* Not FUTEX_PRIVATE: other processes wait, on their own mappings. */
	return syscall(
		SYS_futex, futex, FUTEX_WAKE_BITSET, n, NULL, NULL, whom);
}

/* The value changes, so that a participant that is about to sleep does not; and
 * the bits are cleared: each that sleeps again sets its own. */
static void wake_each(_Atomic uint32_t *futex, uint32_t whom)
{
	uint32_t now = atomic_load(futex);

	for (int i = 0; i < 1024; i++)
		if (atomic_compare_exchange_strong(
			    futex, &now, (now + ONE) & ~whom))
			break;
	/* The server leaves all of them: a participant can have crowds on many
	 * rings, and waits with other masks, which this call would pass one by
	 * one. */
	if (!wake_leave(futex))
		futex_wake(futex, INT_MAX, whom);
}

void ring_wake_those(_Atomic uint32_t *futex, uint32_t now, bool all)
{
	/* A helper may wake them later, so the number is unknown. */
	if (all || wake_is_left()) {
		wake_each(futex, RING_BOTH);
		return;
	}
	if (now & RING_WATCHED)
		wake_each(futex, RING_WATCHED);
	if (!(now & RING_ASLEEP))
		return;
	now = atomic_fetch_add(futex, ONE) + ONE;
	if (futex_wake(futex, 1, RING_ASLEEP) > 0)
		return;
	/* No sleeper was there, so the bit is cleared, and the value changed;
	 * otherwise a participant that set the bit before would sleep on a
	 * value that another has set again. The second call wakes those that
	 * fell asleep between the two calls. */
	if (atomic_compare_exchange_strong(
		    futex, &now, (now + ONE) & ~RING_ASLEEP))
		futex_wake(futex, INT_MAX, RING_ASLEEP);
}

void ring_wake_everybody(struct ring *ring)
{
	wake_each(&ring->head->items, RING_BOTH);
	wake_each(&ring->head->space, RING_BOTH);
}

/* The value changes (pairs with S1: a sleeper either sees what was changed before, or
 * does not fall asleep), and the bits stay: if we die before the call, the next that
 * has something to tell makes it. */
static void stir(_Atomic uint32_t *futex)
{
	atomic_fetch_add(futex, ONE);
	futex_wake(futex, INT_MAX, RING_BOTH);
}

void ring_stir(struct ring *ring)
{
	stir(&ring->head->items);
	stir(&ring->head->space);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield");
#endif
}

/* With one processor, the participant that we wait for needs it. */
static bool alone(void)
{
	static _Atomic int known; /* 1: yes, 2: no; relaxed: it never changes */
	int k = atomic_load_explicit(&known, memory_order_relaxed);

	if (!k) {
		k = cpus_allowed() == 1 ? 1 : 2;
		atomic_store_explicit(&known, k, memory_order_relaxed);
	}
	return k == 1;
}

static int interrupted(void)
{
	return tarn_fail(EINTR, "ring: the wait was interrupted");
}

/* 0: slept until something happened, or an error. */
static int doze(_Atomic uint32_t *futex, uint32_t seen, uint32_t as,
	const struct ring_wait *wait)
{
	uint64_t now = now_ns(), until = wait->deadline_ns;
	struct timespec t;

	if (wait->interrupted && wait->interrupted(wait->arg))
		return interrupted();
	if (now >= until)
		return tarn_fail(ETIMEDOUT, "ring: the wait timed out");
	if (wait->interrupted)
		until = MIN(until, now + SLICE_NS);
	/* With a timeout the kernel never restarts the call by itself after a
	 * signal handler. */
	t.tv_sec = (time_t)MIN(until / 1000000000u, (uint64_t)INT32_MAX);
	t.tv_nsec = (long)(until % 1000000000u);
	if (syscall(SYS_futex, futex, FUTEX_WAIT_BITSET, seen, &t, NULL, as) ==
			0 ||
		errno == EAGAIN || errno == ETIMEDOUT)
		return 0;
	if (errno == EINTR)
		return wait->signals ? interrupted() : 0;
	return tarn_fail(errno, "ring: futex: %s", tarn_errno_text(errno));
}

/* Spins as long as it pays: the bound follows the counts of the last times. A
 * look at many slots counts as many. */
static int spin(
	struct ring *ring, uint32_t cost, int (*look)(void *arg), void *arg)
{
	/* Relaxed: an estimate that nothing depends on. */
	uint32_t most = atomic_load_explicit(&ring->spin, memory_order_relaxed);
	uint32_t n, next = MAX(most - most / 8, SPIN_MIN);
	int r = 0;

	if (alone())
		return 0;
	n = MIN(most, ring->spin_max) / cost;
	for (uint32_t i = 0; r == 0 && i < n; i++) {
		relax();
		r = look(arg);
		if (r != 0)
			next = MIN(MAX(4 * i, n) * cost, ring->spin_max);
	}
	atomic_store_explicit(&ring->spin, next, memory_order_relaxed);
	return r;
}

void ring_wait_init(struct ring *ring)
{
	ring->spin = ring->spin_max = SPIN_MAX;
}

int ring_wait_for(struct ring *ring, enum ring_word which,
	const struct ring_wait *wait, int (*look)(void *arg), void *arg)
{
	bool items = which == RING_ITEMS, slept = false;
	uint32_t as = wait->watcher ? RING_WATCHED : RING_ASLEEP;
	_Atomic uint32_t *futex =
		items ? &ring->head->items : &ring->head->space;
	int r = look(arg);

	if (r == 0)
		r = spin(ring, items ? 1 : 1 + ring->geometry.slots / 64, look,
			arg);
	while (r == 0) {
		uint32_t seen = atomic_fetch_or(futex, as); /* S1 */

		/* Makes the look also find slots that no participant has
		 * counted. It is set after S1, and so the look that consumes it
		 * is too: pairs with ring_is_still_full(). */
		atomic_store(&ring->thorough, 1);
		r = look(arg); /* S2: pairs with W1 */
		if (r != 0)
			break;
		r = doze(futex, seen | as, as, wait);
		if (r < 0)
			break;
		slept = true;
		r = look(arg);
	}
	/* We may have consumed a wake-up for an item or slot that we do not
	 * take. */
	if (r < 0 && slept && !wait->watcher)
		ring_wake(futex, false);
	return r;
}

struct look {
	struct ring *ring;
	uint32_t *ret_slot;
	struct ring_item *ret_item;
};

static int look_for_slot(void *arg)
{
	struct look *look = arg;

	return ring_acquire(look->ring, look->ret_slot);
}

static int look_for_item(void *arg)
{
	struct look *look = arg;

	return ring_receive(look->ring, look->ret_item);
}

int ring_wait_acquire(
	struct ring *ring, const struct ring_wait *wait, uint32_t *ret_slot)
{
	struct look look = {.ring = ring, .ret_slot = ret_slot};

	return ring_wait_for(ring, RING_SPACE, wait, look_for_slot, &look);
}

int ring_wait_receive(
	struct ring *ring, const struct ring_wait *wait, struct ring_item *ret)
{
	struct look look = {.ring = ring, .ret_item = ret};

	return ring_wait_for(ring, RING_ITEMS, wait, look_for_item, &look);
}
