/* SPDX-License-Identifier: MIT */
/*
 * All names with a prefix, as one commit left them: a walk along the table in
 * parallel with the list of held names. Both are in the order of records, so
 * each record is compared with one name at most.
 */
#include <string.h>

#include "base/fail.h"
#include "lib/store/snapshot_internal.h"

/* For a name that is not in the list, or not under that record any more. */
static int renew(struct taking *t, struct taken **one)
{
	if (*one && strcmp((*one)->name, t->row.name) == 0)
		return 0;
	if (*one)
		taken_drop(t, *one);
	*one = taken_new(t->row.name, t->row.name_size);
	if (!*one)
		return tarn_fail(ENOMEM, "no memory for a name of a snapshot");
	(*one)->record = t->row.found.record;
	return 0;
}

/* The version at that commit cannot be determined any more. A name that is
 * there now is examined first in the next round. */
static int lost(struct taking *t, uint64_t record, struct taken **one)
{
	const struct table *table = &t->store->table;
	int r;

	t->lost = true;
	if (!*one) {
		if (table_record_at(table, record, table_committed(table),
			    t->prefix, t->prefix_size,
			    &t->row) != TABLE_AT_NAME ||
			store_is_channel(t->store, &t->row.found.descriptor))
			return 0;
		r = renew(t, one);
		if (r < 0)
			return r;
	}
	return taken_heat(t, *one);
}

/* Visits one record; *one is the entry held for it, or NULL, before and
 * after. */
static int visit(struct taking *t, uint64_t record, struct taken **one)
{
	const struct table *table = &t->store->table;
	enum table_at what;
	int r;

	if (*one && (*one)->tensor &&
		((*one)->at == t->at || table_record_holds(table, record,
						(*one)->commit, t->at))) {
		(*one)->at = t->at;
		return 0;
	}
	what = table_record_at(
		table, record, t->at, t->prefix, t->prefix_size, &t->row);
	if (what == TABLE_AT_LOST)
		return lost(t, record, one);
	if (what == TABLE_AT_NOTHING ||
		store_is_channel(t->store, &t->row.found.descriptor)) {
		if (*one)
			taken_drop(t, *one);
		*one = NULL;
		return 0;
	}
	r = renew(t, one);
	if (r >= 0)
		r = taken_open(t, *one, &t->row.found);
	return r == -EAGAIN ? taken_heat(t, *one) : r;
}

int taking_walk(struct taking *t)
{
	struct taken_list old = t->all;
	struct table_walk walk;
	size_t i = 0;
	int r, added = 0;

	t->all = (struct taken_list) {0};
	table_walk_begin(&t->store->table, &walk);
	while ((r = table_walk_next(&t->store->table, &walk)) > 0) {
		struct taken *one = NULL;

		while (i < old.n && old.v[i]->record < walk.record)
			taken_drop(t, old.v[i++]);
		if (i < old.n && old.v[i]->record == walk.record)
			one = old.v[i++];
		r = visit(t, walk.record, &one);
		added = one ? taken_add(&t->all, one) : 0;
		if (added < 0)
			taken_drop(t, one);
		if (r < 0 || added < 0)
			break;
	}
	/* After an error what was not visited is kept for another walk. */
	for (; i < old.n; i++)
		if ((r >= 0 && added >= 0) || taken_add(&t->all, old.v[i]) < 0)
			taken_drop(t, old.v[i]);
	free(old.v);
	return r < 0 ? r : added;
}
