/* SPDX-License-Identifier: MIT */
/*
 * Stores across fork().
 *
 * Leases belong to a connection, and die with it. If a child went on with its
 * parent's, what it reads would be freed under it when the parent lets go or
 * is killed; and it could not say so, since arrays in a child need never call
 * us again. So it is the forking thread, before the fork, that gets the child
 * a connection of its own and copies the leases into its page, each taken as
 * any other is (see "Moving" in shm/lease.h): from the first instruction on
 * the child holds what it has. After the fork the child puts these into the
 * same objects, so that everything goes on under the same addresses, and each
 * of the two closes what is the other's.
 *
 * A store without leases costs a fork nothing: the child connects when it has
 * something to say. Where no connection is to be had, the child's store is
 * dead, and what it has mapped is valid as long as the parent holds it.
 *
 * Locks are taken in one order: that of the list, then of each store those of
 * store_lock below. Whoever adds one to a store adds it there.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fail.h"
#include "base/fd.h"
#include "lib/store/socket_path.h"
#include "lib/store/store.h"

/* For each word of the second connection: a fork waits so long for a daemon
 * that hangs, no longer. */
#define FORK_TIMEOUT_MS 3000
#define HEIR_TRIES 5

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tarn_store *stores;

/* ---- a second connection ---------------------------------------------- */

/* What a child goes on with. */
struct heir {
	struct connection connection;
	struct lease_slots slots; /* of that connection */
	uint32_t *by_entry;       /* the book's leases there; NULL: none */
	char why[200];            /* there is no connection: why */
};

static int more_slots(void *arg)
{
	struct heir *heir = arg;
	struct lease_page *page;
	int r = store_lease_page(&heir->connection, &page);

	return r < 0 ? r : lease_slots_add(&heir->slots, page);
}

/* With the store locked, all of it or its moving. */
static int greet(struct heir *heir, struct tarn_store *store, uint32_t flags)
{
	struct welcome welcome = {.table_fd = -1, .lease_fd = -1};
	struct lease_page *page;
	int r;

	r = store_hello(&heir->connection, store->pool, flags, &welcome);
	if (r < 0)
		return r;
	if (welcome.instance != store->instance)
		r = tarn_fail(ESTALE,
			"daemon at %s: another one has taken the place of the "
			"one that this store was opened with; open another "
			"store",
			store->socket);
	else
		r = store_follow_locked(store, welcome.table_fd);
	if (r >= 0)
		r = lease_map(welcome.lease_fd, &page);
	welcome_done(&welcome);
	if (r >= 0)
		lease_slots_init(&heir->slots, page);
	return r;
}

static void heir_done(struct heir *heir)
{
	connection_done(&heir->connection);
	lease_slots_done(&heir->slots);
	free(heir->by_entry);
	heir->by_entry = NULL;
}

static int heir_connect(struct heir *heir, struct tarn_store *store,
	int timeout_ms, uint32_t flags)
{
	int fd, r;

	r = socket_connect(store->socket, &fd);
	if (r < 0)
		return r;
	r = connection_init(&heir->connection, fd, store->socket, timeout_ms);
	if (r < 0)
		return r;
	r = greet(heir, store, flags);
	if (r < 0)
		heir_done(heir);
	return r;
}

/* ---- before the fork, and after it in the parent ----------------------- */

static void store_lock(struct tarn_store *store)
{
	pthread_mutex_lock(&store->riding);
	pthread_mutex_lock(&store->files.lock);
	pthread_mutex_lock(&store->pools.lock);
	pthread_mutex_lock(&store->more_leases);
	pthread_mutex_lock(&store->waking);
	connection_lock(&store->connection);
	pthread_mutex_lock(&store->moving);
	pthread_mutex_lock(&store->book.lock);
	for (struct store_rider *r = store->riders; r; r = r->next)
		r->before_fork(r->arg);
}

static void store_unlock(struct tarn_store *store, bool child)
{
	for (struct store_rider *r = store->riders; r; r = r->next)
		r->after_fork(r->arg, child);
	pthread_mutex_unlock(&store->book.lock);
	pthread_mutex_unlock(&store->moving);
	connection_unlock(&store->connection);
	pthread_mutex_unlock(&store->waking);
	pthread_mutex_unlock(&store->more_leases);
	pthread_mutex_unlock(&store->pools.lock);
	pthread_mutex_unlock(&store->files.lock);
	pthread_mutex_unlock(&store->riding);
}

/* One attempt: a connection, and all leases in its pages. */
static int heir_try(struct heir *heir, struct tarn_store *store)
{
	int r = heir_connect(heir, store, FORK_TIMEOUT_MS, HELLO_CHILD);

	if (r < 0)
		return r;
	r = lease_book_copy(&store->book, &store->table, &heir->slots,
		more_slots, heir, &heir->by_entry);
	if (r < 0)
		heir_done(heir);
	return r;
}

static bool heir_again(const struct tarn_store *store, int r)
{
	return r == -ECONNRESET ||
	       (r == -ESTALE && table_is_left(&store->table));
}

/* A server that dies meanwhile costs the connection, and the next one serves
 * a new one at once: only many deaths in one fork leave a child without. So it
 * is with an upgrade, after which no lease can be taken in the table that we
 * have; the next connection brings the one to follow to. */
static struct heir *make_heir(struct tarn_store *store)
{
	struct heir *heir = calloc(1, sizeof(*heir));
	int r = -ECONNRESET;

	if (!heir)
		return NULL;
	for (int i = 0; i < HEIR_TRIES && heir_again(store, r); i++)
		r = heir_try(heir, store);
	if (r < 0)
		snprintf(heir->why, sizeof(heir->why), "%.*s",
			(int)sizeof(heir->why) - 1, tarn_fail_message());
	return heir;
}

static void prepare(void)
{
	pthread_mutex_lock(&list_lock);
	for (struct tarn_store *s = stores; s; s = s->next) {
		store_lock(s);
		s->heir = s->book.n_used && !connection_is_dead(&s->connection)
				  ? make_heir(s)
				  : NULL;
	}
}

static void in_parent(void)
{
	for (struct tarn_store *s = stores; s; s = s->next) {
		if (s->heir && !s->heir->why[0])
			heir_done(s->heir);
		free(s->heir);
		s->heir = NULL;
		store_unlock(s, false);
	}
	pthread_mutex_unlock(&list_lock);
}

/* ---- in the child ------------------------------------------------------ */

static void inherit(struct tarn_store *store)
{
	struct lease_slots none = {0};
	struct heir *heir = store->heir;
	char why[sizeof(store->connection.why)];

	store->heir = NULL;
	if (heir && !heir->why[0]) {
		connection_replace(&store->connection, &heir->connection);
		lease_book_turn(&store->book, &heir->slots, heir->by_entry);
		free(heir->by_entry);
	} else if (store->book.n_used ||
		   connection_is_dead(&store->connection)) {
		snprintf(why, sizeof(why),
			"no connection for this child was to be had at "
			"fork(): %s",
			heir ? heir->why : "out of memory");
		connection_bury(&store->connection, ECONNRESET, why);
		lease_book_turn(&store->book, &none, NULL);
	} else {
		connection_sleep(&store->connection);
		lease_book_turn(&store->book, &none, NULL);
	}
	free(heir);
}

static void in_child(void)
{
	for (struct tarn_store *s = stores; s; s = s->next) {
		inherit(s);
		/* Relaxed: there is no other thread. */
		atomic_store_explicit(&s->owner, 0, memory_order_relaxed);
		store_unlock(s, true);
	}
	pthread_mutex_unlock(&list_lock);
}

/* A child that slept has something to say. */
static int wake(void *arg)
{
	struct tarn_store *store = arg;
	struct heir heir = {0};
	int r = 0;

	pthread_mutex_lock(&store->waking);
	if (atomic_load_explicit(
		    &store->connection.asleep, memory_order_relaxed)) {
		pthread_mutex_lock(&store->moving);
		r = heir_connect(&heir, store, store->connection.timeout_ms, 0);
		pthread_mutex_unlock(&store->moving);
		if (r >= 0) {
			connection_lock(&store->connection);
			pthread_mutex_lock(&store->book.lock);
			lease_book_turn(&store->book, &heir.slots, NULL);
			connection_replace(
				&store->connection, &heir.connection);
			pthread_mutex_unlock(&store->book.lock);
			connection_unlock(&store->connection);
		}
	}
	pthread_mutex_unlock(&store->waking);
	return r;
}

/* ---- the list ---------------------------------------------------------- */

static void watch_forks(void)
{
	pthread_atfork(prepare, in_parent, in_child);
}

void store_enlist(struct tarn_store *store)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_forks);
	pthread_mutex_init(&store->waking, NULL);
	pthread_mutex_init(&store->riding, NULL);
	store->connection.wake = wake;
	store->connection.wake_arg = store;
	pthread_mutex_lock(&list_lock);
	store->next = stores;
	store->previous = &stores;
	if (stores)
		stores->previous = &store->next;
	stores = store;
	pthread_mutex_unlock(&list_lock);
}

void store_delist(struct tarn_store *store)
{
	bool listed;

	/* Neighbours that come and go write it, too. */
	pthread_mutex_lock(&list_lock);
	listed = store->previous;
	if (listed)
		*store->previous = store->next;
	if (store->next)
		store->next->previous = store->previous;
	pthread_mutex_unlock(&list_lock);
	if (listed) {
		pthread_mutex_destroy(&store->waking);
		pthread_mutex_destroy(&store->riding);
	}
}

/* ---- riders ---------------------------------------------------------------- */

void store_ride(struct tarn_store *store, struct store_rider *rider)
{
	pthread_mutex_lock(&store->riding);
	rider->next = store->riders;
	rider->previous = &store->riders;
	if (rider->next)
		rider->next->previous = &rider->next;
	store->riders = rider;
	pthread_mutex_unlock(&store->riding);
}

void store_get_off(struct tarn_store *store, struct store_rider *rider)
{
	pthread_mutex_lock(&store->riding);
	*rider->previous = rider->next;
	if (rider->next)
		rider->next->previous = rider->previous;
	rider->previous = NULL;
	pthread_mutex_unlock(&store->riding);
}
