/* SPDX-License-Identifier: MIT */
/*
 * Stores across fork().
 *
 * Leases belong to a connection, and end with it. If a child used its parent's
 * leases, the tensors that it reads would be freed under it when the parent
 * releases them or is killed; and the child could not prevent that, since
 * arrays in a child need never call the library again. So the forking thread,
 * before the fork, opens a second connection for the child and copies the
 * leases into its page, each acquired like any other (see "Moving" in
 * shm/lease.h): from its first instruction on the child holds its tensors.
 * After the fork the child puts these leases into the same objects, so that all
 * addresses stay the same, and each of the two processes closes the other's
 * descriptors.
 *
 * A store without leases costs a fork nothing: the child connects when it needs
 * to send a message. Where no connection can be made, be it that the daemon
 * cannot be reached or that the user has as many connections as it may, the
 * child's store is dead. Then its tensors have the leases of the parent's
 * connection, which stay in their slots whatever the parent drops, until the
 * child has ended (lease_pins.h): so they are valid until the parent's process
 * ends, or both have closed the store.
 *
 * Locks are taken in one order: that of the list, then of each store those of
 * store_lock below. A new lock of a store must be added there.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fail.h"
#include "base/fd.h"
#include "lib/cuda/cuda.h"
#include "lib/store/socket_connect.h"
#include "lib/store/store.h"

#define CHILD_TRIES 5

int store_fork_timeout_ms = 3000;

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tarn_store *stores;

/* ---- a second connection ---------------------------------------------- */

/* What the child continues with. */
struct child_connection {
	struct connection connection;
	struct lease_slots slots; /* of that connection */
	uint32_t *by_entry;       /* the slots of the book's leases there; NULL:
				   * none */
	char why[200];            /* why there is no connection */
};

static int more_slots(void *arg)
{
	struct child_connection *child = arg;
	struct lease_page *page;
	int r = store_lease_page(&child->connection, &page);

	return r < 0 ? r : lease_slots_add(&child->slots, page);
}

static int greet(struct child_connection *child, struct tarn_store *store,
	uint32_t flags)
{
	struct welcome welcome = {.table_fd = -1, .lease_fd = -1};
	struct lease_page *page;
	int r;

	r = store_hello(&child->connection, store->pool, flags, &welcome);
	if (r < 0)
		return r;
	if (welcome.instance != store->instance)
		r = tarn_fail(ESTALE,
			"daemon at %s: another one has taken the place of the "
			"one that this store was opened with; open another "
			"store",
			store->socket);
	else
		r = lease_map(welcome.lease_fd, &page);
	welcome_done(&welcome);
	if (r >= 0)
		lease_slots_init(&child->slots, page);
	return r;
}

static void child_done(struct child_connection *child)
{
	connection_done(&child->connection);
	lease_slots_done(&child->slots);
	free(child->by_entry);
	child->by_entry = NULL;
}

static int child_connect(struct child_connection *child,
	struct tarn_store *store, int timeout_ms, uint32_t flags)
{
	int fd, r;

	r = socket_connect(store->socket, timeout_ms, &fd);
	if (r < 0)
		return r;
	r = connection_init(&child->connection, fd, store->socket, timeout_ms);
	if (r < 0)
		return r;
	r = greet(child, store, flags);
	if (r < 0)
		child_done(child);
	return r;
}

/* ---- before the fork, and after it in the parent ----------------------- */

static void store_lock(struct tarn_store *store)
{
	pthread_mutex_lock(&store->fork_hooks_lock);
	pthread_mutex_lock(&store->files.lock);
	pthread_mutex_lock(&store->pools.lock);
	pthread_mutex_lock(&store->more_leases);
	pthread_mutex_lock(&store->reconnecting);
	connection_lock(&store->connection);
	pthread_mutex_lock(&store->book.lock);
	for (struct fork_hook *r = store->fork_hooks; r; r = r->next)
		r->before_fork(r->arg);
}

static void store_unlock(struct tarn_store *store, bool child)
{
	for (struct fork_hook *r = store->fork_hooks; r; r = r->next)
		r->after_fork(r->arg, child);
	pthread_mutex_unlock(&store->book.lock);
	connection_unlock(&store->connection);
	pthread_mutex_unlock(&store->reconnecting);
	pthread_mutex_unlock(&store->more_leases);
	pthread_mutex_unlock(&store->pools.lock);
	pthread_mutex_unlock(&store->files.lock);
	pthread_mutex_unlock(&store->fork_hooks_lock);
}

/* One attempt: opens a connection, and copies all leases into its pages. */
static int child_try(struct child_connection *child, struct tarn_store *store)
{
	int r = child_connect(child, store, store_fork_timeout_ms, HELLO_CHILD);

	if (r < 0)
		return r;
	r = lease_book_copy(&store->book, &store->table, &child->slots,
		more_slots, child, &child->by_entry);
	if (r < 0)
		child_done(child);
	return r;
}

/* A server that dies meanwhile costs the connection, and the next one serves a
 * new one at once: only many deaths during one fork leave a child without. */
static struct child_connection *make_child_connection(struct tarn_store *store)
{
	struct child_connection *child = calloc(1, sizeof(*child));
	int r = -ECONNRESET;

	if (!child)
		return NULL;
	for (int i = 0; i < CHILD_TRIES && r == -ECONNRESET; i++)
		r = child_try(child, store);
	if (r < 0)
		snprintf(child->why, sizeof(child->why), "%.*s",
			(int)sizeof(child->why) - 1, tarn_fail_message());
	return child;
}

static bool has_leases(const struct child_connection *child)
{
	return child && !child->why[0];
}

static void prepare(void)
{
	pthread_mutex_lock(&list_lock);
	for (struct tarn_store *s = stores; s; s = s->next) {
		store_unpin(s);
		store_lock(s);
		s->child = s->book.n_used && !connection_is_dead(&s->connection)
				   ? make_child_connection(s)
				   : NULL;
		s->pin = s->book.n_used &&
					 !connection_is_dead(&s->connection) &&
					 !has_leases(s->child)
				 ? lease_pin_new(s->book.n_used)
				 : NULL;
	}
}

static void in_parent(void)
{
	for (struct tarn_store *s = stores; s; s = s->next) {
		if (has_leases(s->child))
			child_done(s->child);
		else
			lease_book_leave(&s->book, s->pin);
		s->pin = NULL;
		free(s->child);
		s->child = NULL;
		store_unlock(s, false);
	}
	pthread_mutex_unlock(&list_lock);
}

/* ---- in the child ------------------------------------------------------ */

static void inherit(struct tarn_store *store)
{
	struct lease_slots none = {0};
	struct child_connection *child = store->child;
	char why[sizeof(store->connection.why)];

	store->child = NULL;
	if (store->pin)
		store->pin_end = fd_steal(&store->pin->child_end);
	store->pin = lease_pin_free(store->pin);
	if (has_leases(child)) {
		connection_replace(&store->connection, &child->connection);
		lease_book_turn(&store->book, &child->slots, child->by_entry);
		free(child->by_entry);
	} else if (store->book.n_used ||
		   connection_is_dead(&store->connection)) {
		snprintf(why, sizeof(why),
			"no connection could be made for this child at fork(): "
			"%s",
			child ? child->why : "out of memory");
		connection_mark_dead(&store->connection, ECONNRESET, why);
		lease_book_turn(&store->book, &none, NULL);
	} else {
		connection_sleep(&store->connection);
		lease_book_turn(&store->book, &none, NULL);
	}
	free(child);
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

/* Connects the sleeping store of a child. */
static int reconnect(void *arg)
{
	struct tarn_store *store = arg;
	struct child_connection child = {0};
	int r = 0;

	pthread_mutex_lock(&store->reconnecting);
	if (atomic_load_explicit(
		    &store->connection.lazy, memory_order_relaxed)) {
		r = child_connect(
			&child, store, store->connection.timeout_ms, 0);
		if (r >= 0) {
			connection_lock(&store->connection);
			pthread_mutex_lock(&store->book.lock);
			lease_book_turn(&store->book, &child.slots, NULL);
			connection_replace(
				&store->connection, &child.connection);
			pthread_mutex_unlock(&store->book.lock);
			connection_unlock(&store->connection);
		}
	}
	pthread_mutex_unlock(&store->reconnecting);
	return r;
}

/* ---- the list ---------------------------------------------------------- */

static void watch_forks(void)
{
	/* What is watched later is locked earlier, at a fork; and the locks
	 * below these come after them. */
	cuda_watch_forks();
	pthread_atfork(prepare, in_parent, in_child);
}

void store_enlist(struct tarn_store *store)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_forks);
	pthread_mutex_init(&store->reconnecting, NULL);
	pthread_mutex_init(&store->fork_hooks_lock, NULL);
	store->connection.reconnect = reconnect;
	store->connection.reconnect_arg = store;
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

	/* Neighbours that enlist and delist write it, too. */
	pthread_mutex_lock(&list_lock);
	listed = store->previous;
	if (listed)
		*store->previous = store->next;
	if (store->next)
		store->next->previous = store->previous;
	pthread_mutex_unlock(&list_lock);
	if (listed) {
		pthread_mutex_destroy(&store->reconnecting);
		pthread_mutex_destroy(&store->fork_hooks_lock);
	}
}

/* ---- fork hooks ---------------------------------------------------- */

void store_add_fork_hook(struct tarn_store *store, struct fork_hook *fork_hook)
{
	pthread_mutex_lock(&store->fork_hooks_lock);
	fork_hook->next = store->fork_hooks;
	fork_hook->previous = &store->fork_hooks;
	if (fork_hook->next)
		fork_hook->next->previous = &fork_hook->next;
	store->fork_hooks = fork_hook;
	pthread_mutex_unlock(&store->fork_hooks_lock);
}

void store_remove_fork_hook(
	struct tarn_store *store, struct fork_hook *fork_hook)
{
	pthread_mutex_lock(&store->fork_hooks_lock);
	*fork_hook->previous = fork_hook->next;
	if (fork_hook->next)
		fork_hook->next->previous = fork_hook->previous;
	fork_hook->previous = NULL;
	pthread_mutex_unlock(&store->fork_hooks_lock);
}
