/* SPDX-License-Identifier: MIT */
/*
 * The names of a set, and which of them share bytes: those that reach the same
 * range are a group and stay one; where ranges only touch, either all of them
 * become new or none does.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/layout/layout.h"
#include "lib/set/form.h"
#include "lib/set/refit.h"
#include "lib/store/store.h"
#include "shm/table.h"

/* ---- layouts ------------------------------------------------------------- */

/* The new tensor has the old one's strides if those leave no gaps. */
static void set_layout(struct refit_name *name, const struct tarn_layout *old)
{
	int64_t first, count;

	tarn_layout_bounds(old, &first, &count);
	name->packed = count != tarn_layout_numel(old) ||
		       tarn_layout_overlaps_itself(old);
	name->layout = *old;
	name->layout.offset = count ? old->offset - first : 0;
	if (name->packed)
		layout_fill_contiguous(&name->layout);
	if (name->packed)
		name->layout.offset = 0;
	name->size = (uint64_t)tarn_layout_nbytes(&name->layout);
}

static void set_range(struct refit_name *name)
{
	const struct tarn_layout *l = &name->old->layout;
	uint64_t bits = (uint64_t)tarn_dtype_bits(l->dtype);
	int64_t first, count;

	/* All of it lies inside the storage, so nothing overflows. */
	tarn_layout_bounds(l, &first, &count);
	name->begin =
		name->old->base + (count ? (uint64_t)first * bits / 8 : 0);
	name->end = name->begin + ((uint64_t)count * bits + 7) / 8;
}

/* ---- groups -------------------------------------------------------------- */

static int pointer_order(const void *a, const void *b)
{
	return ((uintptr_t)a > (uintptr_t)b) - ((uintptr_t)a < (uintptr_t)b);
}

int refit_storage_order(const tarn_storage *a, const tarn_storage *b)
{
	const struct shared_storage *x = store_storage_of(a);
	const struct shared_storage *y = store_storage_of(b);

	if (!x || !y)
		return x || y ? !!x - !!y : pointer_order(a, b);
	if (x->index != y->index)
		return x->index < y->index ? -1 : 1;
	return (x->generation > y->generation) -
	       (x->generation < y->generation);
}

static int by_range(const void *a, const void *b)
{
	const struct refit_name *x = *(struct refit_name *const *)a;
	const struct refit_name *y = *(struct refit_name *const *)b;
	int order = refit_storage_order(x->old->storage, y->old->storage);

	if (order)
		return order;
	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	if (x->end != y->end)
		return x->end > y->end ? -1 : 1;
	return strcmp(x->name, y->name);
}

static bool is_same_range(
	const struct refit_name *a, const struct refit_name *b)
{
	return a->begin == b->begin && a->end == b->end && a->begin != a->end &&
	       !refit_storage_order(a->old->storage, b->old->storage);
}

/* Of names of one range. */
static bool is_tied(const struct refit_name *a, const struct refit_name *b)
{
	return (!a->packed && !b->packed) ||
	       tarn_layout_equal(&a->old->layout, &b->old->layout);
}

/* The leader to which names[i] is tied, or itself. */
static struct refit_name *find_leader(struct refit_name **names, size_t i)
{
	for (size_t k = i; k > 0 && is_same_range(names[k - 1], names[i]); k--)
		if (names[k - 1]->leader == names[k - 1] &&
			is_tied(names[k - 1], names[i]))
			return names[k - 1];
	return names[i];
}

/* Each of a cluster overlaps the first one, or one that another overlaps. */
void refit_note_overlap(struct refit_name *a, struct refit_name *b)
{
	if (a != b)
		a->overlapped = b->overlapped = true;
}

/* names: by range. */
static void make_groups(struct refit_name **names, size_t n)
{
	uint64_t end = 0;

	for (size_t i = 0; i < n; i++) {
		struct refit_name *name = names[i];
		struct refit_name *before = i ? names[i - 1] : NULL;

		name->leader = find_leader(names, i);
		if (name->leader != name)
			name->leader->tied = true;
		name->cluster = i;
		if (before && name->begin < end &&
			!refit_storage_order(
				before->old->storage, name->old->storage)) {
			name->cluster = before->cluster;
			refit_note_overlap(name->leader, before->leader);
		} else {
			end = 0;
		}
		end = MAX(end, name->end);
	}
}

static int find_groups(struct tarn_refit *refit)
{
	refit->by_range = calloc(refit->n + 1, sizeof(*refit->by_range));
	if (!refit->by_range)
		return tarn_fail(
			ENOMEM, "out of memory for %zu names", refit->n);
	refit->n_old = refit->n;
	memcpy(refit->by_range, refit->names, refit->n * sizeof(*refit->names));
	qsort(refit->by_range, refit->n, sizeof(*refit->by_range), by_range);
	make_groups(refit->by_range, refit->n);
	for (size_t i = 0; i < refit->n; i++)
		if (refit->names[i]->leader == refit->names[i])
			refit->untaken += refit_room(refit->names[i]);
	return 0;
}

/* Of two names of one cluster: does a byte belong to both? Where the elements
 * cannot be compared, ranges that overlap are taken for it. */
static bool shares(const struct refit_name *a, const struct refit_name *b)
{
	struct tarn_layout x = a->old->layout, y = b->old->layout;
	int64_t bits = tarn_dtype_bits(y.dtype);
	int64_t apart = (int64_t)(b->old->base - a->old->base) * 8;

	if (a->begin >= b->end || b->begin >= a->end)
		return false;
	if (apart % bits || add_i64(y.offset, apart / bits, &y.offset) ||
		tarn_layout_check(&y) < 0)
		return true;
	return tarn_layout_overlaps(&x, &y);
}

static bool is_new(const struct refit_name *name)
{
	return name->leader->taken && !name->leader->kept;
}

/* Names of one cluster, from the first on. */
static int check_cluster(struct refit_name *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; is_new(names[i]) && k < n; k++)
			if (!is_new(names[k]) && shares(names[i], names[k]))
				return tarn_fail(EINVAL,
					"'%.200s' shares some of its bytes with "
					"'%.200s', which was not put: put both",
					names[i]->name, names[k]->name);
	return 0;
}

int refit_check_shared(const struct tarn_refit *refit)
{
	size_t n;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < refit->n_old; i += n) {
		struct refit_name *const *first = &refit->by_range[i];

		for (n = 1; i + n < refit->n_old &&
			    first[n]->cluster == first[0]->cluster;
			n++)
			;
		r = check_cluster(first, n);
	}
	return r;
}

/* ---- names --------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
	return strcmp((*(struct refit_name *const *)a)->name,
		(*(struct refit_name *const *)b)->name);
}

static struct refit_name *name_free(struct refit_name *name)
{
	if (name) {
		tarn_tensor_unref(name->old);
		set_rows_free(&name->rows);
		free(name->name);
		free(name);
	}
	return NULL;
}

static struct refit_name *name_new(const char *whole)
{
	struct refit_name *name = calloc(1, sizeof(*name));

	if (name) {
		name->leader = name;
		name->name = strdup(whole);
	}
	if (name && name->name)
		return name;
	tarn_fail_constant(ENOMEM, "out of memory for a name");
	return name_free(name);
}

static int reserve(struct tarn_refit *refit, size_t n)
{
	struct refit_name **more;

	if (n <= refit->room)
		return 0;
	n = MAX(n, refit->room * 2);
	more = reallocarray(refit->names, n, sizeof(*more));
	if (!more)
		return tarn_fail(ENOMEM, "out of memory for %zu names", n);
	refit->names = more;
	refit->room = n;
	return 0;
}

/* The set's fields are no tensor that is refitted. */
static bool is_fields(const struct tarn_refit *refit, const char *whole)
{
	return !strcmp(whole + strlen(refit->prefix), TARN_SET_FIELDS);
}

int refit_names_init(struct tarn_refit *refit)
{
	int r = reserve(refit, refit->old->n + 1);

	for (size_t i = 0; r >= 0 && i < refit->old->n; i++) {
		const struct tarn_snapshot_item *item = &refit->old->items[i];
		struct refit_name *name;

		if (is_fields(refit, item->name))
			continue;
		name = name_new(item->name);
		if (!name)
			return -ENOMEM;
		refit->names[refit->n++] = name;
		name->old = tarn_tensor_ref(item->tensor);
		name->commit = item->commit;
		set_layout(name, &name->old->layout);
		set_range(name);
	}
	if (r < 0)
		return r;
	r = find_groups(refit);
	qsort(refit->names, refit->n, sizeof(*refit->names), by_name);
	return r;
}

void refit_names_done(struct tarn_refit *refit)
{
	for (size_t i = 0; i < refit->n; i++)
		name_free(refit->names[i]);
	free(refit->names);
	free(refit->by_range);
}

int refit_find(
	struct tarn_refit *refit, const char *name, struct refit_name **ret)
{
	_cleanup_free_ char *whole = NULL;
	struct refit_name wanted, *key = &wanted, **found;
	int r = set_name(refit->set, name, &whole);

	if (r < 0)
		return r;
	wanted.name = whole;
	found = refit->n ? bsearch(&key, refit->names, refit->n, sizeof(*found),
				   by_name)
			 : NULL;
	if (!found)
		return tarn_fail(ENOENT,
			"the set has no tensor '%.200s' (options.add adds "
			"those that are put whole)",
			name);
	*ret = *found;
	return 0;
}

int refit_name_add(struct tarn_refit *refit, const char *name,
	const struct tarn_layout *like, struct refit_name **ret)
{
	_cleanup_free_ char *whole = NULL;
	struct refit_name *added;
	size_t at = 0;
	int r = name_check(name, strlen(name));

	if (r >= 0)
		r = set_name(refit->set, name, &whole);
	if (r >= 0)
		r = name_check(whole, strlen(whole));
	if (r >= 0 && is_fields(refit, whole))
		r = tarn_fail_constant(EINVAL,
			"'" TARN_SET_FIELDS
			"' is the name of the set's fields");
	if (r >= 0)
		r = reserve(refit, refit->n + 1);
	if (r < 0)
		return r;
	added = name_new(whole);
	if (!added)
		return -ENOMEM;
	added->layout = *like;
	layout_fill_contiguous(&added->layout);
	added->layout.offset = 0;
	added->size = (uint64_t)tarn_layout_nbytes(like);
	added->packed = true;
	while (at < refit->n && strcmp(refit->names[at]->name, whole) < 0)
		at++;
	memmove(&refit->names[at + 1], &refit->names[at],
		(refit->n - at) * sizeof(*refit->names));
	refit->names[at] = added;
	refit->n++;
	*ret = added;
	return 0;
}
