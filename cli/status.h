/* SPDX-License-Identifier: MIT */
/* The output of tarn status. */
#pragma once

#include <jansson.h>

#include <tarn/report.h>

struct shown {
	const char *socket;
	struct tarn_report *report;
};

#define COMM_MAX 17 /* the kernel's 16, and a NUL */

/* The process's name; "" if it has ended by now. */
const char *pid_comm(int32_t pid, char buf[COMM_MAX]);

/* The name of the pool of that domain; "?" when the report has none. */
const char *report_pool_name(const struct tarn_report *report, uint32_t domain);

/* "queued", "waiting", ... */
const char *report_load_state(uint32_t state);

void status_print(const struct shown *shown);
void status_print_tables(const struct tarn_report *report);
/* Nothing where there is one node. */
void status_print_nodes(const struct tarn_report *report);
void status_put_nodes(json_t *object, const struct tarn_report_nodes *nodes);
json_t *status_json(const struct shown *shown);
