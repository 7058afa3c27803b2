/* SPDX-License-Identifier: MIT */
/* The table that "tarn channel top" and "tarn top" show: a line for each
 * channel, without its newline. */
#pragma once

#include <stdio.h>

#include "cli/channel_rows.h"

struct channel_table {
	FILE *f;
	int name, curve; /* columns */
};

/* Chooses the widths, so that a line takes columns at most (79 at least). */
void channel_table_fit(struct channel_table *table,
	const struct channel_rows *rows, FILE *f, int columns);
void channel_table_head(const struct channel_table *table);
void channel_table_row(
	const struct channel_table *table, const struct row *row);
