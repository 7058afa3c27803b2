/* SPDX-License-Identifier: MIT */
/*
 * tarn channel close and rm: the end of a channel for its participants, and of
 * its name. They are two: removing a name ends nothing for processes that have
 * the channel open, and a closed channel is read to its end by its name.
 */
#include "cli/channel.h"
#include "cli/cli.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/store.h"

static int close_one(tarn_store *store, const char *name)
{
	_cleanup_channel_ tarn_channel *channel = NULL;

	if (channel_find(store, name, &channel) != EXIT_DONE)
		return EXIT_FAILED;
	return tarn_channel_close(channel) < 0 ? print_error() : EXIT_DONE;
}

/* Opened first, since a tensor's name is not to be removed by mistake. */
static int rm_one(tarn_store *store, const char *name)
{
	_cleanup_channel_ tarn_channel *channel = NULL;

	if (channel_find(store, name, &channel) != EXIT_DONE)
		return EXIT_FAILED;
	return tarn_store_remove(store, name) < 0 ? print_error() : EXIT_DONE;
}

/* One that is not there does not keep the others. */
static int each(int argc, char **argv, struct usage *usage,
	int (*end)(tarn_store *store, const char *name))
{
	_cleanup_store_ tarn_store *store = NULL;
	const char *socket = NULL;
	const struct option_row rows[] = {
		OPTION_SOCKET(&socket), OPTION_POOL, {0}};
	int n, r, status = EXIT_DONE;
	char **args;

	usage->options = rows;
	r = options_parse(usage, argc, argv, &n, &args);
	if (r != OPTIONS_DONE)
		return r;
	r = cli_store_need(socket, &store);
	if (r != EXIT_DONE)
		return r;
	for (int i = 0; i < n; i++)
		if (end(store, args[i]) != EXIT_DONE)
			status = EXIT_FAILED;
	return status;
}

int channel_close(int argc, char **argv)
{
	struct usage usage = {.verb = "channel close",
		.arguments = "[OPTION]... NAME...",
		.about = "Ends channels: nothing more is published, consumers "
			 "get what has been, and then\nthe end.",
		.args_min = 1,
		.args_max = -1};

	return each(argc, argv, &usage, close_one);
}

int channel_rm(int argc, char **argv)
{
	struct usage usage = {.verb = "channel rm",
		.arguments = "[OPTION]... NAME...",
		.about = "Removes the names of channels. Processes that have "
			 "one open can go on using it;\n\"tarn channel close\" "
			 "ends it.",
		.args_min = 1,
		.args_max = -1};

	return each(argc, argv, &usage, rm_one);
}
