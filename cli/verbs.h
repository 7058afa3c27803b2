/* SPDX-License-Identifier: MIT */
/*
 * The verbs of the command, a row of a table each; a verb such as "channel"
 * has a table of verbs of its own.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

struct verb {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
	const struct verb *verbs; /* its own, "tarn channel ls"; NULL: none */
	/* It stops or removes something, so it is never suggested: a user who
	 * mistyped another verb may run what the message suggests. */
	bool destroys;
};

/* The verbs of tarn: main.c. */
extern const struct verb cli_verbs[];

/* The row of that name; NULL: there is none. A table ends with a row of
 * zeroes. */
const struct verb *verbs_find(const struct verb *verbs, const char *name);

/* Writes a line for each verb, indented. */
void verbs_list(FILE *f, const struct verb *verbs);

/* Says that there is no such verb, which one was probably meant, and that
 * "tarn --help" (with of: "tarn OF --help") lists them. Returns EXIT_USAGE. */
int verbs_unknown(const struct verb *verbs, const char *of, const char *name);

/* Runs a verb that has verbs of its own, by its first argument: "tarn OF VERB".
 * about: lines of its help, above the list of them. */
int verbs_run(const struct verb *verbs, const char *of, const char *about,
	int argc, char **argv);
