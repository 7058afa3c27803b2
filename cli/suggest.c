/* SPDX-License-Identifier: MIT */
/*
 * Names near the one that was asked for.
 *
 * The distance is the number of letters to insert, remove, replace or swap with
 * the next one (Damerau's and Levenshtein's, restricted); more than a third of
 * the name is not a typing error. Nearest are names that begin with the given
 * one, or have it behind their last '/'.
 */
#include "cli/suggest.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "cli/message.h"

#define LENGTH_MAX 127 /* longer names are copied, not typed */
#define FAR SIZE_MAX

/* Row i of the table is the distances of a's first i letters from each of
 * b's beginnings; two rows back is what a swap needs. */
static size_t edit_distance(const char *a, size_t na, const char *b, size_t nb)
{
	size_t rows[3][LENGTH_MAX + 1];

	for (size_t j = 0; j <= nb; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= na; i++) {
		size_t *row = rows[i % 3], *last = rows[(i - 1) % 3];
		const size_t *before = rows[(i + 1) % 3];

		row[0] = i;
		for (size_t j = 1; j <= nb; j++) {
			size_t d = last[j - 1] + (a[i - 1] != b[j - 1]);

			d = MIN(d, MIN(last[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
				a[i - 2] == b[j - 1])
				d = MIN(d, before[j - 2] + 1);
			row[j] = d;
		}
	}
	return rows[na % 3][nb];
}

static size_t distance(const char *wanted, const char *name)
{
	size_t nw = strlen(wanted), nn = strlen(name);
	size_t limit = MAX(1, nw / 3), d;

	if (strcmp(name, wanted) == 0)
		return 0;
	if (nw && nn > nw && strcmp(name + nn - nw, wanted) == 0 &&
		name[nn - nw - 1] == '/')
		return 0;
	if (nw > 1 && strncmp(name, wanted, nw) == 0)
		return 0;
	if (nw > LENGTH_MAX || nn > LENGTH_MAX ||
		(nw > nn ? nw - nn : nn - nw) > limit)
		return FAR;
	d = edit_distance(wanted, nw, name, nn);
	return d <= limit && d < nw ? d : FAR;
}

void suggest_begin(struct suggest *suggest, const char *wanted)
{
	*suggest = (struct suggest) {.wanted = wanted};
}

/* Names come in no order, so equal distances go by the alphabet. */
static bool is_nearer(
	const struct suggest *suggest, size_t i, size_t d, const char *words)
{
	return d < suggest->distances[i] ||
	       (d == suggest->distances[i] &&
		       strcmp(words, suggest->names[i]) < 0);
}

void suggest_offer_as(
	struct suggest *suggest, const char *name, const char *words)
{
	size_t d = distance(suggest->wanted, name), at = suggest->n;

	if (d == FAR)
		return;
	while (at && is_nearer(suggest, at - 1, d, words))
		at--;
	if (at == SUGGEST_MAX)
		return;
	if (suggest->n == SUGGEST_MAX)
		free(suggest->names[--suggest->n]);
	for (size_t i = suggest->n; i > at; i--) {
		suggest->names[i] = suggest->names[i - 1];
		suggest->distances[i] = suggest->distances[i - 1];
	}
	suggest->names[at] = must(strdup(words));
	suggest->distances[at] = d;
	suggest->n++;
}

void suggest_offer(struct suggest *suggest, const char *name)
{
	suggest_offer_as(suggest, name, name);
}

/* Suggests the nearest only. */
static void keep_nearest(struct suggest *suggest)
{
	while (suggest->n &&
		suggest->distances[suggest->n - 1] > suggest->distances[0])
		free(suggest->names[--suggest->n]);
}

void suggest_print(struct suggest *suggest, const char *otherwise)
{
	keep_nearest(suggest);
	if (suggest->n == 1)
		print_hint("did you mean '%s'?", suggest->names[0]);
	else if (suggest->n == 2)
		print_hint("did you mean '%s' or '%s'?", suggest->names[0],
			suggest->names[1]);
	else if (suggest->n)
		print_hint("did you mean '%s', '%s' or '%s'?",
			suggest->names[0], suggest->names[1],
			suggest->names[2]);
	else if (otherwise)
		print_hint("%s", otherwise);
	while (suggest->n)
		free(suggest->names[--suggest->n]);
}
