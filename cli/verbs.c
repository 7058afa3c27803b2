/* SPDX-License-Identifier: MIT */
/* Finds and lists verbs, and suggests one for a word that is none. */
#include "cli/verbs.h"

#include <string.h>

#include "cli/cli.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/suggest.h"

const struct verb *verbs_find(const struct verb *verbs, const char *name)
{
	for (; verbs->name; verbs++)
		if (strcmp(verbs->name, name) == 0)
			return verbs;
	return NULL;
}

void verbs_list(FILE *f, const struct verb *verbs)
{
	for (; verbs->name; verbs++)
		fprintf(f, "  %-10s %s\n", verbs->name, verbs->help);
}

/* The words of a verb as they are typed: "stop", "channel tail". */
static void offer_all(
	struct suggest *suggest, const struct verb *verbs, const char *of)
{
	for (; verbs->name; verbs++) {
		char words[64];

		if (verbs->verbs)
			offer_all(suggest, verbs->verbs, verbs->name);
		if (verbs->destroys)
			continue;
		snprintf(words, sizeof(words), "%s%s%s", of ? of : "",
			of ? " " : "", verbs->name);
		suggest_offer_as(suggest, verbs->name, words);
	}
}

int verbs_unknown(const struct verb *verbs, const char *of, const char *name)
{
	struct suggest suggest;

	print_failure("%s%sthere is no command '%s'", of ? of : "",
		of ? ": " : "", name);
	suggest_begin(&suggest, name);
	offer_all(&suggest, verbs, of);
	suggest_print(&suggest, NULL);
	print_hint("'tarn %s%s--help' lists the commands", of ? of : "",
		of ? " " : "");
	return EXIT_USAGE;
}

int verbs_run(const struct verb *verbs, const char *of, const char *about,
	int argc, char **argv)
{
	_cleanup_free_ char *text = NULL;
	const struct option_row rows[] = {{0}};
	const struct verb *verb;
	size_t size = 0;
	char **args;
	FILE *f;
	int n, r;

	if (argc > 1 && argv[1][0] != '-') {
		verb = verbs_find(verbs, argv[1]);
		return verb ? verb->run(argc - 1, argv + 1)
			    : verbs_unknown(verbs, of, argv[1]);
	}
	f = must(open_memstream(&text, &size));
	fprintf(f, "%s\n\n", about);
	verbs_list(f, verbs);
	fprintf(f, "\n\"tarn %s COMMAND --help\" says more.", of);
	if (fclose(f) == EOF)
		must(NULL);
	const struct usage usage = {.verb = of,
		.arguments = "COMMAND [ARGUMENTS]",
		.about = text,
		.options = rows,
		.args_min = 1,
		.args_max = -1};

	r = options_parse(&usage, argc, argv, &n, &args);
	/* A word behind "--" was meant as a command. */
	return r == OPTIONS_DONE ? verbs_unknown(verbs, of, args[0]) : r;
}
