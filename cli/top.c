/* SPDX-License-Identifier: MIT */
/*
 * tarn top: the daemon, drawn again each second. A look is taken at each
 * interval; a key or a new size of the terminal only draws it again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/live.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/screen.h"
#include "cli/store.h"
#include "cli/top.h"

#define INTERVAL 1.0 /* seconds: a figure can be read before it changes */

/* ---- rates ----------------------------------------------------------- */

/* Bytes that have arrived since the server began: of loads that are done, and
 * of those under way, of which a shared one is counted once. */
static uint64_t arrived(const struct tarn_report *report)
{
	uint64_t sum = report->daemon.bytes_loaded;

	for (uint32_t i = 0; i < report->n_loads; i++)
		if (report->loads[i].state == TARN_REPORT_LOAD_READING)
			sum += report->loads[i].done;
	return sum;
}

static double rate(uint64_t before, uint64_t now, double seconds)
{
	return now > before && seconds > 0 ? (double)(now - before) / seconds
					   : 0;
}

double look_rate(const struct look *look)
{
	if (!look->before)
		return -1;
	return rate(
		arrived(look->before), arrived(look->report), look->seconds);
}

double look_load_rate(
	const struct look *look, const struct tarn_report_load *load)
{
	const struct tarn_report *old = look->before;

	for (uint32_t i = 0; old && i < old->n_loads; i++) {
		const struct tarn_report_load *l = &old->loads[i];

		if (l->client == load->client && l->domain == load->domain &&
			l->total == load->total &&
			strcmp(l->label, load->label) == 0)
			return rate(l->done, load->done, look->seconds);
	}
	return -1;
}

/* ---- looks ----------------------------------------------------------- */

static void add_to_curve(struct look *look, double value)
{
	if (value < 0)
		return;
	if (look->n == GAUGE_COLUMNS_MAX)
		memmove(look->curve, look->curve + 1,
			(size_t)--look->n * sizeof(look->curve[0]));
	look->curve[look->n++] = value;
}

/* EXIT_DONE, or EXIT_FAILED and the library's sentence. */
static int take_look(struct look *look, tarn_store *store, int64_t *at)
{
	struct tarn_report *report;
	int64_t now = live_now();

	if (tarn_store_report(store, &report) < 0)
		return EXIT_FAILED;
	tarn_report_free(look->before);
	look->before = look->report;
	look->report = report;
	look->seconds = (double)(now - *at) / 1e9;
	*at = now;
	add_to_curve(look, look_rate(look));
	return channel_rows_next(&look->channels, store, NULL) < 0 ? EXIT_FAILED
								   : EXIT_DONE;
}

static void look_free(struct look *look)
{
	tarn_report_free(look->before);
	tarn_report_free(look->report);
	channel_rows_free(&look->channels);
}

/* ---- the verb -------------------------------------------------------- */

static void draw(const struct look *look, struct screen *screen)
{
	_cleanup_free_ char *text = NULL;

	screen_measure(screen);
	text = top_picture(look, screen->columns, screen->lines);
	screen_draw(screen, text);
}

/* Waits until the next look is due. False: there is none. */
static bool wait_drawing(
	const struct look *look, struct screen *screen, double seconds)
{
	int64_t end = live_now() + (int64_t)(seconds * 1e9);

	for (;;) {
		double left = (double)(end - live_now()) / 1e9;
		int what = live_wait(MAX(left, 0.0), screen->keys);

		if (what == LIVE_TIME)
			return true;
		if (what == LIVE_ENDED || what == 'q' || what == 'Q')
			return false;
		draw(look, screen);
		if (fflush(stdout) == EOF)
			return false;
	}
}

static int watch(tarn_store *store, double seconds, uint64_t count)
{
	struct look look = {.socket = tarn_store_socket(store)};
	struct screen screen;
	int64_t at = 0;
	int r;

	live_begin();
	screen_begin(&screen);
	if (!count && !screen.terminal)
		count = 1;
	for (uint64_t i = 1;; i++) {
		r = take_look(&look, store, &at);
		if (r != EXIT_DONE)
			break;
		if (i > 1 && !screen.terminal)
			putchar('\n');
		draw(&look, &screen);
		if (fflush(stdout) == EOF || i == count ||
			!wait_drawing(&look, &screen, seconds))
			break;
	}
	screen_end(&screen);
	look_free(&look);
	return r == EXIT_DONE ? r : print_error();
}

static int watch_json(tarn_store *store, double seconds, uint64_t count)
{
	struct look look = {.socket = tarn_store_socket(store)};
	int64_t at = 0;
	int r;

	live_begin();
	for (uint64_t i = 1;; i++) {
		r = take_look(&look, store, &at);
		r = r == EXIT_DONE ? json_print(top_json(&look))
				   : print_error();
		if (r != EXIT_DONE || fflush(stdout) == EOF || i == count ||
			!live_nap(seconds))
			break;
	}
	look_free(&look);
	return r;
}

int cmd_top(int argc, char **argv)
{
	_cleanup_store_ tarn_store *store = NULL;
	const char *socket = NULL, *every = NULL, *rounds = NULL;
	bool json = false;
	const struct option_row rows[] = {{.name = "count",
						  .letter = 'n',
						  .value = "N",
						  .ret_text = &rounds,
						  .help = "end after N frames"},
		{.name = "interval",
			.letter = 'i',
			.value = "SECONDS",
			.ret_text = &every,
			.help = "time between two frames, by default 1"},
		{.name = "json",
			.letter = 'j',
			.ret_flag = &json,
			.help = "print one JSON object a frame, on a line"},
		OPTION_SOCKET(&socket), {0}};
	const struct usage usage = {.verb = "top",
		.arguments = "[OPTION]...",
		.about = "Shows the daemon live: memory, what it reads, loads "
			 "under way, channels, pools\nand clients. 'q' or "
			 "Ctrl-C ends it. Where the output is not a terminal, "
			 "prints\none frame, or as many as --count says.",
		.options = rows};
	double seconds = INTERVAL;
	uint64_t count = 0;
	char **args;
	int n, r;

	r = options_parse(&usage, argc, argv, &n, &args);
	if (r == OPTIONS_DONE)
		r = option_seconds(&usage, "interval", every, &seconds);
	if (r == OPTIONS_DONE)
		r = option_count(&usage, "count", rounds, &count);
	if (r != OPTIONS_DONE)
		return r;
	/* An interval without a count goes on without end; neither: one. */
	if (json && !count && !every)
		count = 1;
	r = cli_store_need(socket, &store);
	if (r != EXIT_DONE)
		return r;
	return json ? watch_json(store, seconds, count)
		    : watch(store, seconds,
			      every && !count ? UINT64_MAX : count);
}
