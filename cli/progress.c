/* SPDX-License-Identifier: MIT */
/*
 * A bar on a terminal for what takes long. The idea: whoever is served within
 * half a second wants to see nothing, so nothing is drawn before that, and in
 * the end the line is as empty as it was.
 */
#include "cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "cli/text.h"

#define QUIET_MS 500
#define REDRAW_MS 100 /* as often as an eye can follow */
#define COLUMNS_MAX 120
#define BAR_MIN 4 /* a shorter one says nothing */

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

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

void progress_line(char *buf, size_t size, int columns, uint64_t done,
	uint64_t total, double seconds)
{
	double share = total ? (double)MIN(done, total) / (double)total : 1;
	double rate = seconds > 0 ? (double)done / seconds : 0;
	double eta = rate > 0 ? (double)(total - MIN(done, total)) / rate : 0;
	char a[TEXT_BYTES_MAX], b[TEXT_BYTES_MAX], c[TEXT_BYTES_MAX];
	char figures[128], bar[COLUMNS_MAX + 1];
	int n, width;

	n = snprintf(figures, sizeof(figures), "%3d%%  %s of %s  %s/s",
		(int)(share * 100), text_bytes((double)done, a),
		text_bytes((double)total, b), text_bytes(rate, c));
	/* A rest of hours is no forecast. */
	if (rate > 0 && eta < 86400)
		n += snprintf(figures + n, sizeof(figures) - (size_t)n,
			"  %d:%02d left", (int)eta / 60, (int)eta % 60);
	width = MIN(columns, COLUMNS_MAX) - n - 3;
	if (width < BAR_MIN) {
		snprintf(buf, size, "%.*s", columns, figures);
		return;
	}
	put_bar(bar, width, share);
	snprintf(buf, size, "[%s] %s", bar, figures);
}

void progress_begin(struct progress *progress)
{
	*progress = (struct progress) {
		.terminal = isatty(STDERR_FILENO), .begun_ms = now_ms()};
}

int progress_step(void *arg, uint64_t done, uint64_t total)
{
	struct progress *p = arg;
	int64_t now = now_ms();
	char line[2 * COLUMNS_MAX];

	if (!p->terminal || now - p->begun_ms < QUIET_MS ||
		now - p->drawn_ms < REDRAW_MS)
		return 0;
	progress_line(line, sizeof(line), terminal_columns(), done, total,
		(double)(now - p->begun_ms) / 1e3);
	fprintf(stderr, "\r%s\x1b[K", line);
	p->drawn_ms = now;
	p->shown = true;
	return 0;
}

void progress_end(struct progress *progress)
{
	if (progress->shown)
		fputs("\r\x1b[K", stderr);
	progress->shown = false;
}
