/* SPDX-License-Identifier: MIT */
/* tarn, the command: one row of a table per verb. */
#include "cli/cli.h"

#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tarn/error.h>

#include "base/checked.h"
#include "cli/near.h"
#include "cli/say.h"

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
};

static const struct command commands[] = {
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
};

static void print_help(FILE *f)
{
	fputs("Usage: tarn COMMAND [ARGUMENTS]\n"
	      "Tensors in memory that many processes share.\n\n",
		f);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(f, "  %-10s %s\n", commands[i].name, commands[i].help);
	fputs("\n\"tarn COMMAND --help\" or \"tarn help COMMAND\" tells more. "
	      "--version prints the\nversion.\n",
		f);
}

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

static int unknown(const char *name)
{
	struct near near;

	say_failed("there is no command '%s'", name);
	near_begin(&near, name);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		near_offer(&near, commands[i].name);
	near_say(&near, NULL);
	say_hint("'tarn --help' lists those that there are");
	return EXIT_USAGE;
}

static int help(const char *name)
{
	char verb[16], option[] = "--help";
	char *argv[] = {verb, option, NULL};
	const struct command *command;

	if (!name) {
		print_help(stdout);
		return EXIT_DONE;
	}
	command = find(name);
	if (!command)
		return unknown(name);
	snprintf(verb, sizeof(verb), "%s", command->name);
	return command->run(2, argv);
}

static int run(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	const struct command *command = find(name);

	if (command)
		return command->run(argc - 1, argv + 1);
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
		return help(NULL);
	if (strcmp(name, "help") == 0)
		return help(argv[2]);
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
		return unknown(name);
	print_help(stderr);
	return EXIT_USAGE;
}

/* A closed stream's number would go to what is opened next, the daemon's socket
 * or a file being written, and what is meant for people into that. What is put
 * in its place fails as it would. */
static void keep_streams_apart(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
			open("/dev/null",
				fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
			return;
}

int main(int argc, char **argv)
{
	int status, end;

	keep_streams_apart();
	setlocale(LC_CTYPE, "");
	status = run(argc, argv);
	end = say_end();
	return status == EXIT_DONE ? end : status;
}
