/* SPDX-License-Identifier: MIT */
/*
 * tarn channel top: a row for each channel, drawn again and again over what was
 * there, so that it stands still and only figures move.
 */
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/checked.h"
#include "cli/channel_rows.h"
#include "cli/cli.h"
#include "cli/draw.h"
#include "cli/gauge.h"
#include "cli/live.h"
#include "cli/options.h"
#include "cli/say.h"
#include "cli/store.h"
#include "cli/text.h"

#define EVERY 0.5       /* seconds: as fast as figures can be read */
#define COLUMNS 79      /* of a terminal that is none */
#define ROWS_SHOWN 1000 /* where it has no height */
#define NAME_MIN 18
#define FIGURES 61 /* columns of a row behind its name */
#define BAR 14
#define CURVE_MIN 8

/* ---- the picture --------------------------------------------------- */

/* Of a terminal or of none. The last column is left free: some wrap there. */
struct screen {
	bool terminal;
	int columns, lines;
	int name, curve; /* columns of the row's parts */
};

static void measure(const struct rows *rows, struct screen *screen)
{
	struct winsize w;
	int longest = NAME_MIN, spare;

	screen->columns = COLUMNS;
	screen->lines = ROWS_SHOWN;
	if (screen->terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 &&
		w.ws_col > 1 && w.ws_row > 2) {
		screen->columns = w.ws_col - 1;
		screen->lines = w.ws_row - 1;
	}
	for (size_t i = 0; i < rows->n; i++)
		longest = MAX(longest, text_put(NULL, rows->at[i]->name));
	spare = MAX(screen->columns - NAME_MIN - FIGURES, 0);
	screen->name = MIN(longest, NAME_MIN + spare);
	spare -= screen->name - NAME_MIN;
	screen->curve = MIN(CURVE_MIN + spare, GAUGE_COLUMNS_MAX);
}

/* The end of a name says more than its beginning. */
static void put_name(const char *name, int columns)
{
	while (text_put(NULL, name) > columns)
		do
			name++;
		while ((*name & 0xc0) == 0x80);
	text_put_padded(stdout, name, columns);
}

static void end_line(const struct screen *screen)
{
	fputs(screen->terminal ? "\033[K\n" : "\n", stdout);
}

static void print_rate(const struct row *row)
{
	char bytes[TEXT_BYTES_MAX], items[32];

	snprintf(items, sizeof(items),
		row->rates.published < 1e6 ? "%.1f" : "%.2e",
		row->rates.published);
	printf(" %8s %11s", row->fresh ? "-" : items,
		row->fresh ? "-" : text_bytes(row->rates.bytes, bytes));
}

static void print_row(const struct row *row, const struct screen *screen)
{
	const struct tarn_channel_info *info = &row->last.info;
	char bar[GAUGE_COLUMNS_MAX + 1], curve[3 * GAUGE_COLUMNS_MAX + 1];
	uint32_t counts[GAUGE_KINDS];

	channel_counts(info, counts);
	gauge_slots(bar, BAR, counts);
	gauge_curve(curve, screen->curve, row->curve, row->n, draw_utf8());
	put_name(row->name, screen->name);
	printf(" [%s] %5u", bar, info->ready);
	print_rate(row);
	printf(" %3u %3u ", info->producers, info->consumers);
	fputs(info->closed ? "closed" : curve, stdout);
	end_line(screen);
}

static void print_head(const struct screen *screen)
{
	put_name("CHANNEL", screen->name);
	printf(" %-*s READY  ITEMS/S     BYTES/S  IN OUT RATE", BAR + 2,
		"READ " GAUGE_LETTERS " FREE");
	end_line(screen);
}

static void draw(const struct rows *rows, struct screen *screen)
{
	size_t shown;

	measure(rows, screen);
	shown = MIN(rows->n, (size_t)MAX(screen->lines - 2, 0));
	if (screen->terminal)
		fputs("\033[H", stdout);
	print_head(screen);
	for (size_t i = 0; i < shown; i++)
		print_row(rows->at[i], screen);
	if (!rows->n)
		fputs("no channel", stdout);
	else if (shown < rows->n)
		printf("... and %zu more", rows->n - shown);
	if (!rows->n || shown < rows->n || !screen->terminal)
		end_line(screen);
	if (screen->terminal)
		fputs("\033[J", stdout);
}

/* ---- the verb ------------------------------------------------------ */

static int watch(
	tarn_store *store, const char *prefix, double seconds, uint64_t count)
{
	struct screen screen = {.terminal = isatty(STDOUT_FILENO)};
	struct rows rows = {0};
	int status = EXIT_DONE;

	live_begin();
	if (screen.terminal)
		fputs("\033[H\033[J", stdout);
	for (uint64_t i = 1;; i++) {
		if (channel_ask(store) != EXIT_DONE ||
			rows_next(&rows, store, prefix) < 0) {
			status = EXIT_FAILED;
			break;
		}
		draw(&rows, &screen);
		if (fflush(stdout) == EOF || i == count || !live_nap(seconds))
			break;
	}
	rows_free(&rows);
	return status;
}

/* A picture that reaches the terminal in one piece does not flicker. */
static void buffer_output(void)
{
	static char buffer[1 << 16];

	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
}

int channel_top(int argc, char **argv)
{
	_cleanup_store_ tarn_store *store = NULL;
	const char *socket = NULL, *every = NULL, *rounds = NULL;
	const struct option_row rows[] = {{.name = "count",
						  .letter = 'n',
						  .value = "N",
						  .ret_text = &rounds,
						  .help = "end after N rounds"},
		{.name = "every",
			.letter = 'e',
			.value = "SECONDS",
			.ret_text = &every,
			.help = "a round every so many seconds, 0.5 if not "
				"said"},
		OPTION_SOCKET(&socket), OPTION_POOL, {0}};
	const struct usage usage = {.verb = "channel top",
		.arguments = "[OPTION]... [PREFIX]",
		.about = "Depth and rate of the channels, or of those whose "
			 "names begin with PREFIX, until\nCtrl-C: slots being "
			 "read (=), ready (#), being filled (+) and free (.), "
			 "items\nready, items and bytes published a second, "
			 "producers in, consumers out, and a\ncurve of the "
			 "rate. In lines where the output is no terminal.",
		.options = rows,
		.args_max = 1};
	double seconds = EVERY;
	uint64_t count = 0;
	char **args;
	int n, r;

	r = options_parse(&usage, argc, argv, &n, &args);
	if (r == OPTIONS_DONE)
		r = option_seconds(&usage, "every", every, &seconds);
	if (r == OPTIONS_DONE)
		r = option_count(&usage, "count", rounds, &count);
	if (r != OPTIONS_DONE)
		return r;
	r = cli_store_need(socket, &store);
	if (r != EXIT_DONE)
		return r;
	buffer_output();
	return watch(store, args[0], seconds, count);
}
