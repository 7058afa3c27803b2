/* SPDX-License-Identifier: MIT */
/*
 * Publishing: tensors of this process become tensors of everybody.
 *
 *	int64_t shape[] = {1000, 1000};
 *	struct tarn_publish_item item = {.name = "run/weights"};
 *	int r = tarn_store_create(store, TARN_F32, 2, shape, 0, &item.tensor);
 *	if (r >= 0) fill(tarn_tensor_data(item.tensor));
 *	if (r >= 0) r = tarn_store_publish(store, &item, 1, NULL, NULL);
 *	tarn_tensor_unref(item.tensor);
 *
 * What was published stays until its last name is removed or its time is over,
 * whatever becomes of who published it; who has it open keeps it even then.
 * Its bytes never change again: nobody can write them, the creator included
 * (but for mutable tensors). To publish an existing name replaces what stands
 * under it and raises the version of the name; readers of the old tensor keep
 * the old bytes.
 *
 * All names of one call appear at once, in every process, or none does.
 *
 * -EPERM: the pool is not one that this user may write. -ENOSPC: the daemon's
 * budget. -ENOTSUP: the daemon is older than this library.
 */
#pragma once

#include <tarn/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A writable, zeroed tensor of this process, C order. From TARN_ADOPT_MIN
 * bytes on its memory itself is published later, without a copy; smaller ones
 * are copied then. What is not published is gone with its last reference, and
 * with the process. The caller drops the reference that *ret is. Any thread.
 * -ENOMEM: the machine, or a cgroup, does not have as much to give, and the
 * sentence says which; nothing was taken.
 */
TARN_PUBLIC int tarn_store_create(tarn_store *store, int dtype, int ndim,
	const int64_t *shape, unsigned flags, tarn_tensor **ret);

#define TARN_ADOPT_MIN (2u << 20)

/* Stays writable when it is published: who opens it sees the others' writes,
 * and may write himself if he may publish. */
#define TARN_CREATE_MUTABLE 1u

/* Any tensor may be published, under any number of names. */
struct tarn_publish_item {
	const char *name;
	tarn_tensor *tensor; /* borrowed */
};

struct tarn_publish_options {
	/* All names that begin with it and are not in this call are removed
	 * in the same moment: "run/" makes the call the whole of "run/". The
	 * daemon looks at every name of the pool for it, wherever that
	 * begins: some 10 ms for each 100,000. NULL: none. */
	const char *replace;
	bool exclusive; /* -EEXIST if one of the names is there already */
	double life;	/* seconds until the names end; 0: for good */
};

/*
 * Publishes n tensors. options may be NULL; ret_versions may be NULL or has
 * room for n. With n 0 and a prefix to replace, everything below it is
 * removed.
 *
 * Tensors that are shared already, by this daemon, get further names and no
 * further memory; views of one created tensor stay views of one storage. A
 * created tensor of TARN_ADOPT_MIN bytes or more is a shared one afterwards,
 * read-only, at the same address: while this runs and after it, writing to it,
 * in any thread, ends in SIGSEGV, so no other thread may be at work on it. If
 * the call fails it is writable again; if the daemon had sealed it by then, as
 * a copy: without memory for that it stays read-only, and can be published
 * still.
 * All others are copied (a view: only what it reaches, in C order), and stay
 * what they are; so does one that another process has mapped for writing, as a
 * child of fork() may: the daemon copies it. Any thread: two that publish one
 * tensor at once take turns.
 *
 * -EINVAL: a name is given twice, or is none, or the life is no time. -EEXIST:
 * see exclusive. -EBUSY: a name, or one that would be removed for them, is an
 * open channel's; or as many publications are under way already as one
 * connection allows, or as the daemon's descriptors (ulimit -n) allow a user
 * who has some under way, and none of them has ended within ten seconds, which
 * no signal cuts short: then nothing has happened, and it may be published when
 * one has. -E2BIG: more than 500,000 names, or than 64 storages that are not
 * copied. -EPERM, -ENOSPC, -ENOTSUP: see above.
 * -ENOMEM: there is none for the copies. -ECONNRESET: the daemon is gone, or
 * died of this. -ETIMEDOUT: it hangs.
 * -EIO: the daemon's server died meanwhile, and since others have published or
 * removed a name of these, or have published one in the place of all that was
 * to be removed, nobody can tell whether it was done.
 */
TARN_PUBLIC int tarn_store_publish(tarn_store *store,
	const struct tarn_publish_item *items, size_t n,
	const struct tarn_publish_options *options, uint64_t *ret_versions);

/* ---- mutable tensors ----------------------------------------------- */

/*
 * A mutable tensor that was published is memory that all who open it share:
 * what one writes the others see, as between threads, and with as little
 * order. Its size never changes. Who may publish in its pool may write it
 * (tarn_storage_writable says so); others have it read-only. There is no
 * moment at which all of it is of one writer, unless they agree on these
 * locks. Nobody is made to use them: they keep out only others who do.
 *
 * A lock is of the whole storage, so views of it share one. Any number may
 * have it for reading, or one for writing; a writer who waits keeps out readers
 * who come after him, and among writers it is luck. A thread must not ask
 * again for what it has: -EDEADLK where it has it for writing. The lock ends
 * with tarn_tensor_unlock, with the tensor's last reference in this process,
 * and with the process, however that dies: then the bytes may be half written.
 * A forked child has none of its parent's locks.
 *
 * timeout_ms: 0 only tries, a negative one waits for ever; a lock that comes
 * free in another process is seen within a millisecond. -ETIMEDOUT; -EROFS:
 * who may only read can only lock for reading; -ENOTSUP: not a published
 * mutable tensor. unlock: -EPERM where this thread cannot have it.
 */
enum tarn_lock { TARN_LOCK_READ = 1, TARN_LOCK_WRITE = 2 };

TARN_PUBLIC int tarn_tensor_lock(tarn_tensor *tensor, enum tarn_lock mode,
	int timeout_ms);
TARN_PUBLIC int tarn_tensor_unlock(tarn_tensor *tensor);

#ifdef __cplusplus
}
#endif
