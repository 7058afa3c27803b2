/* SPDX-License-Identifier: MIT */
/*
 * tarn status: how the daemon fares. It starts none: that none is running is
 * what one wanted to know.
 */
#include "cli/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/live.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/store.h"

const char *pid_comm(int32_t pid, char buf[COMM_MAX])
{
	char path[32];
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	f = pid > 0 ? fopen(path, "re") : NULL;
	if (f) {
		n = fread(buf, 1, COMM_MAX - 1, f);
		fclose(f);
	}
	buf[n] = '\0';
	if (n && buf[n - 1] == '\n')
		buf[n - 1] = '\0';
	return buf;
}

const char *report_pool_name(const struct tarn_report *report, uint32_t domain)
{
	for (uint32_t i = 0; i < report->n_pools; i++)
		if (report->pools[i].domain == domain)
			return report->pools[i].name;
	return "?";
}

const char *report_load_state(uint32_t state)
{
	static const char *const names[] = {
		[TARN_REPORT_LOAD_QUEUED] = "queued",
		[TARN_REPORT_LOAD_WAITING] = "waiting",
		[TARN_REPORT_LOAD_READING] = "reading",
		[TARN_REPORT_LOAD_SHARING] = "sharing",
		[TARN_REPORT_LOAD_STOPPING] = "stopping",
	};

	return state < ARRAY_SIZE(names) && names[state] ? names[state] : "?";
}

/* ---- asking ---------------------------------------------------------- */

/* 0, or the exit status after saying why. */
static int ask(tarn_store *store, struct shown *ret)
{
	int r = tarn_store_report(store, &ret->report);

	ret->socket = tarn_store_socket(store);
	return r < 0 ? print_error() : EXIT_DONE;
}

static int show(tarn_store *store, bool json)
{
	struct shown shown = {0};
	int r = ask(store, &shown);

	if (r)
		return r;
	if (json)
		r = json_print(status_json(&shown));
	else
		status_print(&shown);
	tarn_report_free(shown.report);
	return r;
}

/* Until the daemon is gone, or the reader of the output, or has seen enough. */
static int watch(tarn_store *store, bool json, double seconds)
{
	bool clear = !json && isatty(STDOUT_FILENO);
	int r;

	live_begin();
	for (;;) {
		if (clear)
			fputs("\033[H\033[J", stdout);
		r = show(store, json);
		if (!clear && !json)
			putchar('\n');
		if (r || fflush(stdout) == EOF || !live_nap(seconds))
			return r;
	}
}

int cmd_status(int argc, char **argv)
{
	_cleanup_store_ tarn_store *store = NULL;
	const char *socket = NULL, *every = NULL;
	bool json = false;
	const struct option_row rows[] = {OPTION_JSON(&json),
		OPTION_SOCKET(&socket),
		{.name = "watch",
			.letter = 'w',
			.value = "SECONDS",
			.ret_text = &every,
			.help = "tell again after so many seconds, until the "
				"daemon ends"},
		{0}};
	const struct usage usage = {.verb = "status",
		.arguments = "[OPTION]...",
		.about = "Shows the daemon's memory, and your pools, clients "
			 "and "
			 "loads (root and the\ndaemon's own user see "
			 "everyone's). "
			 "Starts no daemon.",
		.options = rows};
	double seconds = 0;
	char **args;
	int n, r;

	r = options_parse(&usage, argc, argv, &n, &args);
	if (r == OPTIONS_DONE)
		r = option_seconds(&usage, "watch", every, &seconds);
	if (r != OPTIONS_DONE)
		return r;
	r = cli_store_need(socket, &store);
	if (r != EXIT_DONE)
		return r;
	return every ? watch(store, json, seconds) : show(store, json);
}
