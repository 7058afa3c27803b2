/* SPDX-License-Identifier: MIT */
/*
 * tarn channel top: a row for each channel, drawn again and again over what was
 * there, so that it stands still and only figures move.
 */
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/checked.h"
#include "cli/channel_table.h"
#include "cli/cli.h"
#include "cli/live.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/store.h"

#define EVERY 0.5       /* seconds: as fast as figures can be read */
#define COLUMNS 79      /* of a terminal that is none */
#define ROWS_SHOWN 1000 /* where it has no height */

/* ---- the picture --------------------------------------------------- */

/* Of a terminal or of none. The last column is left free: some wrap there. */
struct screen {
	bool terminal;
	int columns, lines;
};

static void measure(struct screen *screen)
{
	struct winsize w;

	screen->columns = COLUMNS;
	screen->lines = ROWS_SHOWN;
	if (screen->terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 &&
		w.ws_col > 1 && w.ws_row > 2) {
		screen->columns = w.ws_col - 1;
		screen->lines = w.ws_row - 1;
	}
}

static void end_line(const struct screen *screen)
{
	fputs(screen->terminal ? "\033[K\n" : "\n", stdout);
}

static void draw(const struct channel_rows *rows, struct screen *screen)
{
	struct channel_table table;
	size_t shown;

	measure(screen);
	channel_table_fit(&table, rows, stdout, screen->columns);
	shown = MIN(rows->n, (size_t)MAX(screen->lines - 2, 0));
	if (screen->terminal)
		fputs("\033[H", stdout);
	channel_table_head(&table);
	end_line(screen);
	for (size_t i = 0; i < shown; i++) {
		channel_table_row(&table, rows->at[i]);
		end_line(screen);
	}
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
	struct channel_rows rows = {0};
	int status = EXIT_DONE;

	live_begin();
	if (screen.terminal)
		fputs("\033[H\033[J", stdout);
	for (uint64_t i = 1;; i++) {
		if (channel_ask(store) != EXIT_DONE ||
			channel_rows_next(&rows, store, prefix) < 0) {
			status = EXIT_FAILED;
			break;
		}
		draw(&rows, &screen);
		if (fflush(stdout) == EOF || i == count || !live_nap(seconds))
			break;
	}
	channel_rows_free(&rows);
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
			.help = "seconds between two rounds, 0.5 by default"},
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
