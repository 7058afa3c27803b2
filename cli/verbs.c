/* SPDX-License-Identifier: MIT */
/* Verbs: found, listed, and missed. */
#include "cli/verbs.h"

#include <string.h>

#include "cli/cli.h"
#include "cli/near.h"
#include "cli/say.h"

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

int verbs_unknown(const struct verb *verbs, const char *of, const char *name)
{
	struct near near;

	say_failed("%s%sthere is no command '%s'", of ? of : "", of ? ": " : "",
		name);
	near_begin(&near, name);
	for (; verbs->name; verbs++)
		near_offer(&near, verbs->name);
	near_say(&near, NULL);
	say_hint("'tarn %s%s--help' lists those that there are", of ? of : "",
		of ? " " : "");
	return EXIT_USAGE;
}
