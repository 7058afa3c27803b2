/* SPDX-License-Identifier: MIT */
/* Rounds: rows are carried over as long as name and version are the same. */
#include "cli/channel_rows.h"

#include <stdlib.h>
#include <string.h>

#include "cli/say.h"

static void row_free(struct row *row)
{
	if (!row)
		return;
	tarn_channel_unref(row->channel);
	free(row->name);
	free(row);
}

void rows_free(struct rows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		row_free(rows->at[i]);
	free(rows->at);
	*rows = (struct rows) {0};
}

/* ---- a round ------------------------------------------------------- */

/* NULL: it has gone meanwhile. */
static struct row *row_new(
	tarn_store *store, const char *name, uint64_t version)
{
	tarn_channel *channel = NULL;
	struct row *row;

	if (tarn_channel_open(store, name, NULL, &channel) < 0)
		return NULL;
	row = must(calloc(1, sizeof(*row)));
	row->name = must(strdup(name));
	row->version = version;
	row->channel = channel;
	row->fresh = true;
	return row;
}

/* Takes it out of the rows, if it is still the channel of that name. */
static struct row *take(struct rows *rows, const char *name, uint64_t version)
{
	for (size_t i = 0; i < rows->n; i++) {
		struct row *row = rows->at[i];

		if (!row || row->version != version ||
			strcmp(row->name, name) != 0)
			continue;
		rows->at[i] = NULL;
		return row;
	}
	return NULL;
}

static void add_to_curve(struct row *row, double rate)
{
	if (row->n == GAUGE_COLUMNS_MAX)
		memmove(row->curve, row->curve + 1,
			(size_t)--row->n * sizeof(row->curve[0]));
	row->curve[row->n++] = rate;
}

/* False: it cannot be asked any more. */
static bool update(struct row *row, bool first)
{
	struct channel_sample now;

	if (channel_sample(row->channel, &now) < 0)
		return false;
	row->fresh = first;
	if (!first) {
		row->rates = channel_rates(&row->last, &now);
		add_to_curve(row, row->rates.published);
	}
	row->last = now;
	return true;
}

int rows_next(struct rows *rows, tarn_store *store, const char *prefix)
{
	_cleanup_names_ struct channel_names names = {0};
	struct rows old = *rows;
	int r = channel_names_list(&names, store, prefix);

	if (r < 0)
		return r;
	*rows = (struct rows) {
		.at = must(calloc(names.n + 1, sizeof(rows->at[0])))};
	for (size_t i = 0; i < names.n; i++) {
		const char *name = names.at[i];
		struct row *row, *known;
		uint64_t version;

		if (tarn_store_version(store, name, &version) < 0)
			continue;
		known = take(&old, name, version);
		row = known ? known : row_new(store, name, version);
		if (row && update(row, !known))
			rows->at[rows->n++] = row;
		else
			row_free(row);
	}
	rows_free(&old);
	return 0;
}
