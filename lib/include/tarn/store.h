/* SPDX-License-Identifier: MIT */
/*
 * The store: a connection to a daemon that keeps tensors in shared memory.
 *
 * The daemon owns the memory. A client maps it read-only, finds tensors by name
 * in a table that it maps too (no system call), and holds what it opened by a
 * lease, a word in memory that it shares with the daemon, so that a client
 * killed at any moment leaks nothing. A tensor opened from a store stays valid
 * until its last reference is dropped, also when it was removed or replaced in
 * the meantime, and also when the daemon is gone.
 *
 * Addresses. One string names a tensor everywhere: "FILE:TENSOR" (loaded once
 * per node), or a published name. A published name is looked for first; then
 * the shortest FILE before a ':' that exists.
 *
 * A store may be used by many threads, and goes through fork(): parent and
 * child go on with it, each with leases of its own. A child's tensors stay
 * valid whatever its parent does or suffers, even if the child never calls the
 * library. A fork of a process that holds tensors therefore takes a tenth of a
 * millisecond longer; one that holds none connects in the child, when it is
 * first used there. A call that is under way in another thread goes on in the
 * parent alone. If the child can get no connection at the fork, as the daemon
 * cannot be reached or the user's quota of connections is used up, its calls
 * fail with -ECONNRESET, and its tensors are valid as long as the parent lives:
 * what the parent had open then stays in memory until the child has ended, and
 * the parent drops something or forks after that. In a child of vfork() or
 * clone(), which must not use the store, tensors are valid as long as the
 * parent holds them. A process that closes descriptors which it did not open,
 * as some code does that makes a daemon of itself, ends what keeps its tensors:
 * it must drop them before.
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

struct tarn_store_options {
	/* The pool to use, which several users may share: loads and
	 * publications go there, and only its names are visible. The
	 * administrator configures pools, see tarnd.conf(5). NULL: $TARN_POOL;
	 * "", or no $TARN_POOL: this user's own pool. */
	const char *pool;
	uint64_t reserved[8]; /* 0 */
};

/*
 * Connects to a daemon. socket NULL: $TARN_SOCKET, else the first of
 * /run/tarn/tarnd.sock, $XDG_RUNTIME_DIR/tarn/tarnd.sock,
 * /tmp/tarn-$UID/tarnd.sock that a daemon serves. In a SLURM job the last two
 * have its number in the name. When no daemon serves the socket, whether socket
 * or TARN_SOCKET names it or neither does, a daemon of this user is started
 * there (TARN_AUTOSTART=0 forbids it). The folder and the daemon must belong to
 * this user or to root: else -EPERM, also for a process whose uid is the
 * overflow uid (tarn-security(7)). options may be NULL.
 *
 * -ENOENT, -ECONNREFUSED: no daemon serves the socket, and none may be started;
 * -ENOTSOCK: the path is not a socket; -EACCES: there is no pool of that name
 * for this user; -ETIMEDOUT: the daemon does not accept the connection, or does
 * not answer, within ten seconds. A user that may only read the pool gets
 * -EPERM from calls that would change it. *ret is the caller's reference. Any
 * thread.
 */
TARN_PUBLIC int tarn_store_open(const char *socket,
	const struct tarn_store_options *options, tarn_store **ret)
	TARN_NONNULL(3) TARN_MUST_CHECK;

/* One more reference, for the caller. Takes NULL, returns its argument. */
TARN_PUBLIC tarn_store *tarn_store_ref(tarn_store *store);
/* Drops a reference; tensors keep what they need alive. Takes NULL and returns
 * NULL. */
TARN_PUBLIC tarn_store *tarn_store_unref(tarn_store *store);

/* The path of the socket that it is connected to. Borrowed: valid as long as
 * the store is. */
TARN_PUBLIC const char *tarn_store_socket(const tarn_store *store)
	TARN_NONNULL(1) TARN_NOT_NULL;
/* The name of its pool; "" for this user's own. Borrowed: valid as long as the
 * store is. */
TARN_PUBLIC const char *tarn_store_pool(const tarn_store *store)
	TARN_NONNULL(1) TARN_NOT_NULL;

/* ---- reading ------------------------------------------------------- */

struct tarn_load_options; /* see tarn_store_load */

/* Gets a tensor by its address: "FILE:TENSOR", which loads the file if it is
 * not loaded yet, or a published name. Of the options, which may be NULL, only
 * progress, its arg and fresh may be set: -EINVAL otherwise. *ret is the
 * caller's reference. -ENOENT: there is no such name or tensor. A file that
 * changes meanwhile is opened again, ten times at most: then -ESTALE. */
TARN_PUBLIC int tarn_store_get(tarn_store *store, const char *address,
	const struct tarn_load_options *options, tarn_tensor **ret)
	TARN_NONNULL(1, 2, 4) TARN_MUST_CHECK;

/* Gets a tensor by its published name only; no system call once its memory is
 * mapped. *ret is the caller's reference. -ENOENT. */
TARN_PUBLIC int tarn_store_lookup(tarn_store *store, const char *name,
	tarn_tensor **ret) TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

/* Converts a tensor to 256 bytes, and back. The exporter must keep the tensor
 * until the importer has it. *ret of tarn_store_import is the caller's
 * reference. -ESTALE: the storage is gone, or the descriptor is from another
 * daemon; -EBADMSG: it is not a valid descriptor. */
TARN_PUBLIC int tarn_store_export(tarn_store *store, const tarn_tensor *tensor,
	struct tarn_descriptor *ret) TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_store_import(tarn_store *store,
	const struct tarn_descriptor *descriptor, tarn_tensor **ret)
	TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

/* Calls fn for each tensor's published name that begins with prefix (NULL:
 * all), in no order. It stops when fn returns non-zero, and returns that. Names
 * that appear or vanish meanwhile may or may not be listed. name and descriptor
 * are valid during the call of fn. */
TARN_PUBLIC int tarn_store_list(tarn_store *store, const char *prefix,
	int (*fn)(void *arg, const char *name,
		const struct tarn_descriptor *descriptor, uint64_t version),
	void *arg) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* Reads all pages of a tensor's memory into this process's page tables, with
 * up to threads threads (0: one), so that later reads do not fault. The result
 * may be ignored: pages that it did not reach are read when they are used.
 * -EINVAL: the tensor is in a file; threads is negative. */
TARN_PUBLIC int tarn_store_populate(tarn_store *store,
	const tarn_tensor *tensor, int threads)
	TARN_NONNULL(1, 2);

/* ---- waiting ------------------------------------------------------- */

/*
 * The functions below wait for an event, in any number of threads and
 * processes. timeout_ms: 0 only tests, a negative value waits for ever.
 * -ETIMEDOUT: it did not happen in time; -ECONNRESET: the daemon is gone, so it
 * never will. If the server dies and is replaced meanwhile, the wait goes on.
 */

/*
 * Waits until a version above newer_than is published as name; with 0, until
 * any version is. ret and ret_version may be NULL. Versions of a name count
 * from 1, and from 1 again if it was removed in between. A program that follows
 * a name that may be removed uses tarn_store_next.
 */
TARN_PUBLIC int tarn_store_wait(tarn_store *store, const char *name,
	uint64_t newer_than, int timeout_ms, tarn_tensor **ret,
	uint64_t *ret_version) TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/*
 * Waits until another version of name is published than the one that cursor
 * stands for, and moves the cursor to it. A cursor begins with 0 and belongs to
 * one name of one daemon. Of several publications in between only the newest is
 * returned.
 */
TARN_PUBLIC int tarn_store_next(tarn_store *store, const char *name,
	uint64_t *cursor, int timeout_ms, tarn_tensor **ret)
	TARN_NONNULL(1, 2, 3, 5) TARN_MUST_CHECK;

/* The current version of a name. -ENOENT. */
TARN_PUBLIC int tarn_store_version(tarn_store *store, const char *name,
	uint64_t *ret_version) TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

/*
 * Waits until that many bytes of a file's data have arrived, in a load by this
 * process or another; bytes 0, or more than there are, means all of them. It
 * starts no load: -ENOENT when the file is neither loaded nor being loaded (a
 * load that still waits for memory counts, and is found by its file's name);
 * -ECANCELED when the load ends without them. The number of arrived bytes,
 * *ret_landed (may be NULL), only shows the progress: they arrive in any order,
 * and none may be read before all are there and the file was opened by
 * tarn_store_get_from_file or tarn_store_load, which then returns at once. The
 * shards of an index are waited for in the order in which they are loaded. A
 * file that was loaded but is not kept (struct tarn_load_info) is found only as
 * long as it is held.
 */
TARN_PUBLIC int tarn_store_wait_file(tarn_store *store, const tarn_file *file,
	uint64_t bytes, int timeout_ms, uint64_t *ret_landed)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* ---- loading ------------------------------------------------------- */

struct tarn_load_info {
	uint64_t bytes;	    /* of tensor data in the file */
	double seconds;	    /* from call to return */
	double cpu_seconds; /* of the client and the daemon together */
	const char *engine; /* "io_uring", "threads"; static */
	bool direct;	    /* past the page cache */
	bool registered;    /* into registered buffers */
	bool cached;	    /* no process had to read: the bytes were there */
	/* NULL: later loads find it. Otherwise the reason why not, as text;
	 * static. It is then freed with its last holder; names are holders. */
	const char *not_kept;
	uint64_t reserved[8]; /* 0 */
};

/* The phases of a load. Allocating memory can take longer than reading the file
 * into it; if the daemon has the memory already, there is no first phase. */
enum tarn_load_phase {
	TARN_LOAD_PHASE_MEMORY = 1, /* done and total: bytes of memory */
	TARN_LOAD_PHASE_READ = 2,   /* done and total: bytes of the file */
};

struct tarn_load_options {
	const char *name; /* publish as NAME/TENSOR; NULL: do not publish */
	bool verify; /* verify the checksums of the file (save.h) before
		      * anything is published; -EBADMSG names the tensor */
	bool fresh;  /* read the file even if its bytes are kept, and replace
		      * those: for files whose time stamps are wrong */
	/* Called once at the beginning and then now and then, in the calling
	 * thread; non-zero cancels: -ECANCELED. For an index each shard has both phases; bytes read are
	 * counted over all shards. */
	int (*progress)(void *arg, enum tarn_load_phase phase, uint64_t done,
		uint64_t total);
	void *arg;
	uint64_t reserved[8]; /* 0 */
};

/*
 * tarn_file_open for a file that is to be loaded through this store: what has to
 * be inflated (deflated records of an archive, 2 MiB and more of them) is shared
 * by the processes of a user. The first inflates it, and publishes it below
 * "inflated/"; the others wait, some minutes for a large one, and find it for a
 * minute after it was last opened, and for ten if a process has it still. A
 * process that waits takes over if the first dies. It is not shared in a pool that users
 * share, nor of a file that a loader would not keep (struct tarn_load_info);
 * then, and whenever the daemon cannot help, each process inflates it. Loading
 * such a file copies nothing, unless it is loaded fresh. Errors: as
 * tarn_file_open.
 */
TARN_PUBLIC int tarn_store_open_file(tarn_store *store, const char *path,
	tarn_file **ret) TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

/* Loads all tensors of a file. options and ret_info may be NULL. ret_all may be
 * NULL or receives a U8 tensor over the whole data range, which keeps the file
 * in memory as long as it is referenced. Of an index all shards are loaded, one
 * after the other, and then their names are published (at once for up to 64
 * shards; for more, 64 at a time); the tensor has no bytes, and keeps all
 * shards. -ESTALE: the file has changed since its header was read when it was
 * opened, or was replaced while it was being read: open it again. -EBUSY: it was
 * written while it was being read, or one of the names is an open channel's. If
 * the daemon's server dies meanwhile, and another takes its place, the names are
 * still published once. */
TARN_PUBLIC int tarn_store_load(tarn_store *store, tarn_file *file,
	const struct tarn_load_options *options,
	struct tarn_load_info *ret_info, tarn_tensor **ret_all)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* Gets one tensor of a loaded file: a view of ret_all of tarn_store_load,
 * without a message to the daemon, whatever has become of the file since.
 * -ENOENT: the file has no such tensor; -EINVAL: all is not the result of
 * loading that file. */
TARN_PUBLIC int tarn_loaded_tensor(tarn_tensor *all, tarn_file *file,
	const char *tensor, tarn_tensor **ret)
	TARN_NONNULL(1, 2, 3, 4) TARN_MUST_CHECK;

/* Gets one tensor of a file, which is loaded if necessary; of an index only the
 * tensor's shard is. options as for tarn_store_get. *ret is the caller's
 * reference. */
TARN_PUBLIC int tarn_store_get_from_file(tarn_store *store, tarn_file *file,
	const char *tensor, const struct tarn_load_options *options,
	tarn_tensor **ret) TARN_NONNULL(1, 2, 3, 5) TARN_MUST_CHECK;

/* ---- publishing ---------------------------------------------------- */

/* Removes a published name; holders keep the tensor. -ENOENT. If the daemon's
 * server dies meanwhile, and another takes its place, it is still done once:
 * later publications under the name are not removed. */
TARN_PUBLIC int tarn_store_remove(tarn_store *store, const char *name)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* ---- the daemon ---------------------------------------------------- */

/* Asks the daemon to end: it finishes running loads first. Only the daemon's
 * own user or root may: -EPERM. */
TARN_PUBLIC int tarn_store_stop(tarn_store *store)
	TARN_NONNULL(1) TARN_MUST_CHECK;

#ifdef __cplusplus
}
#endif
