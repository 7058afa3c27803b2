// SPDX-License-Identifier: MIT
/* tarn, the command: one row of a table per verb. */
#include "cli/cli.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

#include <tarn/error.h>

#include "base/checked.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} commands[] = {
	{"view", cmd_view, "draw how a view walks through storage"},
};

static void print_help(FILE *f)
{
	fputs("Usage: tarn COMMAND [ARGUMENTS]\n"
	      "Tensors in memory that many processes share.\n\n",
		f);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(f, "  %-10s %s\n", commands[i].name, commands[i].help);
	fputs("\n\"tarn COMMAND --help\" tells more. --version prints the "
	      "version.\n",
		f);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	setlocale(LC_CTYPE, "");
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
		print_help(stdout);
		return EXIT_DONE;
	}
	if (strcmp(name, "--version") == 0) {
		printf("tarn %s\n", tarn_version());
		return EXIT_DONE;
	}
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i].name, name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	if (*name)
		fprintf(stderr, "tarn: there is no command \"%s\"\n", name);
	print_help(stderr);
	return EXIT_USAGE;
}
