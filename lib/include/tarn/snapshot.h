/* SPDX-License-Identifier: MIT */
/*
 * Snapshots: sets of published names as they stood at one moment.
 *
 * All names of one publication appear at once. A reader that looks them up one
 * by one may still get some from before a publication and some from after it,
 * since each look-up takes the newest tensor. A snapshot gives every tensor as
 * one commit left it, so a set that is replaced as a set is read as a set:
 *
 *	struct tarn_snapshot *w = NULL;
 *	int r = tarn_store_snapshot(store, "model/", &w);
 *	for (size_t i = 0; r >= 0 && i < w->n; i++)
 *		printf("%s: version %llu\n", w->items[i].name,
 *			(unsigned long long)w->items[i].version);
 *	w = tarn_snapshot_free(w);
 *
 * Its tensors do not change, whatever is published afterwards. It needs no
 * message to the daemon, and does not delay publishers.
 *
 * How it is done. The daemon numbers its commits, and the table of names keeps
 * the two newest versions of each name, each with the number of its commit. A
 * snapshot takes the newest number once and opens what that commit left under
 * each name. Only a name that is published again before its tensor was opened,
 * or a removal, makes it begin again with a newer number. It keeps the tensors
 * that it has opened, and does not open those again that are still current; the
 * names that were overtaken are opened first, directly after the number was
 * read. So a publisher would have to publish one and the same name within the
 * fraction of a microsecond that this takes, time after time, to delay a
 * snapshot for long. The daemon needs many times longer for a publication.
 *
 * Removals are different: the table counts them for all names of the pool
 * together. A snapshot of a prefix begins again if any name was removed while
 * it walked through the table, even a name without that prefix. So clients that
 * remove names without a pause can delay it until it fails after ten seconds.
 * Names that one call removes together count once. A snapshot of given names
 * reads those alone, and the removal of others does not delay it.
 */
#pragma once

#include <tarn/store.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tarn_snapshot_item {
	const char *name;
	tarn_tensor *tensor; /* the snapshot's reference; take one to keep it */
	uint64_t version;    /* of the name, as in tarn_store_version */
	uint64_t commit;     /* that published it: snapshot.commit or less */
	uint64_t reserved[1]; /* 0 */
};

/* Read-only; freed with tarn_snapshot_free. */
struct tarn_snapshot {
	/* The number of the commit. It grows with each publication and each
	 * removal in the pool, also of other names: two snapshots of one store
	 * with equal numbers are equal. */
	uint64_t commit;
	size_t n;
	const struct tarn_snapshot_item *items;
};

/*
 * Takes a snapshot of all tensors whose published names begin with prefix
 * (NULL: all), in no order; there may be none. Channels are left out. Any
 * thread. -EAGAIN: for ten seconds names were published or removed faster than
 * they could be read, so there was no consistent moment; -ENOMEM; and the
 * errors of tarn_store_lookup. The caller frees *ret with tarn_snapshot_free.
 */
TARN_PUBLIC int tarn_store_snapshot(tarn_store *store, const char *prefix,
	struct tarn_snapshot **ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/*
 * Takes a snapshot of the tensors of n names, in that order. -ENOENT: one of
 * them is not there, and the sentence names it; -EINVAL: one is a channel's, or
 * is invalid; otherwise as tarn_store_snapshot.
 */
TARN_PUBLIC int tarn_store_snapshot_names(tarn_store *store,
	const char *const *names, size_t n, struct tarn_snapshot **ret)
	TARN_NONNULL(1, 4) TARN_MUST_CHECK;

/* Frees a snapshot, with its references. Takes NULL and returns NULL. */
TARN_PUBLIC struct tarn_snapshot *tarn_snapshot_free(
	struct tarn_snapshot *snapshot);

/* ---- following ----------------------------------------------------------- */

/*
 * Names below a prefix as they change, one snapshot after the other: what a
 * process does whose weights another one trains.
 *
 *	tarn_follow *follow = NULL;
 *	int r = tarn_follow_begin(store, "policy/", &follow);
 *	struct tarn_snapshot *w = NULL, *older = NULL;
 *
 *	while (r >= 0 && (r = tarn_follow_next(follow, -1, &w)) >= 0) {
 *		printf("commit %llu\n", (unsigned long long)w->commit);
 *		tarn_snapshot_free(older);
 *		older = w;
 *	}
 *	tarn_snapshot_free(older);
 *	follow = tarn_follow_free(follow);
 *
 * An item whose commit is above that of the snapshot before was published since.
 * All others are what they were there: the same tensors, whose memory both
 * snapshots share, and which are not opened again.
 *
 * A follow belongs to one thread at a time, its snapshots to any. After fork()
 * both processes go on with it, each by itself; not so if another thread was inside
 * of one of its functions then: the child begins its own.
 */
typedef struct tarn_follow tarn_follow;

/* Begins to follow all tensors whose published names begin with prefix; there
 * may be none yet. A set (set.h) has a prefix that ends with '/'. -EINVAL: the
 * prefix is longer than a name may be. It keeps a reference to the store. The
 * caller gives *ret to tarn_follow_free. */
TARN_PUBLIC int tarn_follow_begin(tarn_store *store, const char *prefix,
	tarn_follow **ret) TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

/*
 * Waits until names below the prefix were published or removed since the last
 * snapshot that it has returned, and returns the newest one; the first call
 * waits until there is a name. Versions that came and went in between are
 * skipped. timeout_ms: 0 only tests, a negative value waits for ever. The caller
 * frees *ret with tarn_snapshot_free; the follow itself holds the tensors of
 * the newest one.
 *
 * -ETIMEDOUT: there was nothing new in time; -ENOENT: all names below the prefix
 * were removed, which is told once: the next call waits until some are published
 * again; -ECONNRESET: the daemon is gone, and what was returned stays valid. If
 * its server dies and is replaced the wait goes on. -EAGAIN: names were published
 * or removed faster than they could be read, also others than those below the
 * prefix, until the timeout had passed (or 50 ms, if it is shorter), or for ten
 * seconds. Otherwise as tarn_store_snapshot. After any error the call may be
 * repeated.
 *
 * Every publication in the pool makes a waiting call read the numbers in the
 * table of names once.
 */
TARN_PUBLIC int tarn_follow_next(tarn_follow *follow, int timeout_ms,
	struct tarn_snapshot **ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* Takes NULL and returns NULL. Its snapshots stay. */
TARN_PUBLIC tarn_follow *tarn_follow_free(tarn_follow *follow);

#ifdef __cplusplus
}
#endif
