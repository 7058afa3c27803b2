/* SPDX-License-Identifier: MIT */
/*
 * A terminal that a verb draws on as a whole. One write and one tcsetattr,
 * which a signal's handler may call, restore the terminal; so no end leaves the
 * terminal changed.
 */
#include "cli/screen.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/live.h"

#define COLUMNS 79 /* of output that is no terminal */

/* The other screen, without a cursor; and back. */
#define ENTER "\033[?1049h\033[?25l\033[H\033[J"
#define LEAVE "\033[?25h\033[?1049l"

static volatile sig_atomic_t entered, has_keys;
static struct termios before;

/* Async-signal-safe. */
static void leave(void)
{
	if (entered && write(STDOUT_FILENO, LEAVE, strlen(LEAVE)) < 0)
		entered = 0; /* a terminal that is gone needs nothing */
	if (has_keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &before);
	entered = has_keys = 0;
}

/* Keys arrive one by one and are not shown. Ctrl-C stays a signal; Ctrl-Z is
 * switched off, since a stopped process could not give the screen back. In the
 * background the terminal is not ours to change. */
static int take_keys(void)
{
	struct termios raw;

	if (!isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) != getpgrp() ||
		tcgetattr(STDIN_FILENO, &before) < 0)
		return -1;
	raw = before;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VSUSP] = _POSIX_VDISABLE;
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	has_keys = 1;
	return tcsetattr(STDIN_FILENO, TCSANOW, &raw) < 0 ? -1 : STDIN_FILENO;
}

static bool wants_colour(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return !(no && *no) && term && strcmp(term, "dumb") != 0;
}

void screen_begin(struct screen *screen)
{
	static char buffer[1 << 16];

	*screen =
		(struct screen) {.terminal = isatty(STDOUT_FILENO), .keys = -1};
	if (!screen->terminal)
		return;
	/* A picture that reaches the terminal in one piece does not flicker. */
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	live_on_end(leave);
	screen->colour = wants_colour();
	screen->keys = take_keys();
	entered = 1;
	fputs(ENTER, stdout);
}

void screen_end(struct screen *screen)
{
	if (!screen->terminal)
		return;
	fflush(stdout);
	leave();
}

void screen_measure(struct screen *screen)
{
	struct winsize w;

	screen->columns = COLUMNS;
	screen->lines = INT_MAX;
	if (!screen->terminal || ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0 ||
		w.ws_col < 2 || w.ws_row < 2)
		return;
	/* The last column is left free: some terminals wrap there. */
	screen->columns = w.ws_col - 1;
	screen->lines = w.ws_row;
}

static void put_mark(const struct screen *screen, char mark)
{
	static const char *const styles[] = {[1] = "\033[1m",
		[2] = "\033[2m",
		[3] = "\033[32m",
		[4] = "\033[33m",
		[5] = "\033[0m"};

	if (screen->colour)
		fputs(styles[(int)mark], stdout);
}

/* One character of s: its bytes, and its columns. */
static size_t character(const char *s, int *ret_columns)
{
	mbstate_t state = {0};
	wchar_t c;
	size_t n = mbrtowc(&c, s, MB_CUR_MAX, &state);

	*ret_columns = 1;
	if (n == 0 || n > MB_CUR_MAX)
		return 1;
	*ret_columns = wcwidth(c) > 0 ? wcwidth(c) : 0;
	return n;
}

/* Up to a newline or the end, which is returned. */
static const char *put_line(const struct screen *screen, const char *s)
{
	int left = screen->terminal ? screen->columns : INT_MAX, columns = 0;
	size_t n = 0;

	for (; *s && *s != '\n'; s += n) {
		if (*s < MARK_BOLD[0] || *s > MARK_PLAIN[0]) {
			n = character(s, &columns);
			left -= columns;
			if (left >= 0)
				fwrite(s, 1, n, stdout);
		} else {
			n = 1;
			put_mark(screen, *s);
		}
	}
	return s;
}

void screen_draw(const struct screen *screen, const char *text)
{
	int lines = 0;

	if (screen->terminal)
		fputs("\033[H", stdout);
	while (*text && lines < screen->lines) {
		/* The last line ends without a newline, which would scroll. */
		if (lines && screen->terminal)
			putchar('\n');
		text = put_line(screen, text);
		fputs(screen->terminal ? "\033[K" : "\n", stdout);
		text += *text == '\n';
		lines++;
	}
	if (screen->terminal)
		fputs("\033[J", stdout);
}
