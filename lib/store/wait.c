/* SPDX-License-Identifier: MIT */
/*
 * Sleeping until the control region says something new: a futex that a
 * read-only mapping can wait on, whoever of many processes and threads waits.
 *
 * No wake-up is lost. The server first stores what there is to see, then adds
 * one to header.changed, then wakes. Here changed is read first, then
 * everything else, and the kernel puts us to sleep only if changed is still
 * what was read. So what the look did not see was stored after it, and the
 * addition that follows it either comes before we sleep, and we do not, or
 * after, and wakes us. Whoever is woken for nothing looks again: a look-up.
 *
 * A daemon that is gone wakes nobody, so its socket is looked at now and then;
 * so is what it says there unasked, which nobody else may be there to hear. A
 * server that died is replaced behind the same socket, and writes on in the
 * same region: who waits does not notice. A daemon that is upgraded leaves the
 * region, which wakes all who wait there, and they follow.
 */
#include "lib/store/wait.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "lib/store/store.h"

#define SLICE_NS 1000000000ull /* between two looks at the socket */
#define NAP_NS 5000000ull      /* while a server is being replaced */

/* Until changed is no longer seen, or that time at the latest. */
static int doze(struct tarn_store *store, uint32_t seen, uint64_t until)
{
	const struct timespec t = {.tv_sec = (time_t)(until / 1000000000u),
		.tv_nsec = (long)(until % 1000000000u)};

	/* Not FUTEX_PRIVATE: the server wakes on a mapping of its own. */
	if (syscall(SYS_futex, &store->table.header->changed, FUTEX_WAIT_BITSET,
		    seen, &t, NULL, FUTEX_BITSET_MATCH_ANY) == 0)
		return 0;
	switch (errno) {
	case EAGAIN: /* it has changed already */
	case EINTR:
	case ETIMEDOUT:
		return 0;
	default:
		return tarn_fail(errno, "waiting for the daemon at %s: %s",
			store->socket, tarn_errno_text(errno));
	}
}

static uint64_t deadline_of(int timeout_ms)
{
	return timeout_ms < 0 ? UINT64_MAX
			      : clock_ns(CLOCK_MONOTONIC) +
					(uint64_t)timeout_ms * 1000000u;
}

static int ms_until(uint64_t deadline)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	if (deadline <= now)
		return 0;
	return (int)MIN((deadline - now) / 1000000 + 1, INT_MAX);
}

int store_wait(
	struct tarn_store *store, int timeout_ms, wait_look look, void *arg)
{
	uint64_t deadline = deadline_of(timeout_ms), alive_at = 0, now, until;
	int r = connection_ready(&store->connection), moved;

	while (r >= 0) {
		uint64_t place = table_place(&store->table);
		/* Acquire: pairs with the release addition in table_wake; what
		 * it spoke of is seen by the look. */
		uint32_t seen = atomic_load_explicit(
			&store->table.header->changed, memory_order_acquire);

		r = look(arg);
		if (r == 1)
			return 0;
		/* Whatever was seen, it may be history. */
		moved = store_moved_within(store, place, ms_until(deadline));
		if (moved < 0)
			return moved;
		if (moved) {
			r = 0;
			continue;
		}
		if (r < 0 && r != -EAGAIN)
			return r;
		now = clock_ns(CLOCK_MONOTONIC);
		until = r == -EAGAIN ? now + NAP_NS : UINT64_MAX;
		if (now >= deadline)
			return -ETIMEDOUT;
		r = 0;
		if (now >= alive_at) {
			r = connection_hear(&store->connection);
			alive_at = now + SLICE_NS;
		}
		if (r >= 0)
			r = doze(store, seen,
				MIN(MIN(deadline, until), alive_at));
	}
	return r;
}
