/* SPDX-License-Identifier: MIT */
/*
 * tarn rm: arguments are removed one by one; a missing one does not keep the
 * others. Processes that have such a tensor open keep it. The participants of a
 * channel would keep it, too, but a process that opens its name next would not
 * find them, so an open channel is not removed, nor is anything that would be
 * removed in the same moment.
 */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <tarn/publish.h>

#include "cli/channel.h"
#include "cli/listing.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/store.h"
#include "cli/text.h"

/* If a name cannot be looked at, the daemon decides. */
static bool has_members(tarn_store *store, const char *name)
{
	_cleanup_channel_ tarn_channel *channel = NULL;
	struct tarn_channel_info info;

	if (tarn_channel_open(store, name, NULL, &channel) < 0 ||
		tarn_channel_info(channel, &info) < 0 || info.closed ||
		(!info.producers && !info.consumers))
		return false;
	print_failure(
		"'%s' is a channel that has %u producer%s and %u consumer%s",
		name, info.producers, info.producers == 1 ? "" : "s",
		info.consumers, info.consumers == 1 ? "" : "s");
	print_hint("'tarn channel close %s' ends it for them; 'tarn channel rm "
		   "%s' takes its name alone",
		name, name);
	return true;
}

static int rm_name(tarn_store *store, const char *name)
{
	int r;

	if (has_members(store, name))
		return EXIT_FAILED;
	r = tarn_store_remove(store, name);
	if (r >= 0)
		return EXIT_DONE;
	print_error();
	if (r == -ENOENT && !cli_hint_folder(store, name, "tarn rm", "removes"))
		cli_hint_name(store, name);
	return EXIT_FAILED;
}

/* One by one, as by its name. Reports all the names that prevent it at once. */
static bool have_members(tarn_store *store, const struct listing *below)
{
	bool any = false;

	for (size_t i = 0; i < below->n; i++)
		any |= below->at[i]->channel &&
		       has_members(store, below->at[i]->name);
	return any;
}

/* In one moment: no reader sees half of them. */
static int rm_below(tarn_store *store, const char *prefix)
{
	const struct tarn_publish_options nothing = {.replace = prefix};
	_cleanup_listing_ struct listing below = {0};

	if (listing_add_store(&below, store, prefix, true) < 0)
		return EXIT_FAILED;
	if (!below.n) {
		print_failure("nothing is published below '%s'", prefix);
		print_hint("'tarn ls' lists what is published");
		return EXIT_FAILED;
	}
	if (have_members(store, &below))
		return EXIT_FAILED;
	if (tarn_store_publish(store, NULL, 0, &nothing, NULL) < 0)
		return print_error();
	printf("removed %zu %s%s below ", below.n,
		listing_channels(&below) ? "name" : "tensor",
		below.n == 1 ? "" : "s");
	text_put(stdout, prefix);
	putchar('\n');
	return EXIT_DONE;
}

int cmd_rm(int argc, char **argv)
{
	_cleanup_store_ tarn_store *store = NULL;
	const char *socket = NULL;
	const struct option_row rows[] = {
		OPTION_SOCKET(&socket), OPTION_POOL, {0}};
	const struct usage usage = {.verb = "rm",
		.arguments = "[OPTION]... NAME...",
		.about = "Removes published names; one that ends with '/' "
			 "stands for all below it.\nProcesses that have such a "
			 "tensor open keep it.",
		.options = rows,
		.args_min = 1,
		.args_max = -1};
	int n, r, status = EXIT_DONE;
	char **args;

	r = options_parse(&usage, argc, argv, &n, &args);
	if (r != OPTIONS_DONE)
		return r;
	r = cli_store_need(socket, &store);
	if (r != EXIT_DONE)
		return r;
	for (int i = 0; i < n; i++) {
		size_t size = strlen(args[i]);
		bool below = size && args[i][size - 1] == '/';

		if ((below ? rm_below : rm_name)(store, args[i]) != EXIT_DONE)
			status = EXIT_FAILED;
	}
	return status;
}
