/* SPDX-License-Identifier: MIT */
/* tarn, the command: one row of a table per verb. */
#include "cli/cli.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

#include <tarn/error.h>
#include <tarn/version.h>

#include "base/std_fds.h"
#include "cli/channel.h"
#include "cli/data.h"
#include "cli/message.h"
#include "cli/verbs.h"

const struct verb cli_verbs[] = {
	{.name = "channel",
		.run = cmd_channel,
		.help = "look at channels, close and remove them",
		.verbs = channel_verbs},
	{.name = "check",
		.run = cmd_check,
		.help = "verify the store's consistency"},
	{.name = "completion",
		.run = cmd_completion,
		.help = "print a script with which a shell completes tarn"},
	{.name = "copy",
		.run = cmd_copy,
		.help = "copy tensors to a file, converting them on the way"},
	{.name = "data",
		.run = cmd_data,
		.help = "look at a training job's tokens and samples",
		.verbs = data_verbs},
	{.name = "doctor",
		.run = cmd_doctor,
		.help = "say what this machine offers, and what to change"},
	{.name = "info",
		.run = cmd_info,
		.help = "describe the tensors of a file, or below a name"},
	{.name = "load",
		.run = cmd_load,
		.help = "load a file into shared memory"},
	{.name = "ls", .run = cmd_ls, .help = "list what is published"},
	{.name = "metrics",
		.run = cmd_metrics,
		.help = "print the daemon's counters as OpenMetrics text"},
	{.name = "migrate",
		.run = cmd_migrate,
		.help = "move published tensors to another NUMA node"},
	{.name = "print",
		.run = cmd_print,
		.help = "print a tensor or a view of it"},
	{.name = "put", .run = cmd_put, .help = "publish a copy of a tensor"},
	{.name = "replicate",
		.run = cmd_replicate,
		.help = "keep copies of published tensors on other NUMA nodes"},
	{.name = "rm",
		.run = cmd_rm,
		.help = "remove published names",
		.destroys = true},
	{.name = "save",
		.run = cmd_save,
		.help = "save what is published to a file"},
	{.name = "status",
		.run = cmd_status,
		.help = "show the daemon's memory, pools, clients and loads"},
	{.name = "stop",
		.run = cmd_stop,
		.help = "end the daemon",
		.destroys = true},
	{.name = "top", .run = cmd_top, .help = "watch the daemon live"},
	{.name = "verify",
		.run = cmd_verify,
		.help = "compare files with their checksums"},
	{.name = "view",
		.run = cmd_view,
		.help = "draw how a view walks through storage"},
	{.name = "wait",
		.run = cmd_wait,
		.help = "wait until a name is published"},
	{0},
};

static void print_help(FILE *f)
{
	/* All of it fits on a terminal of 24 lines. */
	fputs("Usage: tarn COMMAND [ARGUMENTS]\n"
	      "\"tarn COMMAND --help\" says more; \"tarn --version\" prints the "
	      "version.\n",
		f);
	verbs_list(f, cli_verbs);
}

/* "help VERB", or "help VERB VERB" for a verb with verbs of its own. Further
 * words are dropped: the verb would act on them. */
static int help(int argc, char **argv)
{
	char option[] = "--help";
	char *args[] = {NULL, option, NULL, NULL};
	const struct verb *verb;

	if (argc < 1) {
		print_help(stdout);
		return EXIT_DONE;
	}
	verb = verbs_find(cli_verbs, argv[0]);
	if (!verb)
		return verbs_unknown(cli_verbs, NULL, argv[0]);
	args[0] = argv[0];
	if (!verb->verbs || argc < 2)
		return verb->run(2, args);
	args[1] = argv[1];
	args[2] = option;
	return verb->run(3, args);
}

/* An option in front of the command: it may be one of the command's. */
static int misplaced(int argc, char **argv)
{
	print_failure(
		"there is no option '%s' in front of the command", argv[1]);
	for (int i = 2; i < argc; i++)
		if (verbs_find(cli_verbs, argv[i])) {
			print_hint(
				"options follow the command: 'tarn %s %s ...'",
				argv[i], argv[1]);
			return EXIT_USAGE;
		}
	print_hint("'tarn --help' lists the commands");
	return EXIT_USAGE;
}

static int run(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	const struct verb *verb = verbs_find(cli_verbs, name);

	if (verb)
		return verb->run(argc - 1, argv + 1);
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
		return help(0, NULL);
	if (strcmp(name, "help") == 0)
		return help(argc - 2, argv + 2);
	if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0 ||
		strcmp(name, "version") == 0) {
		printf("tarn %s\n", tarn_version());
		return EXIT_DONE;
	}
	if (*name == '-')
		return misplaced(argc, argv);
	if (*name)
		return verbs_unknown(cli_verbs, NULL, name);
	print_help(stderr);
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	int status, end;

	std_fds_open();
	setlocale(LC_CTYPE, "");
	status = run(argc, argv);
	end = print_end();
	return status == EXIT_DONE ? end : status;
}
