// SPDX-License-Identifier: MIT
/* Sets of tensors by their paths: from a store, a file or another tree. One
 * function puts such a set into a state, whether a tree is refreshed or loads
 * another's state, and says how the two differ. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <tarn/store.h>

#include "ops/nn/tree.h"

void set_close(struct tensor_set *set)
{
	for (size_t i = 0; i < set->n; i++)
		tarn_tensor_unref(set->items[i].tensor);
	free(set->items);
	set->snapshot = tarn_snapshot_free(set->snapshot);
	*set = (struct tensor_set) {.n = 0};
}

static int set_room(struct tensor_set *set, size_t n)
{
	set->items = calloc(n + 1, sizeof(set->items[0]));
	return set->items ? 0 : tree_no_memory();
}

static int by_path(const void *a, const void *b)
{
	const struct set_item *x = a, *y = b;

	return natural_order(
		x->path, strlen(x->path), y->path, strlen(y->path));
}

/* ---- from a store ------------------------------------------------------- */

static int origin_of(tarn_store *store, const struct tarn_snapshot_item *item,
	struct origin *ret)
{
	struct tarn_descriptor d;
	int r = tarn_store_export(store, item->tensor, &d);

	if (r < 0)
		return r;
	*ret = (struct origin) {
		.version = item->version,
		.generation = d.generation,
		.base = d.base,
		.offset = d.offset,
		.pool = d.pool,
		.storage = d.storage,
	};
	return 0;
}

int set_from_store(
	tarn_store *store, const char *prefix, struct tensor_set *ret)
{
	_cleanup_set_ struct tensor_set set = {.what = prefix};
	int r = tarn_store_snapshot(store, prefix, &set.snapshot);

	if (r >= 0)
		r = set_room(&set, set.snapshot->n);
	for (size_t i = 0; r >= 0 && i < set.snapshot->n; i++) {
		const struct tarn_snapshot_item *from = &set.snapshot->items[i];
		struct set_item *item = &set.items[i];

		item->path = from->name + strlen(prefix);
		r = origin_of(store, from, &item->origin);
		item->tensor = tarn_tensor_ref(from->tensor);
		set.n++;
	}
	if (r < 0)
		return r;
	set.commit = set.snapshot->commit;
	qsort(set.items, set.n, sizeof(set.items[0]), by_path);
	*ret = set;
	set = (struct tensor_set) {.n = 0};
	return 0;
}

/* ---- from a file -------------------------------------------------------- */

DEFINE_CLEANUP(tarn_tensor *, tarn_tensor_unref);

int set_from_file(tarn_file *file, const struct tarn_module_options *options,
	struct tensor_set *ret)
{
	_cleanup_set_ struct tensor_set set = {.what = tarn_file_path(file)};
	_cleanup_(tarn_tensor_unrefp) tarn_tensor *all = NULL;
	tarn_store *store = options ? options->store : NULL;
	const char *prefix = options && options->prefix ? options->prefix : "";
	int r = set_room(&set, tarn_file_count(file));

	if (r >= 0 && store)
		r = tarn_store_load(store, file, NULL, NULL, &all);
	for (size_t i = 0; r >= 0 && i < tarn_file_count(file); i++) {
		const char *name = tarn_file_at(file, i)->name;
		struct set_item *item = &set.items[set.n];

		if (strncmp(name, prefix, strlen(prefix)) != 0)
			continue;
		item->path = name + strlen(prefix);
		r = store ? tarn_loaded_tensor(all, file, name, &item->tensor)
			  : tarn_file_map(file, name, 0, &item->tensor);
		set.n += r >= 0;
	}
	if (r < 0)
		return r;
	qsort(set.items, set.n, sizeof(set.items[0]), by_path);
	*ret = set;
	set = (struct tensor_set) {.n = 0};
	return 0;
}

/* ---- from a tree -------------------------------------------------------- */

int set_from_tree(
	tarn_module *m, const tarn_state *state, struct tensor_set *ret)
{
	_cleanup_set_ struct tensor_set set = {.what = m->named.path};
	_cleanup_free_ tarn_parameter **all = NULL;
	size_t n;
	int r = tree_list(m, &all, &n);

	if (r >= 0)
		r = set_room(&set, n);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		set.items[set.n++] =
			(struct set_item) {.path = path_below(m, all[i]),
				.tensor = tarn_tensor_ref(
					tarn_state_tensor(state, all[i]))};
	*ret = set;
	set = (struct tensor_set) {.n = 0};
	return 0;
}

/* ---- differences -------------------------------------------------------- */

#define NAMED_MAX 4 /* of each kind; more would not fit into a sentence */

enum { MISSING, UNEXPECTED, MISMATCHED, KINDS };

struct differences {
	size_t n[KINDS];
	char text[KINDS][280];
	size_t at[KINDS];
};

static void differ(
	struct differences *d, int kind, const char *path, const char *how)
{
	size_t room = sizeof(d->text[kind]) - d->at[kind];
	int n;

	if (d->n[kind]++ >= NAMED_MAX)
		return;
	n = snprintf(d->text[kind] + d->at[kind], room, "%s%.80s%s%s",
		d->n[kind] > 1 ? ", " : "", path, *how ? " " : "", how);
	d->at[kind] += MIN((size_t)n, room - 1);
}

static int differ_end(const struct differences *d, const char *what)
{
	static const char *const kinds[] = {
		"missing", "unexpected", "of another shape or dtype"};
	char text[900] = "";
	size_t at = 0;

	for (int i = 0; i < KINDS; i++) {
		char more[40] = "";

		if (d->n[i] > NAMED_MAX)
			snprintf(more, sizeof(more), " and %zu more",
				d->n[i] - NAMED_MAX);
		if (d->n[i])
			at += (size_t)snprintf(text + at, sizeof(text) - at,
				"%s%s: %.240s%s", at ? "; " : "", kinds[i],
				d->text[i], more);
	}
	return tarn_error_set(EINVAL, "%s: %s", what, text);
}

static void layout_words(const struct tarn_layout *l, char *buf, size_t size)
{
	struct tarn_layout plain;

	if (tarn_layout_contiguous(l->dtype, l->ndim, l->shape, &plain) < 0)
		plain = *l;
	(void)tarn_layout_format(&plain, buf, size);
}

static void differ_layout(struct differences *d, const char *path,
	const struct tarn_layout *wanted, const struct tarn_layout *seen)
{
	char how[120], a[50], b[50];

	layout_words(wanted, a, sizeof(a));
	layout_words(seen, b, sizeof(b));
	snprintf(how, sizeof(how), "is %s, not %s", b, a);
	differ(d, MISMATCHED, path, how);
}

/* Of the dtype that the tree was made with, or of the one that it was asked to
 * have. */
static bool fits(const tarn_parameter *p, const struct slot *slot,
	const struct tarn_layout *l)
{
	return l->ndim == p->layout.ndim &&
	       (l->dtype == p->layout.dtype || l->dtype == slot->wish.dtype) &&
	       memcmp(l->shape, p->layout.shape,
		       (size_t)l->ndim * sizeof(l->shape[0])) == 0;
}

/* Puts what fits into its slots, and marks it; the state is the caller's own,
 * and dropped where this fails. */
static void put(const struct tensor_set *set, tarn_module *m, tarn_state *state,
	bool *marks, struct differences *d)
{
	for (size_t i = 0; i < set->n; i++) {
		const struct set_item *item = &set->items[i];
		tarn_parameter *p = tree_look_up(m, item->path);
		const struct tarn_layout *l = tarn_tensor_layout(item->tensor);

		if (!p) {
			differ(d, UNEXPECTED, item->path, "");
			continue;
		}
		marks[p->slot] = true;
		if (!fits(p, &state->slots[p->slot], l)) {
			differ_layout(d, item->path, &p->layout, l);
			continue;
		}
		slot_set(&state->slots[p->slot], item->tensor);
		if (set->commit)
			state->slots[p->slot].origin = item->origin;
	}
}

/* A store is not asked for what was added to its tree by hand. */
static bool is_wanted(const struct tensor_set *set, const tarn_state *state,
	const tarn_parameter *p)
{
	return !set->commit || state->slots[p->slot].origin.version;
}

int set_into(const struct tensor_set *set, tarn_module *m, bool strict,
	const char *what, tarn_state *state, struct tarn_module_difference *ret)
{
	_cleanup_free_ bool *marks = calloc(state->n + 1, sizeof(bool));
	_cleanup_free_ tarn_parameter **all = NULL;
	struct differences d = {.n = {0}};
	size_t n;
	int r = marks ? tree_list(m, &all, &n) : tree_no_memory();

	if (r < 0)
		return r;
	put(set, m, state, marks, &d);
	for (size_t i = 0; i < n; i++)
		if (!marks[all[i]->slot] && is_wanted(set, state, all[i]))
			differ(&d, MISSING, path_below(m, all[i]), "");
	if (ret)
		*ret = (struct tarn_module_difference) {
			.missing = d.n[MISSING],
			.unexpected = d.n[UNEXPECTED],
			.mismatched = d.n[MISMATCHED],
		};
	if (d.n[MISMATCHED] || (strict && (d.n[MISSING] || d.n[UNEXPECTED])))
		return differ_end(&d, what);
	return 0;
}
