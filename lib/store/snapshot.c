/* SPDX-License-Identifier: MIT */
/*
 * Sets of published names, as one commit left them.
 *
 * A snapshot is taken in rounds. Each round takes the newest commit number and
 * tries to hold, for every name, the tensor that that commit left. A round
 * fails if a name was overtaken: its tensor was freed before it was leased,
 * which takes one publication, or both of its versions in the table are newer,
 * which takes two. Then the next round begins with a newer number.
 *
 * Why rounds end. A lease that was taken is kept, and a name that was not
 * published since costs one comparison of commit numbers. A name that was
 * overtaken becomes hot: the next round opens it first, the most recently
 * overtaken one before all others, directly after the number was read. To
 * overtake it once more, a commit has to land within that tenth of a
 * microsecond. Other names are only overtaken if they are published between two
 * rounds and once more within the second; each of those becomes hot itself. So
 * every round but those that fail on a hot name has fewer names left that can
 * make it fail, and the server, which needs microseconds for a commit, cannot
 * publish n names in the time in which n are opened. Removals are counted for
 * all names of the table together: a walk during which any name was removed is
 * repeated.
 */
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "lib/store/snapshot_internal.h"

/* Publishers at full speed cost a few rounds; if it takes this long there is
 * another cause, such as a corrupt table. */
#define SNAPSHOT_MS 10000

/* Rounds before it sleeps between them, and for how long: picked, not tuned. */
#define ROUNDS_SPIN 64
#define NAP_US 20

/* ---- rounds ---------------------------------------------------------- */

static int hold_hot(struct taking *t)
{
	for (size_t i = 0; i < t->hot.n; i++) {
		struct taken *one = t->hot.v[i];
		int r = taken_hold(t, one);

		if (r == -EAGAIN)
			return taken_heat(t, one);
		/* It is gone: the rest of the round finds what is there now. */
		if (r < 0 && r != -ENOENT)
			return r;
	}
	return 0;
}

/* Looks up the record of a name that has none yet, or has lost it. */
static int find(struct taking *t, struct taken *one)
{
	struct table_name found;
	int r = store_read_name(t->store, one->name, one->size, &found);

	if (r >= 0)
		one->record = found.record;
	return r;
}

static int hold_names(struct taking *t)
{
	for (size_t i = 0; i < t->all.n; i++) {
		struct taken *one = t->all.v[i];
		int r = 0;

		if (!one->tensor || one->at != t->at)
			r = taken_hold(t, one);
		if (r == -ENOENT) {
			r = find(t, one);
			t->lost = true;
		} else if (r == -EAGAIN) {
			r = taken_heat(t, one);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

/* 1: all names are held in the state that t->at left; 0: not yet. */
static int try(struct taking *t)
{
	const struct table *table = &t->store->table;
	int r;

	t->at = table_committed(table);
	t->lost = false;
	r = hold_hot(t);
	if (r >= 0 && !t->lost)
		r = t->prefix ? taking_walk(t) : hold_names(t);
	if (r < 0 || t->lost)
		return r < 0 ? r : 0;
	return !t->prefix || !table_removed_since(table, t->at);
}

int taking_run(struct taking *t, int64_t until)
{
	int64_t began = 0, now;
	int r;

	for (unsigned int round = 0;; round++) {
		r = try(t);
		if (r != 0)
			return MIN(r, 0);
		if (round < ROUNDS_SPIN)
			continue;
		now = clock_ms();
		if (!began) {
			began = now;
			until = MIN(until, now + SNAPSHOT_MS);
		}
		if (now > until)
			return tarn_fail(EAGAIN,
				"snapshot: for %lld ms names were published or "
				"removed faster than they can be read; take "
				"fewer names at once, or publish less often",
				(long long)(now - began));
		usleep(NAP_US);
	}
}

void taking_done(struct taking *t)
{
	for (size_t i = 0; i < t->all.n; i++)
		taken_free(t->all.v[i]);
	free(t->all.v);
	free(t->hot.v);
}

/* ---- what is handed out ---------------------------------------------- */

static int item_of(struct taken *one, bool keep, struct tarn_snapshot_item *ret)
{
	char *name = keep ? strdup(one->name) : STEAL(one->name);

	if (!name)
		return -ENOMEM;
	ret->name = name;
	ret->tensor = keep ? tarn_tensor_ref(one->tensor) : STEAL(one->tensor);
	ret->version = one->version;
	ret->commit = one->commit;
	return 0;
}

int taking_hand_out(struct taking *t, bool keep, struct tarn_snapshot **ret)
{
	struct tarn_snapshot *snapshot = calloc(1, sizeof(*snapshot));
	struct tarn_snapshot_item *items =
		calloc(t->all.n + 1, sizeof(items[0]));
	int r = snapshot && items ? 0 : -ENOMEM;

	for (size_t i = 0; r >= 0 && i < t->all.n; i++)
		r = item_of(t->all.v[i], keep, &items[i]);
	if (r >= 0) {
		*snapshot = (struct tarn_snapshot) {
			.commit = t->at, .n = t->all.n, .items = items};
		*ret = snapshot;
		return 0;
	}
	for (size_t i = 0; items && i < t->all.n && items[i].name; i++) {
		tarn_tensor_unref(items[i].tensor);
		free((char *)items[i].name);
	}
	free(snapshot);
	free(items);
	return tarn_fail(
		ENOMEM, "no memory for a snapshot of %zu names", t->all.n);
}

static int take(tarn_store *store, const char *prefix, bool originals,
	struct tarn_snapshot **ret)
{
	struct taking t = {.store = store,
		.prefix = prefix ? prefix : "",
		.originals = originals};
	int r;

	t.prefix_size = strlen(t.prefix);
	r = taking_run(&t, INT64_MAX);
	if (r >= 0)
		r = taking_hand_out(&t, false, ret);
	taking_done(&t);
	return r;
}

int tarn_store_snapshot(
	tarn_store *store, const char *prefix, struct tarn_snapshot **ret)
{
	return take(store, prefix, false, ret);
}

int store_snapshot_originals(
	tarn_store *store, const char *prefix, struct tarn_snapshot **ret)
{
	return take(store, prefix, true, ret);
}

static int add_name(struct taking *t, const char *name)
{
	size_t size = strlen(name);
	struct taken *one;
	int r;

	if (size == 0 || size > TARN_NAME_MAX)
		return name_check(name, size);
	one = taken_new(name, size);
	r = taken_add(&t->all, one);
	if (r >= 0)
		return find(t, one);
	taken_free(one);
	return r;
}

int tarn_store_snapshot_names(tarn_store *store, const char *const *names,
	size_t n, struct tarn_snapshot **ret)
{
	struct taking t = {.store = store};
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++)
		r = add_name(&t, names[i]);
	if (r >= 0)
		r = taking_run(&t, INT64_MAX);
	if (r >= 0)
		r = taking_hand_out(&t, false, ret);
	taking_done(&t);
	return r;
}

struct tarn_snapshot *tarn_snapshot_free(struct tarn_snapshot *snapshot)
{
	if (!snapshot)
		return NULL;
	for (size_t i = 0; i < snapshot->n; i++) {
		tarn_tensor_unref(snapshot->items[i].tensor);
		free((char *)snapshot->items[i].name);
	}
	free((void *)snapshot->items);
	free(snapshot);
	return NULL;
}
