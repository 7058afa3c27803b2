/* SPDX-License-Identifier: MIT */
/*
 * Names near the one that was asked for.
 *
 * The idea: the distance is the number of letters to insert, remove, replace
 * or swap with the next one (Damerau's and Levenshtein's, restricted); a third
 * of the name is as many as a typing error can be. Nearest are names of which
 * the beginning, or the part behind a '/', is what was asked for.
 */
#include "cli/near.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "cli/say.h"

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

void near_begin(struct near *near, const char *wanted)
{
	*near = (struct near) {.wanted = wanted};
}

/* Equal distances are told apart by the alphabet: names come in no order. */
static bool is_nearer(
	const struct near *near, size_t i, size_t d, const char *name)
{
	return d < near->distances[i] ||
	       (d == near->distances[i] && strcmp(name, near->names[i]) < 0);
}

void near_offer(struct near *near, const char *name)
{
	size_t d = distance(near->wanted, name), at = near->n;

	if (d == FAR)
		return;
	while (at && is_nearer(near, at - 1, d, name))
		at--;
	if (at == NEAR_MAX)
		return;
	if (near->n == NEAR_MAX)
		free(near->names[--near->n]);
	for (size_t i = near->n; i > at; i--) {
		near->names[i] = near->names[i - 1];
		near->distances[i] = near->distances[i - 1];
	}
	near->names[at] = must(strdup(name));
	near->distances[at] = d;
	near->n++;
}

/* Where one is nearer than the others, it is the one. */
static void keep_nearest(struct near *near)
{
	while (near->n && near->distances[near->n - 1] > near->distances[0])
		free(near->names[--near->n]);
}

void near_say(struct near *near, const char *otherwise)
{
	keep_nearest(near);
	if (near->n == 1)
		say_hint("did you mean '%s'?", near->names[0]);
	else if (near->n == 2)
		say_hint("did you mean '%s' or '%s'?", near->names[0],
			near->names[1]);
	else if (near->n)
		say_hint("did you mean '%s', '%s' or '%s'?", near->names[0],
			near->names[1], near->names[2]);
	else if (otherwise)
		say_hint("%s", otherwise);
	while (near->n)
		free(near->names[--near->n]);
}
