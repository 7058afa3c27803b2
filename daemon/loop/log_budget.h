/* SPDX-License-Identifier: MIT */
/*
 * How many lines of the log one user may cause.
 *
 * Whatever a client can cause is asked for here first: otherwise a user whose
 * requests are refused, or done, ten thousand times a second would fill the
 * journal, and what concerns others would be rotated out of it. Lines beyond
 * the budget are counted, and the count is logged when the span is over:
 *
 *	tarnd[12]: lines_left_out role=server uid=1000 lines=9900
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/loop/deadline.h"

/* Picked: more than a user does by hand; ten lines a second for ever. */
#define LOG_BUDGET_LINES 100u
#define LOG_BUDGET_NS 10000000000ull

/* Lies in its owner, which ends it before it goes. */
struct log_budget {
	uint64_t began; /* the span */
	uint64_t n;     /* lines asked for in it */
	uint32_t uid;
	struct deadline end; /* of a span in which lines were left out */
};

/* May one more line be logged that this user causes? now: loop_now(). */
bool log_may(struct log_budget *budget, struct deadlines *all, uint64_t now,
	uint32_t uid);
/* Logs what is left to be counted. */
void log_budget_end(struct log_budget *budget, struct deadlines *all);
