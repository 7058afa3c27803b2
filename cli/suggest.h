/* SPDX-License-Identifier: MIT */
/*
 * "Did you mean ...": suggests the names nearest to the one that was asked
 * for. The caller offers every name that exists, then prints the result.
 */
#pragma once

#include <stddef.h>

#define SUGGEST_MAX 3 /* more suggestions do not help */

struct suggest {
	const char *wanted;
	size_t n;
	char *names[SUGGEST_MAX]; /* the nearest first */
	size_t distances[SUGGEST_MAX];
};

void suggest_begin(struct suggest *suggest, const char *wanted);
void suggest_offer(struct suggest *suggest, const char *name);
/* The same, where a user would have to type something else: an option is found
 * by "name" and suggested as "--name". */
void suggest_offer_as(
	struct suggest *suggest, const char *name, const char *words);

/* "did you mean 'a', 'b'?", or otherwise (NULL: nothing) if there was none
 * near. Forgets everything. */
void suggest_print(struct suggest *suggest, const char *otherwise);
