/* SPDX-License-Identifier: MIT */
/*
 * Spans begin with the first line after the last one's end, so a user that is
 * quiet costs no timer.
 */
#include "daemon/loop/log_budget.h"

#include "daemon/loop/log.h"

static void log_left_out(void *arg)
{
	struct log_budget *budget = arg;

	if (budget->n > LOG_BUDGET_LINES)
		log_warning("lines_left_out", log_u64("uid", budget->uid),
			log_u64("lines", budget->n - LOG_BUDGET_LINES));
	budget->n = 0;
}

bool log_may(struct log_budget *budget, struct deadlines *all, uint64_t now,
	uint32_t uid)
{
	uint64_t end = budget->began + LOG_BUDGET_NS;

	if (!budget->n || now >= end) {
		log_budget_end(budget, all);
		budget->began = now;
		end = now + LOG_BUDGET_NS;
	}
	budget->uid = uid;
	if (++budget->n <= LOG_BUDGET_LINES)
		return true;
	if (!budget->end.at)
		deadline_call(all, &budget->end, end, log_left_out, budget);
	return false;
}

void log_budget_end(struct log_budget *budget, struct deadlines *all)
{
	deadline_set(all, &budget->end, 0);
	log_left_out(budget);
}
