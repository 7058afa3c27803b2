/* SPDX-License-Identifier: MIT */
/*
 * The next version of a set: begun from a snapshot of the old one, committed by
 * one publication of the names that have changed. Until then nothing of it is
 * the daemon's, so that a process that dies leaves nothing.
 */
#include "lib/set/refit.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "lib/reserved.h"
#include "lib/set/form.h"
#include "lib/store/store.h"

#define BUCKET_BYTES ((uint64_t)256 << 20)
#define BUCKET_BYTES_MAX ((uint64_t)1 << 50)
/* A publication has 64 storages at most. In a row of buckets each two neighbours
 * have more bytes than one has room for, so 60 hold 30 times that. */
#define BUCKETS_FOR_A_SET 24

/* ---- beginning ----------------------------------------------------------- */

/* The old fields with those of options: a value of NULL takes a key away. */
static int merge_fields(const struct tarn_set_fields *old,
	const struct tarn_refit_options *o, struct tarn_set_field **ret,
	size_t *ret_n)
{
	size_t n_old = old ? old->n : 0, n = 0;
	struct tarn_set_field *all;
	uint64_t size;

	if (o->n_fields > TARN_SET_FIELDS_MAX)
		return tarn_fail(E2BIG, "%zu fields; a set has %d at most",
			o->n_fields, TARN_SET_FIELDS_MAX);
	size = (n_old + o->n_fields + 1) * sizeof(*all);
	all = malloc(size);
	if (!all)
		return tarn_fail_constant(ENOMEM, "out of memory for fields");
	for (size_t i = 0; i < n_old; i++) {
		bool stays = true;

		for (size_t k = 0; stays && k < o->n_fields; k++)
			stays = !o->fields[k].key ||
				strcmp(o->fields[k].key, old->fields[i].key);
		if (stays)
			all[n++] = old->fields[i];
	}
	for (size_t i = 0; i < o->n_fields; i++)
		if (!o->fields[i].key || o->fields[i].value)
			all[n++] = o->fields[i];
	*ret = all;
	*ret_n = n;
	return 0;
}

static int make_fields(
	struct tarn_refit *refit, const struct tarn_refit_options *o)
{
	_cleanup_fields_ struct tarn_set_fields *old = NULL;
	_cleanup_free_ struct tarn_set_field *all = NULL;
	struct tarn_set_fields form = {.n = 0};
	int r;

	if (!o->n_fields)
		return 0;
	r = refit_old_fields(refit, &old);
	if (r >= 0 && old)
		form = *old;
	if (r >= 0)
		r = merge_fields(old, o, &all, &form.n);
	form.fields = all;
	return r < 0 ? r : set_form_write(&form, &refit->fields);
}

static void set_options(
	struct tarn_refit *refit, const struct tarn_refit_options *o)
{
	refit->bucket_bytes = o->bucket_bytes ? o->bucket_bytes : BUCKET_BYTES;
	/* Larger ones are never filled; sums and shifts of it fit. */
	refit->bucket_bytes = MIN(refit->bucket_bytes, BUCKET_BYTES_MAX);
	refit->share_equal = o->share_equal;
	refit->add = o->add;
	refit->whole = o->whole;
	refit->cuda_stream = o->cuda_stream;
	if (o->device) {
		refit->has_place = true;
		refit->place = (struct set_place) {
			.on_device = true, .device = *o->device};
	}
}

static int open_old(
	struct tarn_refit *refit, const struct tarn_refit_options *o)
{
	int r = store_snapshot_originals(
		refit->store, refit->prefix, &refit->old);

	if (r >= 0)
		r = refit_names_init(refit);
	if (r >= 0 && !refit->n && !refit->add)
		r = tarn_fail(ENOENT,
			"nothing is published below '%.200s' (options.add "
			"begins a set)",
			refit->prefix);
	refit->bucket_bytes =
		MAX(refit->bucket_bytes, refit->untaken / BUCKETS_FOR_A_SET);
	return r < 0 ? r : make_fields(refit, o);
}

int tarn_refit_begin(tarn_store *store, const char *prefix,
	const struct tarn_refit_options *options, tarn_refit **ret)
{
	static const struct tarn_refit_options none;
	const struct tarn_refit_options *o = options ? options : &none;
	struct tarn_refit *refit = calloc(1, sizeof(*refit));
	int r = RESERVED_CHECK("tarn_refit_options", options);

	if (r >= 0 && !refit)
		r = tarn_fail_constant(ENOMEM, "out of memory");
	if (r >= 0)
		r = set_name(prefix, "", &refit->prefix);
	if (r >= 0 && !(refit->set = strdup(prefix)))
		r = tarn_fail_constant(ENOMEM, "out of memory");
	if (r >= 0) {
		refit->began = (double)clock_ms() / 1e3;
		refit->store = tarn_store_ref(store);
		set_options(refit, o);
		r = open_old(refit, o);
	}
	if (r >= 0)
		r = tarn_stream_new(NULL, &refit->stream);
	if (r < 0) {
		tarn_refit_free(refit);
		return tarn_fail_prefix(r, "refit of '%.200s': ", prefix);
	}
	*ret = refit;
	return 0;
}

/* ---- the end ------------------------------------------------------------- */

/* Copies that were not done are cancelled. */
static void drop_work(struct tarn_refit *refit)
{
	refit->stream = tarn_stream_free(refit->stream);
	refit_pieces_done(refit);
}

static void drop_memory(struct tarn_refit *refit)
{
	struct refit_bucket *b;

	while ((b = refit->buckets)) {
		refit->buckets = b->next;
		tarn_storage_unref(b->storage);
		free(b);
	}
	refit_patches_done(refit);
	refit_names_done(refit);
	refit->names = refit->by_range = NULL;
	refit->n = refit->n_old = 0;
	refit->old = tarn_snapshot_free(refit->old);
	refit->fields = tarn_tensor_unref(refit->fields);
}

tarn_refit *tarn_refit_free(tarn_refit *refit)
{
	if (refit) {
		drop_work(refit);
		drop_memory(refit);
		tarn_store_unref(refit->store);
		free(refit->prefix);
		free(refit->set);
		free(refit);
	}
	return NULL;
}

int tarn_refit_flush(tarn_refit *refit)
{
	int r = refit_check(refit);

	if (r >= 0)
		r = refit_launch(refit, false);
	if (r >= 0)
		r = refit_drain(refit);
	return r < 0 ? tarn_fail_prefix(r, "refit: ") : 0;
}

void tarn_refit_progress(const tarn_refit *refit, struct tarn_refit_info *ret)
{
	*ret = refit->info;
	if (!refit->committed)
		ret->seconds = (double)clock_ms() / 1e3 - refit->began;
}

/* ---- committing ---------------------------------------------------------- */

static int check_whole(const struct tarn_refit *refit)
{
	struct set_range missing;

	for (size_t i = 0; i < refit->n; i++) {
		const struct refit_name *name = refit->names[i];
		int64_t rows = name->layout.shape[0];

		if (name->in_parts &&
			set_rows_missing(&name->rows, rows, &missing))
			return tarn_fail(EINVAL,
				"'%.200s': rows %lld to %lld of %lld were not "
				"put",
				name->name, (long long)missing.begin,
				(long long)missing.end - 1, (long long)rows);
	}
	return 0;
}

/* The changed names, and the fields behind them. */
static int list_changed(struct tarn_refit *refit,
	struct tarn_publish_item *items, char **fields, size_t *ret_n)
{
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < refit->n; i++) {
		if (!refit_is_changed(refit->names[i]))
			continue;
		items[n].name = refit->names[i]->name;
		r = refit_fresh(refit->names[i], &items[n].tensor);
		n += r >= 0;
	}
	*ret_n = n;
	if (r < 0 || !refit->fields)
		return r;
	r = set_name(refit->set, TARN_SET_FIELDS, fields);
	if (r < 0)
		return r;
	items[n].name = *fields;
	items[n].tensor = tarn_tensor_ref(refit->fields);
	*ret_n = n + 1;
	return 0;
}

static int publish(struct tarn_refit *refit)
{
	struct tarn_publish_item *items = calloc(refit->n + 1, sizeof(*items));
	_cleanup_free_ char *fields = NULL;
	size_t n = 0;
	int r;

	if (!items)
		return tarn_fail(
			ENOMEM, "out of memory for %zu names", refit->n);
	r = list_changed(refit, items, &fields, &n);
	if (r >= 0 && n)
		r = tarn_store_publish(refit->store, items, n, NULL, NULL);
	if (r == -EMFILE && refit_patches_copy(refit))
		r = tarn_store_publish(refit->store, items, n, NULL, NULL);
	if (r >= 0)
		refit->info.names_changed = n - (refit->fields ? 1 : 0);
	for (size_t i = 0; i < n; i++)
		tarn_tensor_unref(items[i].tensor);
	free(items);
	return r;
}

static int by_item(const void *a, const void *b)
{
	const struct tarn_snapshot_item *x =
		*(const struct tarn_snapshot_item *const *)a;
	const struct tarn_snapshot_item *y =
		*(const struct tarn_snapshot_item *const *)b;

	return strcmp(x->name, y->name);
}

/* The items by name, in memory that the caller frees; NULL: there is none. */
static const struct tarn_snapshot_item **sorted(const struct tarn_snapshot *s)
{
	const struct tarn_snapshot_item **all = calloc(s->n + 1, sizeof(*all));

	for (size_t i = 0; all && i < s->n; i++)
		all[i] = &s->items[i];
	if (all)
		qsort(all, s->n, sizeof(*all), by_item);
	return all;
}

static int stale(const struct tarn_snapshot_item *item, const char *what)
{
	return tarn_fail(ESTALE,
		"'%.200s' was %s since the refit began; begin again",
		item->name, what);
}

/* A name that was removed in between counts its versions from 1 again, but the
 * refit still holds the old bytes, so that new ones are elsewhere. */
static bool is_same(const struct tarn_snapshot_item *old,
	const struct tarn_snapshot_item *now)
{
	if (old->commit == now->commit)
		return true;
	return old->version == now->version &&
	       !refit_storage_order(
		       old->tensor->storage, now->tensor->storage) &&
	       old->tensor->base == now->tensor->base;
}

static int compare(
	const struct tarn_snapshot *old, const struct tarn_snapshot *now)
{
	_cleanup_free_ const struct tarn_snapshot_item **a = sorted(old);
	_cleanup_free_ const struct tarn_snapshot_item **b = sorted(now);

	if (!a || !b)
		return tarn_fail(ENOMEM, "out of memory for %zu names", now->n);
	for (size_t i = 0; i < old->n || i < now->n; i++) {
		int order = i == old->n   ? 1
			    : i == now->n ? -1
					  : by_item(&a[i], &b[i]);

		if (order)
			return order < 0 ? stale(a[i], "removed")
					 : stale(b[i], "added");
		if (!is_same(a[i], b[i]))
			return stale(b[i], "published");
	}
	return 0;
}

/* Is the set still what it was at the beginning? -ESTALE. */
static int check_unchanged(const struct tarn_refit *refit)
{
	struct tarn_snapshot *now = NULL;
	int r = store_snapshot_originals(refit->store, refit->prefix, &now);

	if (r >= 0 && now->commit != refit->old->commit)
		r = compare(refit->old, now);
	tarn_snapshot_free(now);
	return r;
}

static int commit(struct tarn_refit *refit)
{
	int r = refit_check(refit);

	if (r >= 0)
		r = check_whole(refit);
	if (r >= 0)
		r = refit_check_shared(refit);
	if (r >= 0)
		r = refit_launch(refit, true);
	if (r >= 0)
		r = refit_drain(refit);
	if (r >= 0)
		r = refit_complete(refit);
	if (r >= 0)
		r = refit_patches_make(refit);
	if (r >= 0)
		r = refit_renew_digests(refit);
	if (r >= 0)
		r = check_unchanged(refit);
	return r < 0 ? r : publish(refit);
}

int tarn_refit_commit(tarn_refit *refit)
{
	int r = commit(refit);

	if (r < 0)
		return tarn_fail_prefix(r, "refit: ");
	refit->info.seconds = (double)clock_ms() / 1e3 - refit->began;
	refit->committed = true;
	drop_work(refit);
	drop_memory(refit);
	return 0;
}
