/* SPDX-License-Identifier: MIT */
/*
 * Names below a prefix as they change: a snapshot that is never finished.
 *
 * What one round has held is where the next one begins (snapshot.c), so a name
 * that was not published since costs a comparison of commit numbers, and its
 * tensor is the one that was opened before.
 */
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "lib/store/snapshot_internal.h"
#include "lib/store/wait.h"

/* For how many ms a look tries where the timeout leaves less: that other names
 * are being removed does not mean that nothing is there. Picked. */
#define LOOK_MS 50

struct tarn_follow {
	struct taking taking;
	char *prefix;
	uint64_t seen;  /* nothing that was not given out stood after it; 0: no
			* look so far */
	uint64_t given; /* the commit of the snapshot that was given out last */
	size_t n_given; /* its names */
	int64_t until;  /* of clock_ms(): when a look is to end */
	int failed;     /* of the last look: an error that a wait would retry */
};

int tarn_follow_begin(tarn_store *store, const char *prefix, tarn_follow **ret)
{
	size_t size = strlen(prefix);
	struct tarn_follow *follow;

	if (size > TARN_NAME_MAX)
		return tarn_fail(EINVAL,
			"follow: the prefix '%.60s...' has %zu bytes; names "
			"have %d at most",
			prefix, size, TARN_NAME_MAX);
	follow = calloc(1, sizeof(*follow));
	if (follow)
		follow->prefix = strdup(prefix);
	if (!follow || !follow->prefix) {
		free(follow);
		return tarn_fail_constant(ENOMEM, "out of memory for a follow");
	}
	follow->taking = (struct taking) {.store = tarn_store_ref(store),
		.prefix = follow->prefix,
		.prefix_size = size};
	*ret = follow;
	return 0;
}

tarn_follow *tarn_follow_free(tarn_follow *follow)
{
	if (follow) {
		taking_done(&follow->taking);
		tarn_store_unref(follow->taking.store);
		free(follow->prefix);
		free(follow);
	}
	return NULL;
}

/* Of as many names, none of which was published since, each was there: none was
 * added, so none was removed. */
static bool is_newer(const struct tarn_follow *follow)
{
	const struct taken_list *all = &follow->taking.all;

	if (all->n != follow->n_given)
		return true;
	for (size_t i = 0; i < all->n; i++)
		if (all->v[i]->commit > follow->given)
			return true;
	return false;
}

static int look(void *arg)
{
	struct tarn_follow *follow = arg;
	struct taking *t = &follow->taking;
	int r;

	if (follow->seen && table_committed(&t->store->table) == follow->seen)
		return 0;
	r = taking_run(t, follow->until);
	/* The server stopped while it was freeing one of them. The next one
	 * decides, and there is time. */
	if (r == -EBUSY)
		return -EAGAIN;
	follow->failed = r == -EAGAIN ? r : 0;
	if (r < 0)
		return r == -EAGAIN ? 1 : r;
	if (is_newer(follow))
		return 1;
	follow->seen = t->at;
	return 0;
}

static int timed_out(const struct tarn_follow *follow, int timeout_ms)
{
	if (!follow->n_given)
		return tarn_fail(ETIMEDOUT,
			"nobody has published a name there within %d ms",
			timeout_ms);
	return tarn_fail(ETIMEDOUT,
		"nothing newer than commit %llu was published within %d ms",
		(unsigned long long)follow->given, timeout_ms);
}

static int next(
	struct tarn_follow *follow, int timeout_ms, struct tarn_snapshot **ret)
{
	struct taking *t = &follow->taking;
	size_t n = follow->n_given;
	int r;

	follow->until = timeout_ms < 0 ? INT64_MAX
				       : clock_ms() + MAX(timeout_ms, LOOK_MS);
	r = store_wait(t->store, timeout_ms, look, follow);
	if (r == -ETIMEDOUT)
		return timed_out(follow, timeout_ms);
	if (r >= 0)
		r = follow->failed;
	if (r >= 0 && t->all.n)
		r = taking_hand_out(t, true, ret);
	if (r < 0)
		return r;
	follow->seen = follow->given = t->at;
	follow->n_given = t->all.n;
	return t->all.n ? 0
			: tarn_fail(ENOENT,
				  "all %zu names were removed, by commit %llu "
				  "at the latest; the next call waits for new "
				  "ones",
				  n, (unsigned long long)t->at);
}

int tarn_follow_next(
	tarn_follow *follow, int timeout_ms, struct tarn_snapshot **ret)
{
	int r = next(follow, timeout_ms, ret);

	return r < 0 ? tarn_fail_prefix(r, "follow '%.200s': ", follow->prefix)
		     : 0;
}
