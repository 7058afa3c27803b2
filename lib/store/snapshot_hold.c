/* SPDX-License-Identifier: MIT */
/*
 * One name of an unfinished snapshot: which version is held, and whether it is
 * the one that the commit of this round left.
 *
 * The lease comes first, and is kept. A held version cannot be freed, so a
 * later round only compares its commit number.
 */
#include <string.h>

#include "base/fail.h"
#include "lib/store/snapshot_internal.h"

struct taken *taken_new(const char *name, size_t size)
{
	struct taken *one = calloc(1, sizeof(*one));

	if (!one)
		return NULL;
	one->size = size;
	one->name = strndup(name, size);
	return one->name ? one : taken_free(one);
}

struct taken *taken_free(struct taken *one)
{
	if (!one)
		return NULL;
	tarn_tensor_unref(one->tensor);
	free(one->name);
	free(one);
	return NULL;
}

static int make_room(struct taken_list *list)
{
	size_t room = list->room ? 2 * list->room : 64;
	struct taken **v;

	if (list->n < list->room)
		return 0;
	v = reallocarray(list->v, room, sizeof(v[0]));
	if (!v)
		return tarn_fail(
			ENOMEM, "no memory for a snapshot of %zu names", room);
	list->v = v;
	list->room = room;
	return 0;
}

int taken_add(struct taken_list *list, struct taken *one)
{
	int r = one ? make_room(list)
		    : tarn_fail(ENOMEM, "no memory for a name of a snapshot");

	if (r >= 0)
		list->v[list->n++] = one;
	return r;
}

/* ---- what is held ---------------------------------------------------- */

int taken_open(
	struct taking *t, struct taken *one, const struct table_name *found)
{
	tarn_tensor *tensor;
	int r;

	if (!one->tensor || one->commit != found->commit) {
		r = (t->originals ? store_import : store_import_nearest)(
			t->store, &found->descriptor, &tensor);
		/* Replaced between the read of the name and the lease. */
		if (r == -ESTALE)
			return -EAGAIN;
		if (r < 0)
			return tarn_fail_prefix(r, "'%.200s': ", one->name);
		tarn_tensor_unref(one->tensor);
		one->tensor = tensor;
	}
	one->record = found->record;
	one->commit = found->commit;
	one->version = found->version;
	one->at = t->at;
	return 0;
}

int taken_hold(struct taking *t, struct taken *one)
{
	const struct table *table = &t->store->table;

	if (one->tensor &&
		table_record_holds(table, one->record, one->commit, t->at)) {
		one->at = t->at;
		return 0;
	}
	switch (table_record_at(
		table, one->record, t->at, one->name, one->size, &t->row)) {
	case TABLE_AT_NAME:
		if (t->row.name_size == one->size)
			return taken_open(t, one, &t->row.found);
		return -ENOENT;
	case TABLE_AT_LOST:
		return -EAGAIN;
	default:
		return -ENOENT;
	}
}

/* ---- which are hot --------------------------------------------------- */

void taken_cool(struct taking *t, struct taken *one)
{
	struct taken_list *hot = &t->hot;
	size_t i = 0;

	if (!one->hot)
		return;
	while (hot->v[i] != one)
		i++;
	memmove(&hot->v[i], &hot->v[i + 1], (--hot->n - i) * sizeof(hot->v[0]));
	one->hot = false;
}

int taken_heat(struct taking *t, struct taken *one)
{
	struct taken_list *hot = &t->hot;
	int r;

	t->lost = true;
	taken_cool(t, one);
	r = make_room(hot);
	if (r < 0)
		return r;
	memmove(&hot->v[1], &hot->v[0], hot->n++ * sizeof(hot->v[0]));
	hot->v[0] = one;
	one->hot = true;
	return 0;
}

void taken_drop(struct taking *t, struct taken *one)
{
	taken_cool(t, one);
	taken_free(one);
}
