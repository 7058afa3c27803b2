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
#include "base/fail.h"
#include "lib/store/store.h"

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

static bool is_here(void *arg)
{
	const struct tarn_store *store = arg;

	return !table_is_left(&store->table);
}

int store_moved_within(struct tarn_store *store, uint64_t place, int timeout_ms)
{
	int r;

	if (is_here(store))
		return table_place(&store->table) != place;
	r = connection_await(&store->connection, timeout_ms, is_here, store);
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
