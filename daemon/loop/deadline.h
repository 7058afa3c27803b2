/* SPDX-License-Identifier: MIT */
/*
 * Deadlines: one heap, in which each deadline lies in the structure that owns
 * it.
 *
 * A pairing heap: a deadline is set and cancelled without any memory, so
 * neither can fail; in O(1) and O(log n), amortised.
 */
#pragma once

#include <stdint.h>

/* All zeroes: it is not set. */
struct deadline {
	uint64_t at; /* CLOCK_MONOTONIC ns; 0: it is not set */
	/* Called once, when it is not set any more: it may set it anew, or
	 * free its owner. NULL: that the waiting ends is all that is wanted. */
	void (*fn)(void *arg);
	void *arg;
	/* The heap's own. */
	struct deadline *child, *next;
	struct deadline *before; /* its parent, if it is the first child */
};

struct deadlines {
	struct deadline *first;
};

/* Sets it to that time, or moves it there; 0 cancels it. */
void deadline_set(
	struct deadlines *all, struct deadline *deadline, uint64_t at);
/* The same, and what is called then. */
void deadline_call(struct deadlines *all, struct deadline *deadline,
	uint64_t at, void (*fn)(void *arg), void *arg);
/* The same as deadline_set(), unless it is set to an earlier time. */
void deadline_set_by(
	struct deadlines *all, struct deadline *deadline, uint64_t at);
/* The earliest; UINT64_MAX: none is set. */
uint64_t deadlines_next(const struct deadlines *all);
/* Calls all that are due at now, in their order, also those that the calls set
 * to a time that is not after it. */
void deadlines_run(struct deadlines *all, uint64_t now);
