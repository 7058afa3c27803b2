/* SPDX-License-Identifier: MIT */
/*
 * The bar of a load: whatever the numbers and however narrow the terminal, it
 * is one line that fits, and its numbers are right, even for a file without
 * bytes.
 */
#include "cli/progress.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checked.h"
#include "tests/kit/tap.h"

#define GIB (1ull << 30)

/* A bar of work that has one phase. */
static void draw(char *buf, size_t size, int columns, const char *what,
	uint64_t done, uint64_t total, double rate)
{
	const struct progress_figures figures = {
		.done = done,
		.total = total,
		.what = what,
		.share = total ? (double)MIN(done, total) / (double)total : 1,
		.rate = rate,
	};

	progress_line(buf, size, columns, &figures);
}

static void test_text(void)
{
	char line[300];

	draw(line, sizeof(line), 70, "", GIB / 2, 2 * GIB, GIB / 2);

	is_str("[===>          ]  25%  512.00 MiB of 2.00 GiB  "
	       "512.00 MiB/s  0:03 left" +
			0,
		line, "a bar shows a quarter with its rate and its forecast");
}

static void test_widths(void)
{
	const uint64_t totals[] = {0, 1, 4096, GIB, UINT64_MAX};
	const double rates[] = {0, 1e-9, 1e9, 1e30};
	const char *what;
	char line[300];
	size_t longest = 0;
	int wrong = 0, lines = 0;

	for (int columns = 1; columns <= 200; columns++)
		for (size_t t = 0; t < ARRAY_SIZE(totals); t++)
			for (int part = 0; part <= 5; part++)
				for (size_t s = 0; s < ARRAY_SIZE(rates); s++) {
					uint64_t done =
						totals[t] / 4 * (uint64_t)part;

					what = part % 2 ? " of memory taken"
							: "";
					draw(line, sizeof(line), columns, what,
						done, totals[t], rates[s]);
					longest = MAX(longest, strlen(line));
					wrong += strlen(line) > (size_t)columns;
					lines++;
				}
	is_int(0, wrong, "%d bars of all widths fit on one line", lines);
	is_int(120, (int64_t)longest, "a bar is no wider than 120 columns");
}

static void test_edges(void)
{
	char line[300];

	draw(line, sizeof(line), 79, "", 0, 0, 0);
	has_str("100%", line, "a bar of a file without bytes is full");
	draw(line, sizeof(line), 79, "", 0, GIB, 0);
	has_str("  0%", line, "a bar begins at 0%%");
	ok(!strstr(line, "left"), "a bar without progress has no forecast");
	draw(line, sizeof(line), 79, "", 3 * GIB, GIB, GIB);
	has_str("100%", line, "a bar of more than all bytes shows 100%%");
	has_str("0:00 left", line, "a full bar has no time left");
	draw(line, sizeof(line), 79, "", GIB, 101 * GIB, GIB);
	has_str("1:40 left", line, "a forecast has minutes and seconds");
}

/* Whole figures only: half of a number is another number. */
static void test_narrow(void)
{
	char line[300];

	draw(line, sizeof(line), 48, "", GIB / 2, 2 * GIB, GIB / 2);
	is_str(" 25%  512.00 MiB of 2.00 GiB  512.00 MiB/s", line,
		"a bar of 48 columns has no forecast");
	draw(line, sizeof(line), 41, "", GIB / 2, 2 * GIB, GIB / 2);
	is_str(" 25%  512.00 MiB of 2.00 GiB", line,
		"a bar of 41 columns has no rate");
	draw(line, sizeof(line), 10, "", GIB / 2, 2 * GIB, GIB / 2);
	is_str(" 25%", line, "a bar of 10 columns has no bytes");
}

static void test_no_terminal(void)
{
	struct progress_bar p;

	progress_begin(&p);
	p.begun_ms -= 10000;
	p.terminal = false;
	is_int(0, progress_step(&p, 1, 2),
		"a progress callback lets the load continue");
	ok(!p.shown, "no bar is drawn where there is no terminal");
	progress_end(&p);
}

/* A load that is interrupted while its bar is on the terminal. */
static void interrupted(int terminal)
{
	struct progress_bar p;

	signal(SIGINT, SIG_DFL);
	dup2(terminal, STDERR_FILENO);
	progress_begin(&p);
	p.begun_ms -= 10000;
	progress_step(&p, 1, 2);
	raise(SIGINT);
	_exit(0);
}

/* What came before the mark; a terminal hands on in pieces, when it likes. */
static void read_until_mark(int end, char *ret, size_t size)
{
	size_t n = 0;
	ssize_t r;

	while (n < size - 1 && !strchr(ret, '!')) {
		r = read(end, ret + n, size - 1 - n);
		if (r <= 0)
			break;
		n += (size_t)r;
		ret[n] = 0;
	}
	ret[strcspn(ret, "!")] = 0;
}

static void test_interrupt(void)
{
	int end = posix_openpt(O_RDWR | O_NOCTTY), terminal, status = 0;
	const char *last = NULL;
	char seen[512] = "";
	pid_t pid;

	if (end < 0 || grantpt(end) < 0 || unlockpt(end) < 0 ||
		(terminal = open(ptsname(end), O_RDWR | O_NOCTTY)) < 0) {
		skip(4, "there is no pseudo terminal");
		return;
	}
	pid = fork();
	if (pid == 0)
		interrupted(terminal);
	waitpid(pid, &status, 0);
	ok(write(terminal, "!", 1) == 1, "the text after the bar is written");
	read_until_mark(end, seen, sizeof(seen));
	ok(strstr(seen, " 50%") != NULL, "a bar of 50%% was drawn");
	last = strrchr(seen, '\r');
	is_str("\r\x1b[K", last ? last : seen, "Ctrl-C clears the bar");
	is_int(SIGINT, WIFSIGNALED(status) ? WTERMSIG(status) : 0,
		"Ctrl-C ends the command by that signal");
	close(terminal);
	close(end);
}

struct look {
	enum tarn_load_phase phase;
	int percent; /* of the phase */
	int bar;     /* of all, in percent */
};

static void look(const char *what, const struct look *looks)
{
	struct progress_bar p;
	int seen = 0;

	progress_begin(&p);
	p.terminal = false;
	for (; looks->phase; looks++) {
		progress_load_step(&p, looks->phase,
			(uint64_t)looks->percent << 20, 100 << 20);
		is_int(looks->bar, (int)(p.share * 100 + .5),
			"%s: the bar when %d%% of phase %d is done", what,
			looks->percent, (int)looks->phase);
		ok(p.share * 100 + .5 >= seen, "%s: the bar never goes back",
			what);
		seen = (int)(p.share * 100);
	}
	progress_end(&p);
}

static void test_phases(void)
{
	const enum tarn_load_phase memory = TARN_LOAD_PHASE_MEMORY,
				   reads = TARN_LOAD_PHASE_READ;

	look("a load with memory and bytes",
		(struct look[]) {{reads, 0, 0}, {memory, 10, 5},
			{memory, 100, 50}, {reads, 0, 50}, {reads, 40, 70},
			{reads, 100, 100}, {0}});
	look("a load of bytes only",
		(struct look[]) {{reads, 0, 0}, {reads, 30, 30},
			{reads, 100, 100}, {0}});
	look("a load of shards",
		(struct look[]) {{memory, 100, 50}, {reads, 50, 75},
			{memory, 0, 75}, {memory, 100, 75}, {reads, 50, 75},
			{reads, 90, 95}, {0}});
	look("a load of shards whose later one takes memory",
		(struct look[]) {{reads, 50, 50}, {memory, 80, 50},
			{reads, 60, 60}, {0}});
	look("a load of a file that changed and is read again",
		(struct look[]) {{memory, 100, 50}, {reads, 60, 80},
			{memory, 20, 80}, {reads, 10, 80}, {reads, 80, 90},
			{0}});
}

int main(void)
{
	test_text();
	test_phases();
	test_widths();
	test_edges();
	test_narrow();
	test_no_terminal();
	test_interrupt();
	return done(64);
}
