/* SPDX-License-Identifier: MIT */
/*
 * Rounds. Each opens every name again, so that the command keeps no channel's
 * memory and never looks at a channel that has lost its name. A channel that
 * was created again is recognised by its counters, which begin at 0.
 */
#include "cli/channel_rows.h"

#include <stdlib.h>
#include <string.h>

#include "cli/message.h"

static void row_free(struct row *row)
{
	if (row)
		free(row->name);
	free(row);
}

void channel_rows_free(struct channel_rows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		row_free(rows->at[i]);
	free(rows->at);
	*rows = (struct channel_rows) {0};
}

/* Takes it out of the rows; a new one if it is not there. */
static struct row *take(struct channel_rows *rows, const char *name)
{
	struct row *row;

	for (size_t i = 0; i < rows->n; i++) {
		row = rows->at[i];
		if (row && strcmp(row->name, name) == 0) {
			rows->at[i] = NULL;
			return row;
		}
	}
	row = must(calloc(1, sizeof(*row)));
	row->name = must(strdup(name));
	row->fresh = true;
	return row;
}

static void add_to_curve(struct row *row, double rate)
{
	if (row->n == GAUGE_COLUMNS_MAX)
		memmove(row->curve, row->curve + 1,
			(size_t)--row->n * sizeof(row->curve[0]));
	row->curve[row->n++] = rate;
}

/* One that is larger by chance before it is seen for the first time passes for
 * the old one, with a rate that is wrong once. */
static bool is_same(
	const struct tarn_channel_info *a, const struct tarn_channel_info *b)
{
	return a->mode == b->mode && a->slots == b->slots &&
	       a->slot_bytes == b->slot_bytes && a->tensors == b->tensors &&
	       a->closed <= b->closed && a->published <= b->published &&
	       a->bytes_published <= b->bytes_published;
}

/* False: it has gone meanwhile. */
static bool update(struct row *row, tarn_store *store)
{
	_cleanup_channel_ tarn_channel *channel = NULL;
	struct channel_sample now;
	bool known;

	if (tarn_channel_open(store, row->name, NULL, &channel) < 0 ||
		channel_sample(channel, &now) < 0)
		return false;
	known = row->last.at && is_same(&row->last.info, &now.info);
	row->fresh = !known;
	if (known) {
		row->rates = channel_rates(&row->last, &now);
		add_to_curve(row, row->rates.published);
	} else {
		row->n = 0;
	}
	row->last = now;
	return true;
}

int channel_rows_next(
	struct channel_rows *rows, tarn_store *store, const char *prefix)
{
	_cleanup_names_ struct channel_names names = {0};
	struct channel_rows old = *rows;
	int r = channel_names_list(&names, store, prefix);

	if (r < 0)
		return r;
	*rows = (struct channel_rows) {
		.at = must(calloc(names.n + 1, sizeof(rows->at[0])))};
	for (size_t i = 0; i < names.n; i++) {
		struct row *row = take(&old, names.at[i]);

		if (update(row, store))
			rows->at[rows->n++] = row;
		else
			row_free(row);
	}
	channel_rows_free(&old);
	return 0;
}
