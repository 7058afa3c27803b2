/* SPDX-License-Identifier: MIT */
/*
 * Bars and curves. Nothing that exists is rounded away, since a user may be
 * looking for the one slot of a thousand that is being read.
 */
#include "cli/gauge.h"

#include <string.h>

#include "base/checked.h"

/* How many of the columns each kind gets; each kind that exists gets one while
 * columns last, then the kind with the fewest columns for its number. */
static void share(
	int columns, const uint32_t counts[GAUGE_KINDS], int ret[GAUGE_KINDS])
{
	int left = columns;

	for (int k = 0; k < GAUGE_KINDS; k++) {
		ret[k] = counts[k] && left;
		left -= ret[k];
	}
	for (; left; left--) {
		int least = -1;

		for (int k = 0; k < GAUGE_KINDS; k++)
			/* counts[k] / ret[k] > counts[least] / ret[least] */
			if (ret[k] &&
				(least < 0 ||
					(uint64_t)counts[k] *
							(unsigned)ret[least] >
						(uint64_t)counts[least] *
							(unsigned)ret[k]))
				least = k;
		if (least < 0)
			return;
		ret[least]++;
	}
}

void gauge_slots(char *buf, int columns, const uint32_t counts[GAUGE_KINDS])
{
	int widths[GAUGE_KINDS];
	uint64_t slots = 0;
	int at = 0;

	columns = MIN(columns, GAUGE_COLUMNS_MAX);
	for (int k = 0; k < GAUGE_KINDS; k++)
		slots += counts[k];
	share((int)MIN(slots, (uint64_t)columns), counts, widths);
	for (int k = 0; k < GAUGE_KINDS; k++)
		for (int i = 0; i < widths[k]; i++)
			buf[at++] = GAUGE_LETTERS[k];
	memset(buf + at, ' ', (size_t)(columns - at));
	buf[columns] = '\0';
}

/* U+2588, a full block, and its seven parts: of its left side, an eighth is
 * 0x8f and a full block 0x88. */
static char *put_block(char *to, int eighths)
{
	*to++ = '\xe2';
	*to++ = '\x96';
	*to++ = (char)(0x90 - eighths);
	return to;
}

void gauge_bar(char *bar, char *rest, int columns, double share, bool utf8)
{
	int of, filled, left;

	columns = MIN(columns, GAUGE_COLUMNS_MAX);
	of = utf8 ? 8 : 1;
	filled = (int)(share * columns * of);
	/* A little is not nothing. */
	filled = MIN(share > 0 ? MAX(filled, 1) : 0, columns * of);
	left = columns - (filled + of - 1) / of;
	for (; filled > 0; filled -= of) {
		if (utf8)
			bar = put_block(bar, MIN(filled, 8));
		else
			*bar++ = '#';
	}
	*bar = '\0';
	for (; left > 0; left--) {
		/* U+00B7, a dot in the middle. */
		if (utf8)
			*rest++ = '\xc2';
		*rest++ = utf8 ? '\xb7' : '.';
	}
	*rest = '\0';
}

/* 0: nothing; 1 to 8. A little is not nothing. */
static int height(double value, double most)
{
	int h = value > 0 ? (int)(value / most * 8 + 0.5) : 0;

	return value > 0 ? MAX(MIN(h, 8), 1) : 0;
}

void gauge_curve(char *buf, int columns, const double *values, int n, bool utf8)
{
	static const char ascii[] = " ._-=+*%#";
	double most = 0;
	int first;

	columns = MIN(columns, GAUGE_COLUMNS_MAX);
	first = n - columns;
	for (int i = MAX(first, 0); i < n; i++)
		most = MAX(most, values[i]);
	for (int i = first; i < n; i++) {
		int h = i < 0 ? 0 : height(values[i], most);

		if (utf8 && h) {
			/* U+2581, an eighth, to U+2588, a full block. */
			*buf++ = '\xe2';
			*buf++ = '\x96';
			*buf++ = (char)(0x80 + h);
		} else {
			*buf++ = ascii[h];
		}
	}
	*buf = '\0';
}
