/* SPDX-License-Identifier: MIT */
/* The data of tarn top: one look at the daemon, and the changes since the look
 * before. */
#pragma once

#include <jansson.h>

#include <tarn/report.h>

#include "cli/channel_rows.h"
#include "cli/gauge.h"

struct look {
	const char *socket;
	struct tarn_report *report, *before; /* before: NULL at first */
	struct channel_rows channels;
	double seconds; /* between the two reports */
	/* Bytes read a second, the newest last. */
	double curve[GAUGE_COLUMNS_MAX];
	int n;
};

/* Bytes a second that the daemon reads from files; < 0: not known yet. */
double look_rate(const struct look *look);
/* And of one load of report->loads. */
double look_load_rate(
	const struct look *look, const struct tarn_report_load *load);

/* The picture, as screen.h has it, which the caller frees. */
char *top_picture(const struct look *look, int columns, int lines);

json_t *top_json(const struct look *look);
