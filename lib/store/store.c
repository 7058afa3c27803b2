/* SPDX-License-Identifier: MIT */
/*
 * Opening a store, and requests about the daemon as a whole.
 *
 * Everything that can be mapped is mapped when the store is opened, so that
 * afterwards names are found, and tensors opened and dropped, without a system
 * call; messages are for loads, removals and new segments.
 */
#include "lib/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "base/page.h"
#include "lib/reserved.h"
#include "lib/store/autostart.h"
#include "lib/store/socket_connect.h"
#include "lib/store/socket_path.h"

/* ---- opening --------------------------------------------------------- */

/* A region that is cut short would kill this process as it reads there. */
static int check_region(const struct tarn_store *store, int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals >= 0 && seals & F_SEAL_SHRINK)
		return 0;
	return tarn_fail(EPERM,
		"daemon at %s: its control region is not sealed against "
		"shrinking (seals %#x): it is no daemon of tarn's",
		store->socket, seals < 0 ? 0u : (unsigned)seals);
}

static int map_all(struct tarn_store *store, struct welcome *welcome)
{
	struct lease_page *page;
	int r;

	r = check_region(store, welcome->table_fd);
	if (r >= 0)
		r = table_map(welcome->table_fd, false, &store->table);
	if (r >= 0 && store->table.instance != welcome->instance)
		r = tarn_fail(EPROTO,
			"daemon at %s: it is %016llx, its table is of %016llx",
			store->socket, (unsigned long long)welcome->instance,
			(unsigned long long)store->table.instance);
	if (r >= 0)
		r = lease_map(welcome->lease_fd, &page);
	if (r >= 0)
		r = lease_book_init(&store->book, page);
	if (r < 0)
		return r;
	store->instance = welcome->instance;
	store->version = welcome->version;
	/* So that the first look-up costs no more than the next ones. Hints. */
	table_prefault(&store->table);
	madvise(page, PAGE, MADV_POPULATE_WRITE);
	pool_map_init(&store->pools, &store->connection, &store->table);
	return pool_map_update(&store->pools);
}

int store_open_fd(int fd, const char *socket, const char *pool, int timeout_ms,
	struct tarn_store **ret)
{
	struct tarn_store *store = calloc(1, sizeof(*store));
	struct welcome welcome = {.table_fd = -1, .lease_fd = -1};
	int r;

	if (!store) {
		fd_close(fd);
		return tarn_fail(ENOMEM, "store: out of memory");
	}
	atomic_init(&store->refs, 1);
	atomic_init(&store->handles, 1);
	store->pin_end = -1;
	pthread_mutex_init(&store->more_leases, NULL);
	open_files_init(&store->files);
	r = connection_init(&store->connection, fd, socket, timeout_ms);
	if (r < 0) {
		free(store);
		return r;
	}
	store->socket = store->connection.peer;
	memcpy(store->pool, pool, strnlen(pool, WIRE_POOL_MAX));
	r = store_hello(&store->connection, store->pool, 0, &welcome);
	if (r >= 0)
		r = map_all(store, &welcome);
	welcome_done(&welcome);
	if (r < 0) {
		store_release(store);
		return r;
	}
	store_enlist(store);
	*ret = store;
	return 0;
}

#define TRIES_MAX 3

/* The parameters of an open; and whether a daemon was found, so that this was
 * the right place. */
struct wish {
	const char *pool;
	bool met;
};

static int try_at(const char *path, struct wish *wish, struct tarn_store **ret)
{
	int fd, r;

	r = socket_connect(path, CONNECTION_TIMEOUT_MS, &fd);
	if (r < 0)
		return r;
	wish->met = true;
	r = store_open_fd(fd, path, wish->pool, CONNECTION_TIMEOUT_MS, ret);
	return r;
}

/* A server that dies between the connect and the hello leaves no trace of the
 * connection; the next one closes it, and the client connects again. */
static int open_at(const char *path, struct wish *wish, struct tarn_store **ret)
{
	int r = -ECONNRESET;

	for (int i = 0; i < TRIES_MAX && r == -ECONNRESET; i++)
		r = try_at(path, wish, ret);
	return r;
}

/* No daemon serves there, or it is just ending: try the next place, or start
 * one. */
static bool is_nobody(int r)
{
	return r == -ENOENT || r == -ECONNREFUSED || r == -ECONNRESET ||
	       r == -EPIPE;
}

/* The socket for a daemon to start: at the first place that exists. */
static int start_place(struct socket_candidates *places, const char **ret)
{
	int r = -ENOENT;

	for (int i = 0; i < places->n; i++) {
		if (!places->at[i].ours)
			continue;
		r = socket_folder_check(places->at[i].path, true);
		*ret = places->at[i].path;
		if (r != -ENOENT && r != -EACCES)
			break;
	}
	return r;
}

static int open_started(struct socket_candidates *places, struct wish *wish,
	struct tarn_store **ret)
{
	struct autostart start;
	const char *path;
	int r;

	r = start_place(places, &path);
	if (r >= 0)
		r = autostart_begin(&start, path);
	if (r < 0)
		return r;
	do
		r = open_at(path, wish, ret);
	while (is_nobody(r) && autostart_again(&start));
	if (is_nobody(r))
		r = autostart_failed(&start);
	autostart_end(&start);
	return r;
}

/* Names the first place where a daemon could have been started. */
static int nobody_there(const struct socket_candidates *places, int r)
{
	int i = 0;

	while (i < places->n - 1 && !places->at[i].ours)
		i++;
	return tarn_fail(-r,
		"no daemon serves %s; start one with: tarnd --socket %s%s",
		places->at[i].path, places->at[i].path,
		places->at[i].ours
			? " (TARN_AUTOSTART=0 forbids starting one automatically)"
			: "");
}

static int take_pool(const char *pool, struct wish *ret)
{
	if (!pool)
		pool = secure_getenv("TARN_POOL");
	if (!pool)
		pool = "";
	if (strlen(pool) > WIRE_POOL_MAX)
		return tarn_fail(ENAMETOOLONG,
			"pool %.60s...: a name of %zu bytes, %u are the most",
			pool, strlen(pool), WIRE_POOL_MAX);
	*ret = (struct wish) {.pool = pool};
	return 0;
}

int tarn_store_open(const char *socket,
	const struct tarn_store_options *options, tarn_store **ret)
{
	struct socket_candidates places;
	struct wish wish;
	int r = RESERVED_CHECK("tarn_store_options", options);

	if (r >= 0)
		r = take_pool(options ? options->pool : NULL, &wish);
	if (r >= 0)
		r = socket_candidates(socket, &places);
	if (r < 0)
		return r;
	for (int i = 0; i < places.n; i++) {
		wish.met = false;
		r = open_at(places.at[i].path, &wish, ret);
		/* A place that this user may not access is skipped. */
		if (!is_nobody(r) &&
			(r != -EACCES || wish.met || places.n == 1))
			return r;
	}
	if (!places.at[places.n - 1].ours || autostart_forbidden())
		return nobody_there(&places, r);
	return open_started(&places, &wish, ret);
}

/* ---- references ------------------------------------------------------ */

struct tarn_store *store_ref(struct tarn_store *store)
{
	/* Relaxed: the caller holds a reference. */
	atomic_fetch_add_explicit(&store->refs, 1, memory_order_relaxed);
	return store;
}

void store_release(struct tarn_store *store)
{
	/* Release pairs with the acquire half in the thread that is last. */
	if (atomic_fetch_sub_explicit(&store->refs, 1, memory_order_acq_rel) !=
		1)
		return;
	store_delist(store);
	connection_done(&store->connection);
	pool_map_done(&store->pools);
	lease_book_done(&store->book);
	open_files_done(&store->files);
	fd_close(store->pin_end);
	pthread_mutex_destroy(&store->more_leases);
	if (store->table.map)
		table_unmap(&store->table);
	free(store);
}

tarn_store *tarn_store_ref(tarn_store *store)
{
	/* Relaxed: the caller holds a reference. */
	if (store)
		atomic_fetch_add_explicit(
			&store->handles, 1, memory_order_relaxed);
	return store;
}

tarn_store *tarn_store_unref(tarn_store *store)
{
	/* Release: this thread's uses come first; acquire: pairs with the
	 * releases of earlier drops, so that the last thread frees after all of
	 * them. */
	if (!store || atomic_fetch_sub_explicit(
			      &store->handles, 1, memory_order_acq_rel) != 1)
		return NULL;
	/* Tensors keep the store, and forks lock it. */
	open_files_clear(&store->files);
	store_release(store);
	return NULL;
}

const char *tarn_store_socket(const tarn_store *store)
{
	return store->socket;
}

const char *tarn_store_pool(const tarn_store *store)
{
	return store->pool;
}

/* ---- the daemon ------------------------------------------------------ */

int store_call_for_nothing(
	struct tarn_store *store, uint16_t type, const void *body, size_t size)
{
	struct wire_message reply;
	int r;

	r = connection_call(
		&store->connection, type, body, size, WIRE_DONE, 0, &reply);
	if (r >= 0)
		wire_message_clear(&reply);
	return r;
}

int tarn_store_remove(tarn_store *store, const char *name)
{
	size_t size = strlen(name);
	int r = name_check(name, size);

	return r < 0 ? r
		     : store_call_for_nothing(store, WIRE_REMOVE, name, size);
}

int store_ping(struct tarn_store *store)
{
	struct wire_message reply;
	int r;

	r = connection_call(
		&store->connection, WIRE_PING, NULL, 0, WIRE_PONG, 0, &reply);
	if (r >= 0)
		wire_message_clear(&reply);
	return r;
}

#define PATIENCE_MS 5000 /* picked; then it looks whether the server lives */

int store_await(
	struct tarn_store *store, struct call *call, struct wire_message *ret)
{
	int r;

	do {
		r = call_next(&store->connection, call, PATIENCE_MS, ret);
		if (r == 0)
			r = store_ping(store);
		else if (r > 0)
			return 0;
	} while (r >= 0);
	return r;
}

int tarn_store_stop(tarn_store *store)
{
	return store_call_for_nothing(store, WIRE_STOP, NULL, 0);
}
