/* SPDX-License-Identifier: MIT */
/*
 * Names near the one that was asked for: "did you mean". Offer every name
 * that there is, then say what was found.
 */
#pragma once

#include <stddef.h>

#define NEAR_MAX 3 /* more are no help */

struct near {
	const char *wanted;
	size_t n;
	char *names[NEAR_MAX]; /* the nearest first */
	size_t distances[NEAR_MAX];
};

void near_begin(struct near *near, const char *wanted);
void near_offer(struct near *near, const char *name);

/* "did you mean 'a', 'b'?", or otherwise (NULL: nothing) if there was none
 * near. Forgets everything. */
void near_say(struct near *near, const char *otherwise);
