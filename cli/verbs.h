/* SPDX-License-Identifier: MIT */
/*
 * Words that stand for something to do, a row of a table each: the verbs of
 * the command, and those of a verb that has some of its own.
 */
#pragma once

#include <stdio.h>

struct verb {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
};

/* The row of that name; NULL: there is none. The table ends with a row of
 * zeroes. */
const struct verb *verbs_find(const struct verb *verbs, const char *name);

/* A line each, indented. */
void verbs_list(FILE *f, const struct verb *verbs);

/* Says that there is no such verb, which was meant, and that "tarn --help", or
 * with of "tarn OF --help", lists them. Returns EXIT_USAGE. */
int verbs_unknown(const struct verb *verbs, const char *of, const char *name);
