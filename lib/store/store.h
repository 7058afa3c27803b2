/* SPDX-License-Identifier: MIT */
/*
 * The internals of a store: the connection, and the memory mapped through it.
 *
 * It is reference-counted: the caller's handle is one reference, each storage
 * that came from here another. So tensors outlive tarn_store_unref, and the
 * connection, to which their leases belong, lives as long as they do.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include <tarn/store.h>

#include "base/cleanup.h"
#include "lib/store/connection.h"
#include "lib/descriptor/descriptor.h"
#include "lib/store/open_files.h"
#include "lib/store/lease_book.h"
#include "lib/store/pool_map.h"
#include "lib/tensor/storage.h"
#include "shm/lease.h"
#include "shm/table.h"

struct tarn_store {
	atomic_uint refs;    /* of tensors, channels; and one of all handles */
	atomic_uint handles; /* tarn_store_ref's */
	char *socket;
	uint64_t instance;
	uint32_t version;             /* the protocol version that both use */
	char pool[WIRE_POOL_MAX + 1]; /* its name; "": this user's own */
	struct connection connection;
	struct table table;
	struct lease_book book;
	pthread_mutex_t more_leases; /* held to ask for a page */
	struct pool_map pools;
	struct open_files files;
	/* tarn_store_set_node, plus one; 0: none. */
	_Atomic int node;

	/* store_fork.c */
	struct tarn_store *next, **previous; /* in the list of all */
	/* while a fork is under way */
	struct child_connection *child;
	struct lease_pin *pin;
	/* In a child that reads by its parent's leases: the pipe's end by which
	 * the parent knows that the child lives; or -1. */
	int pin_end;
	/* held to wake the connection of a child */
	pthread_mutex_t reconnecting;
	pthread_mutex_t fork_hooks_lock;
	struct fork_hook *fork_hooks;

	/* lib/channel: the ring owner of this connection, once known; 0 in a
	 * child that has not asked yet. */
	_Atomic uint64_t owner;
	/* How often the daemon was notified of a participant that left, by a
	 * caller that did not wait for the answer; and how many of these it has
	 * handled. */
	_Atomic uint64_t leaves_sent, leaves_done;
};

/* The arg of a storage of the store. */
struct shared_storage {
	struct tarn_store *store; /* a reference */
	tarn_storage *storage;    /* the storage itself; borrowed */
	uint32_t index;
	uint32_t pool;
	uint64_t generation;
	uint64_t base; /* byte of the pool */
	bool inside;   /* it was allocated together with the storage */
	void *own;     /* a mapping of its own; NULL: it lies in a pool */
	struct patched *patched; /* of a patch, whose mapping own is: patch.h */
	struct file_lock *_Atomic lock; /* NULL: it was never locked */
};

/* Sends WIRE_HELLO on a connected socket, and maps the descriptors of the
 * answer. Takes fd. pool: its name, "" for this user's own. */
int store_open_fd(int fd, const char *socket, const char *pool, int timeout_ms,
	struct tarn_store **ret);

/* ---- store_hello.c ---------------------------------------------------- */

struct welcome {
	uint32_t version;
	uint64_t instance;
	int table_fd;
	int lease_fd;
};

/* Sends WIRE_HELLO; flags: HELLO_*. The caller frees the results. */
int store_hello(struct connection *c, const char *pool, uint32_t flags,
	struct welcome *ret);
void welcome_done(struct welcome *welcome);

/* ---- store_fork.c ----------------------------------------------------- */

/* For each reply on the second connection: a fork waits this long for a hanging
 * daemon, no longer. Tests wait longer for a slow one. */
extern int store_fork_timeout_ms;

/* From here on a child of fork() finds the store usable; until delist. */
void store_enlist(struct tarn_store *store);
void store_delist(struct tarn_store *store);

/* An object that uses a store, and is notified of forks: before_fork takes its
 * locks, which are the innermost (no function of the store is called with
 * them), after_fork releases them in both processes. */
struct fork_hook {
	struct fork_hook *next, **previous; /* previous: NULL, not listed */
	void *arg;
	void (*before_fork)(void *arg);
	void (*after_fork)(void *arg, bool child);
};
void store_add_fork_hook(struct tarn_store *store, struct fork_hook *fork_hook);
void store_remove_fork_hook(
	struct tarn_store *store, struct fork_hook *fork_hook);

/* ---- references ------------------------------------------------------- */

struct tarn_store *store_ref(struct tarn_store *store);
void store_release(struct tarn_store *store);

/* ---- store.c ---------------------------------------------------------- */

/* 0 when the server has answered; as connection_call. */
int store_ping(struct tarn_store *store) _must_check_;
/* Waits for a call's one answer, which may take as long as the server lives. 0:
 * it is in *ret. */
int store_await(struct tarn_store *store, struct call *call,
	struct wire_message *ret) _must_check_;

/* A request whose answer is WIRE_DONE. */
int store_call_for_nothing(
	struct tarn_store *store, uint16_t type, const void *body, size_t size);

/* ---- descriptor.c ----------------------------------------------------- */

/* tarn_store_import for a descriptor in private memory. */
int store_import(struct tarn_store *store, const struct tarn_descriptor *d,
	tarn_tensor **ret);
/* The same for what a name leads to: of its replicas the nearest. */
int store_import_nearest(struct tarn_store *store,
	const struct tarn_descriptor *d, tarn_tensor **ret);

/* ---- snapshot.c ------------------------------------------------------- */

struct tarn_snapshot;

/* tarn_store_snapshot without replicas: names of one storage are in one. */
int store_snapshot_originals(struct tarn_store *store, const char *prefix,
	struct tarn_snapshot **ret);

/* ---- store_storage.c -------------------------------------------------- */

/* The storage with that index and generation, leased and mapped; one reference.
 * Also its entry in the table. -ESTALE: it is gone. */
int store_storage(struct tarn_store *store, uint32_t index, uint64_t generation,
	struct table_storage *ret_entry, tarn_storage **ret);

/* Turns storage, an object of another kind, into one of a store's, which takes
 * over a lease that the caller holds. Takes shared. */
void store_storage_turn(tarn_storage *storage, struct shared_storage *shared);

/* NULL when storage is not one of a store's. */
struct shared_storage *store_storage_of(const tarn_storage *storage);

/* ---- store_get.c ------------------------------------------------------ */

/* The version that stands under a name; waits for the next server if one died
 * while it restructured the table. -ENOENT. */
int store_read_name(struct tarn_store *store, const char *name, size_t size,
	struct table_name *ret);

/* Is that a channel's storage, and not a tensor? */
bool store_is_channel(const struct tarn_store *store,
	const struct tarn_descriptor *descriptor);

/* tarn_store_list; or the same for channels, which are no tensors. */
int store_list(struct tarn_store *store, bool channels, const char *prefix,
	int (*fn)(void *arg, const char *name,
		const struct tarn_descriptor *descriptor, uint64_t version),
	void *arg);

/* ---- store_leases.c --------------------------------------------------- */

/* A hold on a storage, as lease_book_open returns it. */
int store_hold(struct tarn_store *store, uint32_t index, uint64_t generation,
	tarn_storage *(*make)(void), tarn_storage **ret);

/* Drops a hold on a storage; storage: the object that had it, or NULL. */
void store_drop_lease(struct tarn_store *store, uint32_t index,
	uint64_t generation, const tarn_storage *storage);

/* Drops what was held for children that have ended. */
void store_unpin(struct tarn_store *store);

/* Notifies the daemon that a storage which only leases held has lost one. */
void store_notify_released(
	struct tarn_store *store, uint32_t index, uint64_t generation);

/* Asks the daemon for one more page; the caller unmaps it. */
int store_lease_page(struct connection *c, struct lease_page **ret);

/* ---- store_load.c ----------------------------------------------------- */

/* The storage with a file's data range, loaded if necessary. options and
 * ret_info may be NULL. */
int store_load_storage(struct tarn_store *store, tarn_file *file,
	const struct tarn_load_options *options,
	struct tarn_load_info *ret_info, tarn_storage **ret);

/* The same with options->verify; store_load_storage calls it. */
int store_load_verified(struct tarn_store *store, tarn_file *file,
	const struct tarn_load_options *options,
	struct tarn_load_info *ret_info, tarn_storage **ret);

/* ---- publish.c -------------------------------------------------------- */

struct message_body;

/* Sends a WIRE_PUBLISH and waits for its answer, which may take as long as the
 * daemon lives; the caller clears *ret. */
int publish_send(struct tarn_store *store, const struct message_body *body,
	const int *fds, int n_fds, struct wire_message *ret);
