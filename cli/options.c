/* SPDX-License-Identifier: MIT */
/*
 * The command line of a verb, parsed and explained from one table.
 *
 * getopt_long's tables are made from ours at each call, with --help added, and
 * it prints nothing: our own error messages suggest the option that was
 * probably meant.
 */
#include "cli/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/nodes.h"
#include "cli/cli.h"
#include "cli/message.h"
#include "cli/suggest.h"

#define ROWS_MAX 16         /* a verb with more options is two verbs */
#define HELP_COLUMN 24      /* where the texts begin */
#define SECONDS_MAX 86400.0 /* picked: once a day */

static const struct option_row help_row = {
	.name = "help", .letter = 'h', .help = "print this"};

static size_t count_rows(const struct usage *usage)
{
	size_t n = 0;

	while (usage->options[n].name)
		n++;
	return n;
}

/* ---- help ---------------------------------------------------------- */

static void print_row(const struct option_row *row)
{
	int n = printf("  -%c, --%s%s%s", row->letter, row->name,
		row->value ? " " : "", row->value ? row->value : "");

	printf("%*s", n < HELP_COLUMN ? HELP_COLUMN - n : 1, "");
	for (const char *p = row->help; *p; p++) {
		putchar(*p);
		if (*p == '\n')
			printf("%*s", HELP_COLUMN, "");
	}
	putchar('\n');
}

static void print_help(const struct usage *usage)
{
	const char *lead = "Usage:", *line = usage->arguments;

	while (line) {
		int n = (int)strcspn(line, "\n");

		printf("%s tarn %s %.*s\n", lead, usage->verb, n, line);
		lead = "      ";
		line = line[n] ? line + n + 1 : NULL;
	}
	printf("%s\n\n", usage->about);
	for (size_t i = 0; usage->options[i].name; i++)
		print_row(&usage->options[i]);
	print_row(&help_row);
	puts("\nExit status: 0 done, 1 failed, 2 called wrongly.");
}

/* ---- errors -------------------------------------------------------- */

int usage_failed(const struct usage *usage, const char *fmt, ...)
{
	_cleanup_free_ char *sentence = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&sentence, fmt, ap) < 0)
		sentence = NULL;
	va_end(ap);
	print_failure(
		"%s: %s", usage->verb, sentence ? sentence : "wrong usage");
	print_hint("'tarn %s --help' says more", usage->verb);
	return EXIT_USAGE;
}

static void offer_option(struct suggest *suggest, const struct option_row *row)
{
	char words[64];

	snprintf(words, sizeof(words), "--%s", row->name);
	suggest_offer_as(suggest, row->name, words);
}

/* getopt names the letter of an option that it knows, or of one in a cluster
 * like -ab that it does not; given is the argument only if it was a long
 * one. */
static int unknown_option(
	const struct usage *usage, const char *letters, const char *given)
{
	_cleanup_free_ char *name = NULL;
	struct suggest suggest;

	if (optopt && (optopt == ':' || !strchr(letters, optopt)))
		return usage_failed(usage, "there is no option -%c", optopt);
	name = must(strndup(given + 2, strcspn(given + 2, "=")));
	if (optopt)
		return usage_failed(
			usage, "the option %s takes no value", given);
	print_failure("%s: there is no option --%s", usage->verb, name);
	suggest_begin(&suggest, name);
	for (size_t i = 0; usage->options[i].name; i++)
		offer_option(&suggest, &usage->options[i]);
	offer_option(&suggest, &help_row);
	suggest_print(&suggest, NULL);
	print_hint("'tarn %s --help' lists the options", usage->verb);
	return EXIT_USAGE;
}

static int check_count(const struct usage *usage, int n, char **args)
{
	if (n < usage->args_min)
		return usage_failed(usage, "%s needed: %s",
			n ? "more arguments are" : "an argument is",
			usage->arguments);
	if (usage->args_max >= 0 && n > usage->args_max)
		return usage_failed(usage, "unexpected argument '%s'",
			args[usage->args_max]);
	return OPTIONS_DONE;
}

/* ---- parsing ------------------------------------------------------- */

/* getopt's two tables. */
struct tables {
	char letters[2 * ROWS_MAX + 3];
	struct option longs[ROWS_MAX + 2];
};

static void add_row(
	struct tables *tables, size_t i, const struct option_row *row)
{
	size_t n = strlen(tables->letters);

	tables->letters[n++] = row->letter;
	tables->letters[n] = row->value ? ':' : '\0';
	tables->longs[i] = (struct option) {.name = row->name,
		.has_arg = row->value ? required_argument : no_argument,
		.val = row->letter};
}

static void make_tables(const struct usage *usage, struct tables *ret)
{
	size_t n = count_rows(usage);

	if (n > ROWS_MAX)
		abort();
	*ret = (struct tables) {.letters = ":"};
	for (size_t i = 0; i < n; i++)
		add_row(ret, i, &usage->options[i]);
	add_row(ret, n, &help_row);
}

void option_list_free(struct option_list *list)
{
	free(list->at);
	*list = (struct option_list) {0};
}

static void add(struct option_list *list, const char *text)
{
	list->at =
		must(reallocarray(list->at, list->n + 1, sizeof(list->at[0])));
	list->at[list->n++] = text;
}

static void take(const struct usage *usage, int letter)
{
	const struct option_row *row = usage->options;

	while (row->letter != letter)
		row++;
	if (row->ret_list)
		add(row->ret_list, optarg);
	else if (row->value)
		*row->ret_text = optarg;
	else
		*row->ret_flag = true;
}

static void (*observer)(void *arg, const struct usage *usage);
static void *observer_arg;

void options_observe(
	void (*fn)(void *arg, const struct usage *usage), void *arg)
{
	observer = fn;
	observer_arg = arg;
}

int options_parse(const struct usage *usage, int argc, char **argv, int *ret_n,
	char ***ret_args)
{
	struct tables tables;
	int c;

	if (observer) {
		observer(observer_arg, usage);
		return EXIT_DONE;
	}

	make_tables(usage, &tables);
	opterr = 0;
	optind = 1;
	while ((c = getopt_long(argc, argv, tables.letters, tables.longs,
			NULL)) != -1) {
		switch (c) {
		case 'h':
			print_help(usage);
			return EXIT_DONE;
		case ':':
			return usage_failed(usage,
				"the option %s needs a value",
				argv[optind - 1]);
		case '?':
			return unknown_option(
				usage, tables.letters, argv[optind - 1]);
		default:
			take(usage, c);
		}
	}
	*ret_n = argc - optind;
	*ret_args = argv + optind;
	return check_count(usage, *ret_n, *ret_args);
}

/* ---- values -------------------------------------------------------- */

int option_count(const struct usage *usage, const char *name, const char *text,
	uint64_t *ret)
{
	unsigned long long count;
	char *end;

	if (!text)
		return OPTIONS_DONE;
	errno = 0;
	count = strtoull(text, &end, 10);
	/* It would take spaces and signs, and turn -1 around. */
	if (*text < '0' || *text > '9' || *end || errno || !count)
		return usage_failed(usage,
			"--%s needs a number above 0, not '%s'", name, text);
	*ret = count;
	return OPTIONS_DONE;
}

int option_seconds(const struct usage *usage, const char *name,
	const char *text, double *ret)
{
	double seconds;
	char *end;

	if (!text)
		return OPTIONS_DONE;
	seconds = strtod(text, &end);
	if (end == text || *end || !(seconds >= 0.1 && seconds <= SECONDS_MAX))
		return usage_failed(usage,
			"--%s takes 0.1 to %.0f seconds, not '%s'", name,
			SECONDS_MAX, text);
	*ret = seconds;
	return OPTIONS_DONE;
}

int option_node(const struct usage *usage, const char *text, int *ret)
{
	unsigned long node;
	char *end;

	if (!text)
		return OPTIONS_DONE;
	errno = 0;
	node = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno)
		return usage_failed(usage,
			"--node needs the number of a NUMA node, not '%s'",
			text);
	if (node >= NODES_MAX)
		return usage_failed(usage,
			"there is no node %s; 0 to %u are possible", text,
			NODES_MAX - 1);
	*ret = (int)node;
	return OPTIONS_DONE;
}
