/* SPDX-License-Identifier: MIT */
/*
 * Leases of a store: the book, and the messages to the daemon that it needs.
 *
 * The book works without messages as long as it can: the last release of a
 * storage without a name rings the daemon, and when all slots are in use the
 * store asks the daemon for another page of them.
 */
#include <sys/mman.h>

#include "base/fail.h"
#include "base/fd.h"
#include "lib/store/store.h"

/* Destructors call this, with whatever locks their callers have, so it neither
 * waits for the daemon nor fails. See "Notifications" in shm/lease.h. */
void store_notify_released(
	struct tarn_store *store, uint32_t index, uint64_t generation)
{
	struct msg_released released = {
		.index = index, .generation = generation};

	if (connection_notify_release(&store->connection, &released))
		return;
	lease_book_notify(&store->book);
	connection_notify_later(&store->connection);
}

void store_unpin(struct tarn_store *store)
{
	if (!lease_book_unpin(&store->book, &store->table))
		return;
	lease_book_notify(&store->book);
	connection_notify_later(&store->connection);
}

void store_drop_lease(struct tarn_store *store, uint32_t index,
	uint64_t generation, const tarn_storage *storage)
{
	store_unpin(store);
	if (lease_book_drop(
		    &store->book, &store->table, index, generation, storage))
		store_notify_released(store, index, generation);
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

/* Adds another page, unless another thread has just done so. */
static int more(struct tarn_store *store)
{
	struct lease_page *page;
	int r = 0;

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

	/* After the daemon sent invalid messages, nothing new is trusted. A
	 * daemon that is gone gives its memory to no other client, and its last
	 * state can be opened; one that has ended this connection alone marks
	 * the pages as closed. */
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
	/* The daemon may have found the lease of this attempt, and wait for its
	 * release: the notification comes after the release. */
	if (r == -EBUSY)
		store_notify_released(store, index, generation);
	return r;
}
