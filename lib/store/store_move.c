/* SPDX-License-Identifier: MIT */
/*
 * A daemon that was upgraded goes on in another control region.
 *
 * The idea: who only looks names up says nothing and hears nothing, so it is
 * the old region that tells him that it was left. Then he reads what the
 * daemon has said meanwhile, as whoever waits for an answer does: that there
 * is another server; its answer to our resuming brings the next region, which
 * is mapped over the old one. Addresses, indices, generations and leases are
 * what they were.
 */
#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "lib/store/store.h"

/* Who follows the next region tells nobody: who waits for it, maybe at the
 * socket, looks this often whether another thread has. Picked. */
#define LOOK_MS 50

int store_follow_locked(void *arg, int fd)
{
	struct tarn_store *store = arg;
	int r = table_follow(&store->table, fd);

	return r < 0 ? r : 0;
}

int store_follow(void *arg, int fd)
{
	struct tarn_store *store = arg;
	int r;

	pthread_mutex_lock(&store->moving);
	r = store_follow_locked(store, fd);
	pthread_mutex_unlock(&store->moving);
	return r;
}

static bool is_here(const struct tarn_store *store)
{
	return !table_is_left(&store->table);
}

/* With the connection's lock held. */
static bool is_here_or_lost(void *arg)
{
	const struct tarn_store *store = arg;

	return is_here(store) || store->connection.moved_lost;
}

static void set_lost(struct tarn_store *store, bool lost)
{
	pthread_mutex_lock(&store->connection.lock);
	store->connection.moved_lost = lost;
	pthread_mutex_unlock(&store->connection.lock);
}

/* It was sent, when this process could open nothing: a hello that is said again
 * brings it. -EMFILE, or whatever else it was: the next one who looks asks
 * again. */
static int ask_for_it(struct tarn_store *store)
{
	struct welcome welcome = {.table_fd = -1, .lease_fd = -1};
	int r;

	set_lost(store, false);
	r = store_hello(&store->connection, store->pool, 0, &welcome);
	if (r >= 0)
		r = store_follow(store, welcome.table_fd);
	welcome_done(&welcome);
	if (r < 0)
		set_lost(store, true);
	return r;
}

/* -ETIMEDOUT: nothing to be done so far. */
static int await_it(struct tarn_store *store, int64_t deadline)
{
	int64_t left;
	int r;

	do {
		left = MAX(deadline - clock_ms(), (int64_t)0);
		r = connection_await(&store->connection,
			(int)MIN(left, (int64_t)LOOK_MS), is_here_or_lost,
			store);
	} while (r == -ETIMEDOUT && left > LOOK_MS);
	return r;
}

int store_moved_within(struct tarn_store *store, uint64_t place, int timeout_ms)
{
	int64_t deadline = clock_ms() + timeout_ms;
	int r = 0;

	if (is_here(store))
		return table_place(&store->table) != place;
	while (r >= 0 && !is_here(store)) {
		r = await_it(store, deadline);
		if (r >= 0 && !is_here(store))
			r = ask_for_it(store);
	}
	return r < 0 ? r : 1;
}

int store_moved(struct tarn_store *store, uint64_t place)
{
	int ms = store->connection.timeout_ms;
	int r = store_moved_within(store, place, ms);

	if (r == -ETIMEDOUT)
		return tarn_fail(ETIMEDOUT,
			"daemon at %s: it is being replaced by another "
			"version, and has not come back within %d ms",
			store->socket, ms);
	return r;
}
