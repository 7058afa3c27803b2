/* SPDX-License-Identifier: MIT */
/*
 * Sleeping until the control region changes: a futex that a read-only mapping
 * can wait on, in any number of processes and threads.
 *
 * No wake-up is lost. The server first stores its changes, then adds one to
 * header.changed, then wakes. The waiter reads changed first, then everything
 * else, and the kernel puts it to sleep only if changed still has the value
 * that was read. So a change that the look did not see was stored after it, and
 * the addition that follows it either comes before the sleep, which then does
 * not begin, or after, and wakes the waiter. A waiter that is woken for nothing
 * looks again, at the cost of a look-up.
 *
 * A daemon that is gone wakes no process, so the waiter checks its socket now
 * and then, and receives unsolicited messages, since no other thread may be
 * there to do so. A server that died, or was ended for an upgrade, is replaced
 * behind the same socket, and the next one continues in the same region: the
 * waiter does not notice.
 */
#include "lib/store/wait.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "lib/store/store.h"

#define SLICE_NS 1000000000ull /* between two checks of the socket */
#define NAP_NS 5000000ull      /* while a server is being replaced */

/* Until changed has another value than seen, or that time at the latest. */
static int doze(struct tarn_store *store, uint32_t seen, uint64_t until)
{
	const struct timespec t = {.tv_sec = (time_t)(until / 1000000000u),
		.tv_nsec = (long)(until % 1000000000u)};

	/* Not FUTEX_PRIVATE: the server wakes through its own mapping. */
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

int store_wait(
	struct tarn_store *store, int timeout_ms, wait_look look, void *arg)
{
	uint64_t deadline = deadline_of(timeout_ms), alive_at = 0, now, until;
	int r = connection_ready(&store->connection);

	while (r >= 0) {
		/* Acquire: pairs with the release addition in table_wake; the
		 * look sees the changes counted by it. */
		uint32_t seen = atomic_load_explicit(
			&store->table.header->changed, memory_order_acquire);

		r = look(arg);
		if (r == 1)
			return 0;
		if (r < 0 && r != -EAGAIN)
			return r;
		now = clock_ns(CLOCK_MONOTONIC);
		until = r == -EAGAIN ? now + NAP_NS : UINT64_MAX;
		if (now >= deadline)
			return -ETIMEDOUT;
		r = 0;
		if (now >= alive_at) {
			r = connection_receive_unasked(&store->connection);
			alive_at = now + SLICE_NS;
		}
		if (r >= 0)
			r = doze(store, seen,
				MIN(MIN(deadline, until), alive_at));
	}
	return r;
}
