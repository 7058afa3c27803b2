/* SPDX-License-Identifier: MIT */
/* Figures as pictures of one line: a bar, a bar of slots, a curve of a rate. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GAUGE_COLUMNS_MAX 64

/* The states of slots, in the order in which a bar shows them. */
enum { GAUGE_READING, GAUGE_READY, GAUGE_FILLING, GAUGE_FREE, GAUGE_KINDS };

#define GAUGE_LETTERS "=#+."

/*
 * A letter for each slot, "==##+...", if no more than columns are needed, and
 * else its share of them; what there is has at least one column while there
 * are some. Spaces up to columns. buf has GAUGE_COLUMNS_MAX + 1 bytes.
 */
void gauge_slots(char *buf, int columns, const uint32_t counts[GAUGE_KINDS]);

/*
 * A bar: share, 0 to 1, of columns, and the rest of them; with blocks in
 * Unicode, to an eighth of a column, or else in ASCII. Each buffer has
 * 3 * GAUGE_COLUMNS_MAX + 1 bytes.
 */
void gauge_bar(char *bar, char *rest, int columns, double share, bool utf8);

/*
 * The last columns of n values, the newest at the right, each as high as its
 * share of the largest of them; spaces where there are fewer. With blocks in
 * Unicode, or else in ASCII. buf has 3 * GAUGE_COLUMNS_MAX + 1 bytes.
 */
void gauge_curve(
	char *buf, int columns, const double *values, int n, bool utf8);
