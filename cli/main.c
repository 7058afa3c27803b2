/* SPDX-License-Identifier: MIT */
/* tarn, the command: one row of a table per verb. */
#include "cli/cli.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

#include <tarn/error.h>

#include "base/streams.h"
#include "cli/say.h"
#include "cli/verbs.h"

static const struct verb verbs[] = {
	{"channel", cmd_channel, "look at channels, and end them"},
	{"check", cmd_check, "verify that the store is whole"},
	{"copy", cmd_copy, "copy tensors into a file, converted or not"},
	{"info", cmd_info, "say what tensors a file has, or a name"},
	{"load", cmd_load, "load a file into shared memory"},
	{"ls", cmd_ls, "list what is published"},
	{"metrics", cmd_metrics, "say how it fares, as OpenMetrics text"},
	{"print", cmd_print, "print a tensor or a view of it"},
	{"put", cmd_put, "publish a copy of a tensor"},
	{"rm", cmd_rm, "remove published names"},
	{"save", cmd_save, "save what is published to a file"},
	{"status", cmd_status, "say how the daemon fares"},
	{"stop", cmd_stop, "end the daemon"},
	{"verify", cmd_verify, "compare files with their checksums"},
	{"view", cmd_view, "draw how a view walks through storage"},
	{"wait", cmd_wait, "wait until a name is published"},
	{0},
};

static void print_help(FILE *f)
{
	fputs("Usage: tarn COMMAND [ARGUMENTS]\n"
	      "Tensors in memory that many processes share.\n\n",
		f);
	verbs_list(f, verbs);
	fputs("\n\"tarn COMMAND --help\" or \"tarn help COMMAND\" tells more. "
	      "--version prints the\nversion.\n",
		f);
}

/* help VERB, or help VERB VERB of the one that has some of its own: what else
 * there is would be an argument, to be acted upon. */
static int help(int argc, char **argv)
{
	char option[] = "--help";
	char *args[] = {NULL, option, NULL, NULL};
	const struct verb *verb;

	if (argc < 1) {
		print_help(stdout);
		return EXIT_DONE;
	}
	verb = verbs_find(verbs, argv[0]);
	if (!verb)
		return verbs_unknown(verbs, NULL, argv[0]);
	args[0] = argv[0];
	if (verb->run != cmd_channel || argc < 2)
		return verb->run(2, args);
	args[1] = argv[1];
	args[2] = option;
	return verb->run(3, args);
}

static int run(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	const struct verb *verb = verbs_find(verbs, name);

	if (verb)
		return verb->run(argc - 1, argv + 1);
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
		return help(0, NULL);
	if (strcmp(name, "help") == 0)
		return help(argc - 2, argv + 2);
	if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
		printf("tarn %s\n", tarn_version());
		return EXIT_DONE;
	}
	if (*name == '-') {
		say_failed("there is no option '%s' in front of the command",
			name);
		say_hint("'tarn --help' lists the commands");
		return EXIT_USAGE;
	}
	if (*name)
		return verbs_unknown(verbs, NULL, name);
	print_help(stderr);
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	int status, end;

	streams_keep_apart();
	setlocale(LC_CTYPE, "");
	status = run(argc, argv);
	end = say_end();
	return status == EXIT_DONE ? end : status;
}
