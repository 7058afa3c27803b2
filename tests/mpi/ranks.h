/* SPDX-License-Identifier: MIT */
/* What programs share that mpirun starts: their ranks judge together, and rank 0
 * says it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

extern int rank, ranks;

void ranks_begin(int *argc, char ***argv);
/* As done(n), on rank 0; the exit status. */
int ranks_end(int n);

/* Passed on all ranks. */
void all_ok(bool passed, const char *what, ...)
	__attribute__((format(printf, 2, 3)));

/* The result of a call that must fail: r is -err on all ranks, and the sentence
 * is the same and has the part. */
void all_fail(int err, const char *part, int r, const char *what, ...)
	__attribute__((format(printf, 4, 5)));

/* A call on the way to what is asserted: if it fails, all ranks are ended. */
#define must(call) ranks_must((call), #call)
int ranks_must(int r, const char *call);
