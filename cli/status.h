/* SPDX-License-Identifier: MIT */
/* What tarn status shows: a report, or what an older daemon has instead. */
#pragma once

#include <jansson.h>

#include <tarn/report.h>

/* What is there to be shown. report: NULL from a daemon of protocol 1, and
 * then only status is filled in. */
struct shown {
	const char *socket;
	struct tarn_report *report;
	struct tarn_store_status status;
};

#define COMM_MAX 17 /* the kernel's 16, and a NUL */

/* What the process is called, which may be nobody by now: then "". */
const char *pid_comm(int32_t pid, char buf[COMM_MAX]);

/* The name of the pool of that rule; "?" when the report has none. */
const char *report_pool_name(const struct tarn_report *report, uint32_t rule);

/* "queued", "waiting", ... */
const char *report_load_state(uint32_t state);

void status_print(const struct shown *shown);
void status_print_tables(const struct tarn_report *report);
json_t *status_json(const struct shown *shown);
