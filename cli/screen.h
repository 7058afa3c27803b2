/* SPDX-License-Identifier: MIT */
/*
 * A terminal that a verb draws on as a whole: its size, its keys, and the
 * screen that was there before, which comes back at the end.
 *
 * Text is drawn with marks for its style, each one byte and no column. Names
 * cannot forge them: text_put() escapes control characters.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define MARK_BOLD "\001"
#define MARK_DIM "\002"
#define MARK_GREEN "\003"
#define MARK_YELLOW "\004"
#define MARK_PLAIN "\005" /* ends each of them */

struct screen {
	bool terminal; /* else lines are printed one below the other */
	bool colour;   /* NO_COLOR is not set, and TERM is not dumb */
	int keys;      /* descriptor of the keyboard, or -1 */
	int columns, lines;
};

/* Takes the terminal if stdout is one; else nothing. */
void screen_begin(struct screen *screen);
/* Gives it back. May be called twice. */
void screen_end(struct screen *screen);

/* Asks for the size anew. Without a terminal: 79 columns, lines without end. */
void screen_measure(struct screen *screen);

/* Draws text, line by line: over what was there and cut to the screen, or
 * appended. Does not flush. */
void screen_draw(const struct screen *screen, const char *text);
