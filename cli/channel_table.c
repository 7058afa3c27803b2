/* SPDX-License-Identifier: MIT */
/* A line for each channel: a gauge of its slots, its rates, and a curve. */
#include "cli/channel_table.h"

#include "base/checked.h"
#include "cli/draw.h"
#include "cli/text.h"
#include "cli/size.h"

#define NAME_MIN 18
#define FIGURES 61 /* columns of a line behind its name */
#define BAR 14
#define CURVE_MIN 8

void channel_table_fit(struct channel_table *table,
	const struct channel_rows *rows, FILE *f, int columns)
{
	int longest = NAME_MIN, spare = MAX(columns - NAME_MIN - FIGURES, 0);

	for (size_t i = 0; i < rows->n; i++)
		longest = MAX(longest, text_put(NULL, rows->at[i]->name));
	table->f = f;
	table->name = MIN(longest, NAME_MIN + spare);
	spare -= table->name - NAME_MIN;
	table->curve = MIN(CURVE_MIN + spare, GAUGE_COLUMNS_MAX);
}

static void put_rates(FILE *f, const struct row *row)
{
	char bytes[SIZE_TEXT_MAX], items[32];

	snprintf(items, sizeof(items),
		row->rates.published < 1e6 ? "%.1f" : "%.2e",
		row->rates.published);
	fprintf(f, " %8s %11s", row->fresh ? "-" : items,
		row->fresh ? "-" : size_text(row->rates.bytes, bytes));
}

void channel_table_row(const struct channel_table *table, const struct row *row)
{
	const struct tarn_channel_info *info = &row->last.info;
	char bar[GAUGE_COLUMNS_MAX + 1], curve[3 * GAUGE_COLUMNS_MAX + 1];
	uint32_t counts[GAUGE_KINDS];

	channel_counts(info, counts);
	gauge_slots(bar, BAR, counts);
	gauge_curve(curve, table->curve, row->curve, row->n, draw_utf8());
	text_put_end(table->f, row->name, table->name);
	fprintf(table->f, " [%s] %5u", bar, info->ready);
	put_rates(table->f, row);
	fprintf(table->f, " %3u %3u %s", info->producers, info->consumers,
		info->closed ? "closed" : curve);
}

void channel_table_head(const struct channel_table *table)
{
	text_put_end(table->f, "CHANNEL", table->name);
	fprintf(table->f, " %-*s READY  ITEMS/S     BYTES/S  IN OUT RATE",
		BAR + 2, "READ " GAUGE_LETTERS " FREE");
}
