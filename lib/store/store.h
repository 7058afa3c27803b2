/* SPDX-License-Identifier: MIT */
/*
 * A store from the inside: the connection, and what is mapped through it.
 *
 * Counted: the caller's handle is one reference, each storage that came from
 * here another. So tensors outlive tarn_store_unref, and the connection,
 * which is what their leases belong to, lives as long as they do.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include <tarn/store.h>

#include "base/cleanup.h"
#include "lib/store/connection.h"
#include "lib/store/descriptor.h"
#include "lib/store/file_cache.h"
#include "lib/store/lease_book.h"
#include "lib/store/pool_map.h"
#include "lib/tensor/storage.h"
#include "shm/lease.h"
#include "shm/table.h"

struct tarn_store {
	atomic_uint refs;
	char *socket;
	uint64_t instance;
	uint32_t version; /* of the protocol, that both speak */
	char pool[WIRE_POOL_MAX + 1]; /* its name; "": this user's own */
	struct connection connection;
	struct table table;
	struct lease_book book;
	pthread_mutex_t more_leases; /* who asks for a page */
	pthread_mutex_t moving; /* who maps the next table over this one */
	struct pool_map pools;
	struct file_cache files;

	/* store_fork.c */
	struct tarn_store *next, **previous; /* in the list of all */
	struct heir *heir;		     /* while a fork is under way */
	pthread_mutex_t waking; /* who wakes the connection of a child */
	pthread_mutex_t riding;
	struct store_rider *riders;

	/* lib/channel: what this connection is called in rings, once known; 0
	 * in a child that has not asked yet. */
	_Atomic uint64_t owner;
	/* How often the daemon was told of one who left, by somebody who did
	 * not wait until it had looked; and how many of these it has seen to. */
	_Atomic uint64_t told, seen_to;
};

/* What a storage of ours stands on; its arg. */
struct shared_storage {
	struct tarn_store *store; /* a reference */
	tarn_storage *storage;	  /* the storage itself; borrowed */
	uint32_t index;
	uint32_t pool;
	uint64_t generation;
	uint64_t base; /* byte of the pool */
	bool inside;   /* it lies in one piece with the storage */
	void *own;     /* a mapping of its own; NULL: it lies in a pool */
	struct file_lock *_Atomic lock; /* NULL: it was never locked */
};

/* Says hello on a connected socket, maps what is answered. Takes fd. pool: its
 * name, "" for this user's own. */
int store_open_fd(int fd, const char *socket, const char *pool, int timeout_ms,
	struct tarn_store **ret);

/* ---- store_hello.c ---------------------------------------------------- */

struct welcome {
	uint32_t version;
	uint32_t flags; /* WELCOME_* */
	uint64_t instance;
	int table_fd;
	int lease_fd;
};

/* Says hello; flags: HELLO_*. What comes back is the caller's to end. */
int store_hello(struct connection *c, const char *pool, uint32_t flags,
	struct welcome *ret);
void welcome_done(struct welcome *welcome);

/* ---- store_fork.c ----------------------------------------------------- */

/* From here on a child of fork() finds the store usable; until delist. */
void store_enlist(struct tarn_store *store);
void store_delist(struct tarn_store *store);

/* What stands on a store, and is to know of forks: before_fork takes its locks,
 * which are the innermost (with them nothing is asked of the store), after_fork
 * gives them back in both processes. */
struct store_rider {
	struct store_rider *next, **previous; /* previous: NULL, not listed */
	void *arg;
	void (*before_fork)(void *arg);
	void (*after_fork)(void *arg, bool child);
};
void store_ride(struct tarn_store *store, struct store_rider *rider);
void store_get_off(struct tarn_store *store, struct store_rider *rider);

/* ---- references ------------------------------------------------------- */

struct tarn_store *store_ref(struct tarn_store *store);
void store_release(struct tarn_store *store);

/* ---- descriptor.c ----------------------------------------------------- */

/* tarn_store_import of a descriptor that lies in private memory. */
int store_import(struct tarn_store *store, const struct tarn_descriptor *d,
	tarn_tensor **ret);

/* ---- store_storage.c -------------------------------------------------- */

/* The storage index of that generation, leased, mapped; one reference. Also
 * what the table says of it. -ESTALE: it is gone. */
int store_storage(struct tarn_store *store, uint32_t index,
	uint64_t generation, struct table_storage *ret_entry,
	tarn_storage **ret);

/* What the table says of a storage that is leased, as table_storage_get. */
int store_entry(struct tarn_store *store, uint32_t index, uint64_t generation,
	struct table_storage *ret);

/* Makes storage, an object of another kind, one of a store's; a lease is held
 * that it takes over. Takes shared. */
void store_storage_turn(tarn_storage *storage, struct shared_storage *shared);

/* NULL when storage is not one of a store's. */
struct shared_storage *store_storage_of(const tarn_storage *storage);

/* ---- store_move.c ----------------------------------------------------- */

/* After something failed with -ESTALE, or the like, that was begun at a place
 * of the table: 1, what is there now is mapped, try again; 0, it was true; or
 * why the daemon cannot be followed. */
int store_moved(struct tarn_store *store, uint64_t place);
/* -ETIMEDOUT without a sentence after that time. */
int store_moved_within(struct tarn_store *store, uint64_t place,
	int timeout_ms);

/* Maps the table behind fd over the store's if it is a later one. The second
 * one is for who has locked the store. */
int store_follow(void *store, int fd);
int store_follow_locked(void *store, int fd);

/* ---- store_get.c ------------------------------------------------------ */

/* What stands under a name, once a server that is being replaced is back.
 * -ENOENT. */
int store_read_name(struct tarn_store *store, const char *name, size_t size,
	struct table_name *ret);

/* tarn_store_list; or of channels, which are no tensors. */
int store_list(struct tarn_store *store, bool channels, const char *prefix,
	int (*fn)(void *arg, const char *name,
		const struct tarn_descriptor *descriptor, uint64_t version),
	void *arg);

/* ---- store_leases.c --------------------------------------------------- */

/* A hold on a storage, as lease_book_open gives it. */
int store_hold(struct tarn_store *store, uint32_t index, uint64_t generation,
	tarn_storage *(*make)(void), tarn_storage **ret);

/* Gives a hold on a storage back; storage: the object that had it, or NULL. */
void store_drop_lease(struct tarn_store *store, uint32_t index,
	uint64_t generation, const tarn_storage *storage);

/* Rings the daemon: a storage that only leases held has lost one. */
void store_say_released(
	struct tarn_store *store, uint32_t index, uint64_t generation);

/* One more page from the daemon; the caller's to unmap. */
int store_lease_page(struct connection *c, struct lease_page **ret);

/* ---- store_load.c ----------------------------------------------------- */

/* The storage that holds a file's data range, loaded if it is not. options
 * and ret_info may be NULL. */
int store_load_storage(struct tarn_store *store, tarn_file *file,
	const struct tarn_load_options *options,
	struct tarn_load_info *ret_info, tarn_storage **ret);

/* The same with options->verify; store_load_storage calls it. */
int store_load_verified(struct tarn_store *store, tarn_file *file,
	const struct tarn_load_options *options,
	struct tarn_load_info *ret_info, tarn_storage **ret);

/* ---- publish.c -------------------------------------------------------- */

struct body;

/* What goes into msg_publish.since. Waits for a daemon that is being replaced.
 */
uint64_t publish_since(struct tarn_store *store);
/* Sends a WIRE_PUBLISH and waits for its answer, which may take the daemon as
 * long as it lives; the caller clears *ret. Told to wait for others' it asks
 * again, for so long as an answer may take; since in body is renewed then. */
int publish_send(struct tarn_store *store, const struct body *body,
	const int *fds, int n_fds, struct wire_message *ret);
