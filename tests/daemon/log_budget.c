/* SPDX-License-Identifier: MIT */
/*
 * A user that has many requests refused causes only so many lines of the log,
 * and those that were left out are counted, to the last one.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/loop/log_budget.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/publish_msg.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"

#define PATIENCE_S 60.0

static char log_path[300];

/* ---- the budget ------------------------------------------------------ */

static unsigned allowed(struct log_budget *budget, struct deadlines *all,
	uint64_t now, unsigned n)
{
	unsigned yes = 0;

	while (n--)
		yes += log_may(budget, all, now, 7);
	return yes;
}

static void test_spans(void)
{
	struct deadlines all = {0};
	struct log_budget budget = {0};
	const uint64_t now = 1000, later = now + LOG_BUDGET_NS;

	is_int(LOG_BUDGET_LINES, allowed(&budget, &all, now, 1000),
		"a thousand lines are cut to those of the budget");
	is_int((int64_t)later, (int64_t)deadlines_next(&all),
		"the suppressed lines are counted at the end of the span");
	is_int(0, allowed(&budget, &all, later - 1, 10),
		"no line is allowed before the span ends");
	deadlines_run(&all, later);
	is_int(LOG_BUDGET_LINES, allowed(&budget, &all, later, 1000),
		"the budget begins anew when the span ends");
	is_int(LOG_BUDGET_LINES,
		allowed(&budget, &all, later + LOG_BUDGET_NS, 1000),
		"the budget begins anew also if its timer has not run");
	log_budget_end(&budget, &all);
	ok(deadlines_next(&all) == UINT64_MAX,
		"an owner that ends stops the budget's timer");
	is_int(1, allowed(&budget, &all, now, 1),
		"one line of a new budget is allowed");
	ok(deadlines_next(&all) == UINT64_MAX,
		"one allowed line sets no timer");
}

/* ---- a daemon -------------------------------------------------------- */

/* The sum of a field over all lines of an event; field NULL: how many. */
static unsigned long sum(const char *event, const char *field)
{
	FILE *f = fopen(log_path, "re");
	unsigned long n = 0;
	char line[4096];

	if (!f)
		bail("%s: %m", log_path);
	while (fgets(line, sizeof(line), f)) {
		const char *at = strstr(line, event);

		if (at && field)
			at = strstr(at, field);
		if (at)
			n += field ? strtoul(at + strlen(field), NULL, 10) : 1;
	}
	fclose(f);
	return n;
}

static unsigned long logged(void)
{
	return sum(" publish_failed ", NULL) +
	       sum(" lines_left_out role=server ", " lines=");
}

/* More than the budget in ten seconds, on any machine. */
#define REFUSED (20 * LOG_BUDGET_LINES)

static void test_daemon(void)
{
	static unsigned char body[PUBLISH_MSG_MAX];
	struct publish_msg nothing = {.n_sources = 0};
	unsigned refused = 0;
	struct daemon daemon;
	struct raw raw;
	double end;
	size_t size = publish_msg_write(&nothing, body);

	daemon_log_to(log_path);
	daemon_start(&daemon, "d", NULL);
	raw_open(&raw, daemon.socket);
	for (unsigned i = 0; i < REFUSED; i++) {
		raw_send(&raw, WIRE_PUBLISH, body, size, NULL, 0);
		refused += raw_answer(&raw) == WIRE_ERROR;
	}
	is_int(REFUSED, refused, "%u publications are refused", REFUSED);
	end = seconds() + PATIENCE_S;
	while (seconds() < end && logged() < REFUSED)
		usleep(100000);
	is_int(REFUSED, (int64_t)logged(),
		"each is logged, or counted among those that are not");
	ok(sum(" publish_failed ", NULL) < REFUSED / 2,
		"%lu of them are logged", sum(" publish_failed ", NULL));
	raw_close(&raw);
	is_int(0, daemon_stop(&daemon), "the daemon ends without an error");
	unlink(log_path);
}

int main(void)
{
	snprintf(log_path, sizeof(log_path), "%s/log", test_tmpdir());
	test_spans();
	test_daemon();
	return done(12);
}
