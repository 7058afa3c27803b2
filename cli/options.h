/* SPDX-License-Identifier: MIT */
/*
 * The command line of a verb. One table lists its options; parsing and the text
 * of --help are both made from it, so that they agree.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The values of an option that may be repeated. Begins as zeroes. */
struct option_list {
	const char **at;
	size_t n;
};

void option_list_free(struct option_list *list);
#define _cleanup_list_ __attribute__((__cleanup__(option_list_free)))

/* One option; the table ends with a row without a name. */
struct option_row {
	const char *name;      /* "json" */
	char letter;           /* 'j' */
	const char *value;     /* what it takes, "PREFIX"; NULL: nothing */
	const char *help;      /* may have several lines */
	bool *ret_flag;        /* set where it takes nothing */
	const char **ret_text; /* what it was given last */
	struct option_list *ret_list; /* instead: all that it was given */
};

struct usage {
	const char *verb;
	const char *arguments; /* "FILE|NAME"; alternatives on lines */
	const char *about;     /* lines of at most 80 columns */
	const struct option_row *options;
	int args_min, args_max; /* without options; -1: any number */
};

#define OPTION_JSON(flag)                                                      \
	{                                                                      \
		.name = "json", .letter = 'j', .ret_flag = (flag),             \
		.help = "print one JSON object"                                \
	}

#define OPTION_SOCKET(text)                                                    \
	{                                                                      \
		.name = "socket", .letter = 'S', .value = "PATH",              \
		.ret_text = (text),                                            \
		.help = "ask the daemon of that socket, not the usual one"     \
	}

#define OPTION_POOL                                                            \
	{                                                                      \
		.name = "pool", .letter = 'P', .value = "NAME",                \
		.ret_text = &cli_pool,                                         \
		.help = "in the pool of that name, which users share"          \
	}

#define OPTION_NODE(text, words)                                               \
	{                                                                      \
		.name = "node", .letter = 'N', .value = "N",                   \
		.ret_text = (text), .help = (words)                            \
	}

enum { OPTIONS_DONE = -1 };

/*
 * Parses argv, of which argv[0] is the verb, and leaves what is no option:
 * *ret_args[0] to [*ret_n - 1], NULL at the end. OPTIONS_DONE, or the exit
 * status if there is nothing else to do: help was asked for, or the line makes
 * no sense.
 */
int options_parse(const struct usage *usage, int argc, char **argv, int *ret_n,
	char ***ret_args);

/* From here on options_parse does nothing but tell what it would parse, and
 * returns EXIT_DONE. */
void options_observe(
	void (*fn)(void *arg, const struct usage *usage), void *arg);

/* Tells what is wrong with the command line. Returns EXIT_USAGE. */
int usage_failed(const struct usage *usage, const char *fmt, ...)
	__attribute__((__format__(printf, 2, 3)));

/* Parses the value of the option of that name as a number above 0; as the
 * seconds between two rounds, 0.1 to a day; that of --node as the number of a
 * NUMA node. Without a text *ret stays. OPTIONS_DONE, or the exit status after
 * an error message. */
int option_count(const struct usage *usage, const char *name, const char *text,
	uint64_t *ret);
int option_seconds(const struct usage *usage, const char *name,
	const char *text, double *ret);
int option_node(const struct usage *usage, const char *text, int *ret);
