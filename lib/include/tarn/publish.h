/* SPDX-License-Identifier: MIT */
/*
 * Publishing: tensors of this process become tensors of every process.
 *
 *	int64_t shape[] = {1000, 1000};
 *	tarn_tensor *w = NULL;
 *	int r = tarn_store_create(store, TARN_F32, 2, shape, 0, &w);
 *	if (r >= 0) fill(tarn_tensor_data(w));
 *	if (r >= 0) r = tarn_store_publish_one(store, "run/w", w, NULL, NULL);
 *	tarn_tensor_unref(w);
 *
 * A published tensor stays until its last name is removed or its ttl_ms is
 * over, whatever becomes of its publisher. A process that has it open keeps it
 * even then. Its bytes never change again: no process can write them, the
 * creator included (except for mutable tensors). Publishing an existing name
 * replaces its tensor and raises the version of the name; readers of the old
 * tensor keep the old bytes.
 *
 * All names of one call appear at once, in every process, or none does.
 *
 * -EPERM: this user may not write the pool. -ENOSPC: the daemon's budget.
 */
#pragma once

#include <tarn/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Makes a writable, zeroed tensor of this process, in C order. From
 * TARN_ADOPT_MIN bytes on its memory itself is published later, without a copy;
 * smaller ones are copied then. A tensor that is not published is gone with its
 * last reference, and with the process. *ret is the caller's reference. Any
 * thread. -ENOMEM: the machine, or a cgroup, does not have that much, and the
 * sentence says which; nothing was taken.
 */
TARN_PUBLIC int tarn_store_create(tarn_store *store, enum tarn_dtype dtype,
	int ndim, const int64_t *shape, unsigned flags, tarn_tensor **ret)
	TARN_NONNULL(1, 6) TARN_MUST_CHECK;

#define TARN_ADOPT_MIN (2u << 20)

/* The tensor stays writable when it is published: every process that opens it
 * sees the others' writes, and may write it if its user may publish. */
#define TARN_CREATE_MUTABLE 1u

/* Whether there is enough memory was looked at, but none was taken yet, which for
 * large tensors takes long: tarn_tensor_take does that for a part that is to be filled
 * next. Not for mutable tensors. */
#define TARN_CREATE_UNTAKEN 2u

/*
 * Takes the memory of a tensor that was created with TARN_CREATE_UNTAKEN, or of a view
 * of it, from its first byte to its last, as far as it was not taken before. A process
 * that writes to it without may be killed where the memory has run out meanwhile; what
 * is published with untaken parts is copied. Any thread. -ENOMEM as
 * tarn_store_create.
 */
TARN_PUBLIC int tarn_tensor_take(const tarn_tensor *tensor)
	TARN_NONNULL(1) TARN_MUST_CHECK;

/*
 * Copies src to a tensor that was created with TARN_CREATE_UNTAKEN, or to a view of
 * it, of which no memory was taken yet: that is taken by the copy, which takes half
 * the time of taking it first where both are of one type and in C order without gaps.
 * To other tensors it is tarn_tensor_take and tarn_copy. Errors as of these. Any
 * thread.
 */
TARN_PUBLIC int tarn_tensor_take_copy(tarn_tensor *dst, const tarn_tensor *src)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* Any tensor may be published, under any number of names. */
struct tarn_publish_item {
	const char *name;
	tarn_tensor *tensor; /* borrowed */
	uint64_t reserved[2]; /* 0 */
};

struct tarn_publish_options {
	/* All names that begin with this and are not in this call are removed
	 * at the same moment: "run/" makes the call the whole of "run/". For
	 * this the daemon reads every name of the pool: some 10 ms for each
	 * 100,000. NULL: none. */
	const char *replace;
	bool exclusive; /* -EEXIST if one of the names is there already */
	int64_t ttl_ms; /* time to live of the names; 0: for good */
	uint64_t reserved[8]; /* 0 */
};

/*
 * Publishes n tensors. options may be NULL; ret_versions may be NULL or has
 * room for n. With n 0 and a prefix to replace, everything below it is removed.
 *
 * Tensors that this daemon shares already get further names and no further
 * memory; views of one created tensor stay views of one storage. A created
 * tensor of TARN_ADOPT_MIN bytes or more is a shared one afterwards, read-only,
 * at the same address: during this call and after it, a write to it, in any
 * thread, is SIGSEGV, so no other thread may be using it. Its memory is sealed
 * for good before the daemon gets it. So a call that fails copies it into new
 * memory, to make it writable again, and needs twice its size in memory for
 * that moment: without that much it stays read-only, and can still be
 * published. All other tensors are copied (a view: only the elements that it
 * reaches, in C order), and stay as they are. A created tensor that another
 * process has mapped for writing, as a child of fork() may, also stays as it
 * is: the daemon copies it. Any thread: two that publish one tensor at once
 * take turns.
 *
 * A tensor on a device (TARN_STORAGE_DEVICE) is published where it is, whatever
 * its size: the daemon keeps its whole allocation, which is read-only for the
 * library from then on. All tensors over it are valid as before. Memory that
 * other code has allocated (tarn_cuda_borrow) is copied within the device.
 *
 * -EINVAL: a name is given twice, or is invalid, or ttl_ms is negative.
 * -EEXIST: see exclusive. -EBUSY: a name, or one that would be removed, is an
 * open channel's; or too many publications are under way: more than one
 * connection allows, or more than the daemon's descriptors (ulimit -n) allow
 * this user. In the second case the call waits up to ten seconds for one to
 * end, and signals do not interrupt that. Nothing was published; try again.
 * -E2BIG: more than 500,000 names, or more than 64 storages that are not
 * copied. -EPERM: this user may not write the pool. -ENOSPC: the daemon's
 * budget. -ENOMEM: there is no memory for the copies. -ENOTSUP: the daemon is
 * too old to keep memory of a device, or the driver cannot export it.
 * -ECONNRESET: the daemon is gone, or died while it processed this. -ETIMEDOUT:
 * it hangs.
 *
 * If the daemon's server dies meanwhile, and another takes its place, the
 * publication is still done once, and later publications and removals by others
 * are not undone. A version in ret_versions is then 0 if others have published
 * over that name twice, or have removed it.
 */
TARN_PUBLIC int tarn_store_publish(tarn_store *store,
	const struct tarn_publish_item *items, size_t n,
	const struct tarn_publish_options *options, uint64_t *ret_versions)
	TARN_NONNULL(1) TARN_MUST_CHECK;

/* Publishes one tensor under one name. options and ret_version may be NULL. */
TARN_PUBLIC int tarn_store_publish_one(tarn_store *store, const char *name,
	tarn_tensor *tensor, const struct tarn_publish_options *options,
	uint64_t *ret_version) TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

/* ---- mutable tensors ----------------------------------------------- */

/*
 * A mutable tensor that was published is memory that all processes that open it
 * share: what one writes the others see, as between threads, and with as little
 * order. Its size never changes. A user that may publish in its pool may write
 * it (tarn_storage_writable says so); others have it read-only. There is no
 * moment at which all of it is of one writer, unless the writers agree on these
 * locks. Nothing enforces them: they keep out only threads that use them.
 *
 * A lock is of the whole storage, so views of it share one. Any number of
 * threads may have it for reading, or one for writing. A waiting writer keeps
 * out readers that come after it; among writers the order is not defined. A
 * thread must not ask again for what it has: -EDEADLK where it has it for
 * writing. The lock ends with tarn_tensor_unlock, with the tensor's last
 * reference in this process, and with the process, however that dies: then the
 * bytes may be half written. A forked child has none of its parent's locks.
 *
 * timeout_ms: 0 only tries, a negative one waits for ever; a lock that comes
 * free in another process is seen within a millisecond. -ETIMEDOUT; -EROFS: a
 * process that may only read can lock only for reading; -ENOTSUP: not a
 * published mutable tensor. unlock: -EPERM where this thread cannot have it; a
 * thread that has the lock may ignore the result.
 */
enum tarn_lock { TARN_LOCK_READ = 1, TARN_LOCK_WRITE = 2 };

TARN_PUBLIC int tarn_tensor_lock(tarn_tensor *tensor, enum tarn_lock mode,
	int timeout_ms) TARN_NONNULL(1) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_unlock(tarn_tensor *tensor)
	TARN_NONNULL(1);

/*
 * As tarn_tensor_lock, for callers that have to look for something meanwhile, such
 * as for signals: look, unless it is NULL, is called about every 50 ms of the wait,
 * in this thread. What it returns, unless that is 0, ends the wait, and is
 * returned. A writer that asks in short waits instead lets readers in between them,
 * and may never be alone.
 */
TARN_PUBLIC int tarn_tensor_lock_while(tarn_tensor *tensor, enum tarn_lock mode,
	int timeout_ms, int (*look)(void *arg), void *arg)
	TARN_NONNULL(1) TARN_MUST_CHECK;

#ifdef __cplusplus
}
#endif
