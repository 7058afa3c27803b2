/* SPDX-License-Identifier: MIT */
/*
 * The store: a connection to a daemon that keeps tensors in shared memory.
 *
 * The daemon owns the memory. A client maps it read-only, finds tensors by
 * name in a table that it maps too (no system call), and holds what it opened
 * by a lease, a word in memory that it shares with the daemon, so that a
 * client killed at any moment leaks nothing. A tensor opened from a store
 * stays valid until its last reference is dropped, also when it was removed
 * or replaced in the meantime, and also when the daemon is gone.
 *
 * Addresses. One string names a tensor everywhere: "FILE:TENSOR" (loaded once
 * per node if nobody has yet), or a published name. A published name is looked
 * for first; then the shortest FILE before a ':' that exists.
 *
 * A store may be used by many threads, and goes through fork(): parent and
 * child go on with it, each with leases of its own. A child's tensors stay
 * valid whatever its parent does or comes to, also if the child never calls
 * the library. A fork of a process that holds tensors therefore takes a tenth
 * of a millisecond longer; one that holds none connects in the child, when it
 * is first used there. A call that was under way is the parent's alone. If the
 * daemon cannot be reached at the fork, the child's calls fail with
 * -ECONNRESET, and its tensors are valid as long as the parent holds them, as
 * they are in a child of vfork() or clone(), which must not use the store.
 */
#pragma once

#include <tarn/descriptor.h>
#include <tarn/file.h>
#include <tarn/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarn_store tarn_store;

#define TARN_NAME_MAX 1024 /* bytes of a name; UTF-8, parts divided by '/' */

/*
 * Connects. socket NULL: $TARN_SOCKET, else the first of
 * /run/tarn/tarnd.sock, $XDG_RUNTIME_DIR/tarn/tarnd.sock,
 * /tmp/tarn-$UID/tarnd.sock that somebody serves; when nobody does, a daemon
 * of this user is started (TARN_AUTOSTART=0 forbids it). In a SLURM job the
 * last two have its number in the name. The folder and the daemon must belong
 * to this user or to root: else -EPERM. -ENOENT, -ECONNREFUSED: nobody serves,
 * and none may be started. *ret is the caller's reference. Any thread.
 */
TARN_PUBLIC int tarn_store_open(const char *socket, tarn_store **ret);

/*
 * The same, under the pool of that name, which several users may share: what
 * is loaded and published goes there, and only its names are seen. pool NULL:
 * $TARN_POOL; "", or no $TARN_POOL: the memory that is this user's alone, as
 * with tarn_store_open. Pools are set up by who runs the daemon, see
 * tarnd.conf(5). -EACCES: there is none of that name for this user; -ENOTSUP:
 * the daemon is too old to have any. Who may only read it gets -EPERM from
 * what would change it.
 */
TARN_PUBLIC int tarn_store_open_pool(const char *socket, const char *pool,
	tarn_store **ret);

/* Drops this reference; tensors keep what they need alive. Returns NULL. */
TARN_PUBLIC tarn_store *tarn_store_unref(tarn_store *store);

/* The path of the socket that it is connected to. */
TARN_PUBLIC const char *tarn_store_socket(const tarn_store *store);
/* The name of its pool; "" for this user's own. */
TARN_PUBLIC const char *tarn_store_pool(const tarn_store *store);

/* ---- reading ------------------------------------------------------- */

/* By address, see above. -ENOENT when there is no such name or tensor. */
TARN_PUBLIC int tarn_store_get(tarn_store *store, const char *address,
	tarn_tensor **ret);

/* By published name only; no system call once its memory is mapped. */
TARN_PUBLIC int tarn_store_lookup(tarn_store *store, const char *name,
	tarn_tensor **ret);

/* A tensor as 256 bytes, and back. The holder of the tensor must keep it until
 * the importer has it. -ESTALE: the storage is gone, or the descriptor is of
 * another daemon; -EBADMSG: it is not one. */
TARN_PUBLIC int tarn_store_export(tarn_store *store, const tarn_tensor *tensor,
	struct tarn_descriptor *ret);
TARN_PUBLIC int tarn_store_import(tarn_store *store,
	const struct tarn_descriptor *descriptor, tarn_tensor **ret);

/* Calls fn for each tensor's published name that begins with prefix (NULL: all), in
 * no order. It stops when fn returns non-zero, and returns that. Names that
 * appear or vanish meanwhile may or may not be seen. */
TARN_PUBLIC int tarn_store_list(tarn_store *store, const char *prefix,
	int (*fn)(void *arg, const char *name,
		const struct tarn_descriptor *descriptor, uint64_t version),
	void *arg);

/* Reads all pages of a tensor's memory into this process's page tables, with
 * up to threads threads (0: one), so that later reads do not fault. */
TARN_PUBLIC int tarn_store_populate(tarn_store *store,
	const tarn_tensor *tensor, int threads);

/* ---- waiting ------------------------------------------------------- */

/*
 * These sleep until the daemon has something new, in any number of threads
 * and processes. timeout_ms: 0 only looks, a negative one waits for ever.
 * -ETIMEDOUT: it did not come; -ECONNRESET: the daemon is gone, so it never
 * will. A server that dies and is replaced meanwhile is not noticed.
 */

/*
 * Until a version above newer_than is published as name; with 0, until
 * anything is. ret and ret_version may be NULL. Versions of a name count from
 * 1, and from 1 again if it was removed in between: who follows a name that
 * may be removed uses tarn_store_next.
 */
TARN_PUBLIC int tarn_store_wait(tarn_store *store, const char *name,
	uint64_t newer_than, int timeout_ms, tarn_tensor **ret,
	uint64_t *ret_version);

/*
 * Until something is published as name that is not what cursor stands for,
 * which is then moved on. A cursor begins with 0 and belongs to one name of
 * one daemon. Of several publications in between only the newest is seen.
 */
TARN_PUBLIC int tarn_store_next(tarn_store *store, const char *name,
	uint64_t *cursor, int timeout_ms, tarn_tensor **ret);

/* The version that stands under a name now. -ENOENT. */
TARN_PUBLIC int tarn_store_version(tarn_store *store, const char *name,
	uint64_t *ret_version);

/*
 * Until bytes of a file's data have arrived, which somebody is loading now,
 * in this process or another; bytes 0, or more than there are, means all of
 * them. It starts no load: -ENOENT when nobody loads the file and nobody has
 * (a load that has yet to find memory is one, known by its file's name);
 * -ECANCELED when the load ends without them. Arrived bytes, *ret_landed (may
 * be NULL), tell how far it is and no more: they come in any order, and none
 * may be read before all are there and the file was opened by
 * tarn_store_get_from_file or tarn_store_load, which is then done at once. Of
 * an index the shards are waited for in their order, as they are loaded. A
 * file that changed less than two seconds ago is not recognised: -ENOENT.
 */
TARN_PUBLIC int tarn_store_wait_file(tarn_store *store, const tarn_file *file,
	uint64_t bytes, int timeout_ms, uint64_t *ret_landed);

/* ---- loading ------------------------------------------------------- */

struct tarn_load_info {
	uint64_t bytes;	    /* of tensor data in the file */
	double seconds;	    /* from call to return */
	double cpu_seconds; /* of the client and the daemon together */
	const char *engine; /* "io_uring", "threads"; static */
	bool direct;	    /* past the page cache */
	bool registered;    /* into registered buffers */
	bool cached;	    /* nobody had to read: it was there */
};

struct tarn_load_options {
	const char *name; /* publish as NAME/TENSOR; NULL: not by name */
	bool verify; /* compare the checksums that the file has (save.h) before
			anything is published; -EBADMSG names the tensor */
	/* Called now and then, in the calling thread; non-zero cancels:
	 * -ECANCELED. */
	int (*progress)(void *arg, uint64_t done, uint64_t total);
	void *arg;
};

/* Loads all tensors of a file. options and ret_info may be NULL. ret_all may
 * be NULL or receives a U8 tensor over the whole data range, which keeps the
 * file in memory as long as it is referenced. Of an index all shards are
 * loaded, one after the other, and then their names published (at once, up to
 * 64 shards; of more, 64 after 64); the tensor has no bytes, and keeps all
 * shards. -EBUSY: one of the names is an open channel's. -EIO, beside what goes
 * wrong as a file is read: the daemon's server died meanwhile, and since others
 * have published something else under one of the names, nobody can tell whether
 * it was done. */
TARN_PUBLIC int tarn_store_load(tarn_store *store, tarn_file *file,
	const struct tarn_load_options *options,
	struct tarn_load_info *ret_info, tarn_tensor **ret_all);

/* As tarn_store_get, which takes as long as loading does where the address is
 * of a file that nobody has loaded. Of the options, which may be NULL, only
 * progress and its arg may be set: -EINVAL. */
TARN_PUBLIC int tarn_store_get_with(tarn_store *store, const char *address,
	const struct tarn_load_options *options, tarn_tensor **ret);

/* One tensor of a file that was loaded: a view of ret_all, without a word to
 * the daemon, and whatever has become of the file since. -ENOENT: the file has
 * no such tensor; -EINVAL: all is not what was loaded of it. */
TARN_PUBLIC int tarn_store_loaded_tensor(tarn_tensor *all, tarn_file *file,
	const char *tensor, tarn_tensor **ret);

/* One tensor of a file, loaded if need be; of an index only its shard is. */
TARN_PUBLIC int tarn_store_get_from_file(tarn_store *store, tarn_file *file,
	const char *tensor, tarn_tensor **ret);

/* ---- publishing ---------------------------------------------------- */

/* Removes a published name; holders keep the tensor. -ENOENT. -EIO: the
 * daemon's server died meanwhile, and since others have published the name,
 * nobody can tell whether it was done. */
TARN_PUBLIC int tarn_store_remove(tarn_store *store, const char *name);

/* ---- the daemon ---------------------------------------------------- */

struct tarn_store_status {
	uint64_t instance;
	int32_t keeper_pid;
	int32_t server_pid;
	uint32_t clients;
	uint32_t loaders;
	uint64_t uptime_ms;
	uint64_t names;
	uint64_t storages;
	uint64_t budget;    /* bytes that it may take */
	uint64_t allocated; /* bytes of segments */
	uint64_t used;	    /* bytes of storages */
	uint64_t cached;    /* bytes of loaded files that no name holds */
	uint64_t loads;	    /* since the start */
	uint64_t loads_cached;
	uint64_t loads_active;
	uint64_t loads_failed;
	uint64_t bytes_loaded;
	char engine[16];
	char version[16];
};

TARN_PUBLIC int tarn_store_get_status(tarn_store *store,
	struct tarn_store_status *ret);

/* Asks the daemon to end: it finishes running loads first. Only the daemon's
 * own user or root may: -EPERM. */
TARN_PUBLIC int tarn_store_stop(tarn_store *store);

#ifdef __cplusplus
}
#endif
