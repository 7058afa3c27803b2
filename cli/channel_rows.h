/* SPDX-License-Identifier: MIT */
/*
 * Channels that are watched, a row each, which a round brings up to date. Of
 * one that is made anew under the same name the curve begins anew.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/channel.h"
#include "cli/gauge.h"

struct row {
	char *name;
	struct channel_sample last;
	struct channel_rates rates;
	double curve[GAUGE_COLUMNS_MAX];
	int n;      /* in curve; the newest is the last */
	bool fresh; /* no rate yet */
};

/* Begins as zeroes. */
struct channel_rows {
	struct row **at; /* by name */
	size_t n;
};

void channel_rows_free(struct channel_rows *rows);

/* The channels with names that begin with prefix (NULL: all), and their rates
 * since the last round. 0, or -errno after an error message. */
int channel_rows_next(
	struct channel_rows *rows, tarn_store *store, const char *prefix);
