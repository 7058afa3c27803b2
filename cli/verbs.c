/* SPDX-License-Identifier: MIT */
/* Finds and lists verbs, and suggests one for a word that is none. */
#include "cli/verbs.h"

#include <string.h>

#include "cli/cli.h"
#include "cli/message.h"
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
