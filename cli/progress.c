/* SPDX-License-Identifier: MIT */
/*
 * A bar on a terminal for work that takes long. Work that is done within half a
 * second needs no bar, so none is drawn before that, and at the end the line is
 * as empty as it was.
 */
#include "cli/progress.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "cli/ending.h"
#include "cli/size.h"

#define QUIET_MS 500
#define REDRAW_MS 100 /* as often as an eye can follow */
#define COLUMNS_MAX 120
#define BAR_MIN 4 /* a shorter one shows nothing */

static int terminal_columns(void)
{
	struct winsize w;

	/* The last column is left free: some terminals wrap there. */
	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) < 0 || w.ws_col < 2)
		return 79;
	return MIN(w.ws_col - 1, COLUMNS_MAX);
}

static void put_bar(char *bar, int width, double share)
{
	int filled = (int)(share * width);

	for (int i = 0; i < width; i++)
		bar[i] = i < filled ? '=' : i == filled ? '>' : ' ';
	bar[width] = '\0';
}

/* Cuts whole figures off the end until the rest fits. */
static void cut_figures(char *figures, int columns)
{
	while ((int)strlen(figures) > columns) {
		char *last = memrchr(figures + 1, ' ', strlen(figures + 1));

		while (last && last > figures + 1 && last[-1] != ' ')
			last = memrchr(
				figures + 1, ' ', (size_t)(last - figures - 1));
		if (!last || last == figures + 1)
			figures[columns] = '\0';
		else
			last[-1] = '\0';
	}
}

void progress_line(
	char *buf, size_t size, int columns, const struct progress_figures *f)
{
	uint64_t shown = MIN(f->done, f->total);
	double left = f->rate > 0 ? (double)(f->total - shown) / f->rate : 0;
	char a[SIZE_TEXT_MAX], b[SIZE_TEXT_MAX];
	char figures[128], bar[COLUMNS_MAX + 1];
	int n, width;

	n = snprintf(figures, sizeof(figures), "%3d%%  %s of %s%s",
		(int)(f->share * 100), size_text((double)shown, a),
		size_text((double)f->total, b), f->what);
	if (f->rate > 0)
		n += snprintf(figures + n, sizeof(figures) - (size_t)n,
			"  %s/s", size_text(f->rate, a));
	/* A rest of days is no forecast, nor is the rest of one phase. */
	if (f->rate > 0 && left < 86400 && !*f->what)
		n += snprintf(figures + n, sizeof(figures) - (size_t)n,
			"  %d:%02d left", (int)left / 60, (int)left % 60);
	width = MIN(columns, COLUMNS_MAX) - n - 3;
	if (width < BAR_MIN) {
		cut_figures(figures, columns);
		snprintf(buf, size, "%s", figures);
		return;
	}
	put_bar(bar, width, f->share);
	snprintf(buf, size, "[%s] %s", bar, figures);
}

/* From the phase's first bytes on: the time before them would make the rate too
 * small for long. */
static double rate_now(struct progress_bar *p, int64_t now, uint64_t done)
{
	if (!p->first_ms && done) {
		p->first_ms = now;
		p->first_done = done;
	}
	if (!p->first_ms || now - p->first_ms < REDRAW_MS)
		return 0;
	return (double)(done - MIN(done, p->first_done)) * 1e3 /
	       (double)(now - p->first_ms);
}

/* ---- Ctrl-C -------------------------------------------------------- */

#define CLEAR "\r\x1b[K"

static volatile sig_atomic_t drawn; /* the one bar that there is */
static volatile sig_atomic_t tidy;  /* there is unfinished work to undo first */
static volatile sig_atomic_t ended; /* by this signal; 0: not yet */

/* The end is the one that it would have been, on an empty line. */
static void on_end(int signal)
{
	if (!ending_is_first(signal))
		return;
	if (drawn && write(STDERR_FILENO, CLEAR, strlen(CLEAR)) < 0)
		drawn = false;
	ended = signal;
	if (!tidy)
		ending_by(signal);
}

/* A signal that was ignored stays ignored. */
static void take(int signal)
{
	const struct sigaction new = {.sa_handler = on_end};
	struct sigaction old;

	if (sigaction(signal, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
		sigaction(signal, &new, NULL);
}

/* ---- a bar on stderr ----------------------------------------------- */

static void begin(struct progress_bar *progress, bool tidily)
{
	*progress = (struct progress_bar) {
		.terminal = isatty(STDERR_FILENO), .begun_ms = clock_ms()};
	tidy = tidily;
	if (!progress->terminal && !tidily)
		return;
	take(SIGINT);
	take(SIGTERM);
	if (tidily)
		take(SIGHUP);
}

void progress_begin(struct progress_bar *progress)
{
	begin(progress, false);
}

void progress_begin_tidily(struct progress_bar *progress)
{
	begin(progress, true);
}

/*
 * Where memory has to be taken first, that is the first half of the bar. Later
 * memory, of another shard, is no part of it, and what begins anew, because
 * the file has changed, shows when it is further than before: a bar that goes
 * back would be taken for a failure.
 */
static void advance(struct progress_bar *p, uint64_t done, uint64_t total)
{
	double share = total ? (double)MIN(done, total) / (double)total : 1;

	if (p->phase == TARN_LOAD_PHASE_MEMORY && p->has_read)
		return;
	if (p->phase == TARN_LOAD_PHASE_MEMORY)
		p->took_memory = true;
	else if (done)
		p->has_read = true;
	if (p->phase == TARN_LOAD_PHASE_MEMORY)
		share /= 2;
	else if (p->took_memory)
		share = (1 + share) / 2;
	p->share = MAX(p->share, share);
}

/* Each phase has its own rate. */
int progress_load_step(
	void *arg, enum tarn_load_phase phase, uint64_t done, uint64_t total)
{
	struct progress_bar *p = arg;

	if (phase != p->phase)
		p->first_ms = 0;
	p->phase = phase;
	return progress_step(arg, done, total);
}

int progress_step(void *arg, uint64_t done, uint64_t total)
{
	struct progress_bar *p = arg;
	int64_t now = clock_ms();
	char line[2 * COLUMNS_MAX];
	struct progress_figures figures = {
		.done = done,
		.total = total,
		.what = p->phase == TARN_LOAD_PHASE_MEMORY ? " of memory taken"
							   : "",
		.rate = rate_now(p, now, done),
	};

	if (ended)
		return 1;
	advance(p, done, total);
	figures.share = p->share;
	if (!p->terminal || now - p->begun_ms < QUIET_MS ||
		now - p->drawn_ms < REDRAW_MS)
		return 0;
	progress_line(line, sizeof(line), terminal_columns(), &figures);
	drawn = p->shown = true;
	fprintf(stderr, "\r%s\x1b[K", line);
	p->drawn_ms = now;
	return 0;
}

void progress_end(struct progress_bar *progress)
{
	if (progress->shown)
		fputs(CLEAR, stderr);
	drawn = progress->shown = false;
	tidy = false;
	if (ended)
		ending_by(ended);
}
