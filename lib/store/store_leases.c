/* SPDX-License-Identifier: MIT */
/*
 * Leases of a store: the book, and what has to be said to the daemon for it.
 *
 * The idea: the book does without messages until it cannot: the last release
 * of what only leases hold rings a bell, and when all slots are in use the
 * daemon is asked for another page of them.
 */
#include <sys/mman.h>

#include "base/fail.h"
#include "base/fd.h"
#include "lib/store/store.h"

/* Nobody waits for the answer, and there is nobody to tell that the bell did
 * not ring: a daemon that is gone needs none. */
void store_say_released(
	struct tarn_store *store, uint32_t index, uint64_t generation)
{
	struct msg_released released = {
		.index = index, .generation = generation};

	connection_notify(
		&store->connection, WIRE_RELEASED, &released, sizeof(released));
}

void store_drop_lease(struct tarn_store *store, uint32_t index,
	uint64_t generation, const tarn_storage *storage)
{
	if (lease_book_drop(
		    &store->book, &store->table, index, generation, storage))
		store_say_released(store, index, generation);
}

int store_lease_page(struct connection *c, struct lease_page **ret)
{
	struct wire_message reply;
	int r;

	r = connection_call(
		c, WIRE_LEASES, NULL, 0, WIRE_LEASE_PAGE, 0, &reply);
	if (r < 0)
		return r;
	if (reply.n_fds != 1)
		r = tarn_fail(EPROTO,
			"daemon at %s: asked for a lease page, it sent %d "
			"descriptors",
			c->peer, reply.n_fds);
	else
		r = lease_map(reply.fds[0], ret);
	wire_message_clear(&reply);
	return r;
}

/* Another page, unless another thread has just brought one. */
static int more(struct tarn_store *store)
{
	struct lease_page *page;
	int r = 0;

	if (store->version < 2)
		return tarn_fail(ENOTSUP,
			"this process holds %u storages, the most that the "
			"daemon at %s has room for, which speaks protocol %u; "
			"drop some, or use a newer tarnd",
			(uint32_t)LEASE_SLOTS_USED, store->socket, store->version);
	pthread_mutex_lock(&store->more_leases);
	if (lease_book_is_full(&store->book)) {
		r = store_lease_page(&store->connection, &page);
		if (r >= 0)
			r = lease_book_add_page(&store->book, page);
	}
	pthread_mutex_unlock(&store->more_leases);
	return r;
}

int store_hold(struct tarn_store *store, uint32_t index, uint64_t generation,
	tarn_storage *(*make)(void), tarn_storage **ret)
{
	int r = connection_ready(&store->connection);

	/* Of a daemon that talks nonsense nothing new is believed. One that is
	 * gone gives its memory to nobody, and what it has left can be opened;
	 * one that has ended this connection alone says so in the pages. */
	if (r >= 0 && connection_is_dead(&store->connection) &&
		connection_is_dead(&store->connection) != ECONNRESET)
		r = connection_error(&store->connection);
	if (r < 0)
		return r;
	for (;;) {
		r = lease_book_open(&store->book, &store->table, index,
			generation, make, ret);
		if (r != -ENOSPC)
			break;
		r = more(store);
		if (r < 0)
			break;
	}
	/* The daemon may have found the lease that we tried with, and wait
	 * for its release: ours is the last word on it. */
	if (r == -EBUSY)
		store_say_released(store, index, generation);
	return r;
}
