/* SPDX-License-Identifier: MIT */
/*
 * tarn rm: arguments are removed one by one; one that is not there does not
 * keep the others. Who has such a tensor open keeps it; who takes part in a
 * channel would, too, while the next to open its name would meet nobody there,
 * so that one is left alone, with all that would go in the same moment.
 */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <tarn/publish.h>

#include "cli/channel.h"
#include "cli/listing.h"
#include "cli/options.h"
#include "cli/say.h"
#include "cli/store.h"
#include "cli/text.h"

/* Is name, which is not published itself, a folder of others? */
static bool hint_folder(tarn_store *store, const char *name)
{
	_cleanup_listing_ struct listing below = {0};

	if (listing_add_store(&below, store, name, true) < 0 || !below.n)
		return false;
	say_hint("%zu %s below it; 'tarn rm %s/' removes %s", below.n,
		below.n == 1 ? "is" : "are", name,
		below.n == 1 ? "it" : "them");
	return true;
}

/* Whatever cannot be looked at is the daemon's to judge. */
static bool has_members(tarn_store *store, const char *name)
{
	_cleanup_channel_ tarn_channel *channel = NULL;
	struct tarn_channel_info info;

	if (tarn_channel_open(store, name, NULL, &channel) < 0 ||
		tarn_channel_get_info(channel, &info) < 0 || info.closed ||
		(!info.producers && !info.consumers))
		return false;
	say_failed("'%s' is a channel that has %u producer%s and %u consumer%s",
		name, info.producers, info.producers == 1 ? "" : "s",
		info.consumers, info.consumers == 1 ? "" : "s");
	say_hint("'tarn channel close %s' ends it for them; 'tarn channel rm "
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
	say_error();
	if (r == -ENOENT && !hint_folder(store, name))
		cli_hint_name(store, name);
	return EXIT_FAILED;
}

/* For daemons that cannot do it at once. One that somebody else removes
 * meanwhile is as gone as the others. */
static int rm_each(
	tarn_store *store, const struct listing *below, size_t *removed)
{
	int status = EXIT_DONE;

	*removed = 0;
	for (size_t i = 0; i < below->n; i++) {
		int r = tarn_store_remove(store, below->at[i]->name);

		*removed += r >= 0;
		if (r < 0 && r != -ENOENT)
			status = say_error();
	}
	return status;
}

/* As each of them by its name. All that keep the others are told at once. */
static bool have_members(tarn_store *store, const struct listing *below)
{
	bool any = false;

	for (size_t i = 0; i < below->n; i++)
		any |= below->at[i]->channel &&
		       has_members(store, below->at[i]->name);
	return any;
}

/* In one moment: nobody sees half of them. */
static int rm_below(tarn_store *store, const char *prefix)
{
	const struct tarn_publish_options nothing = {.replace = prefix};
	_cleanup_listing_ struct listing below = {0};
	int r, status = EXIT_DONE;
	size_t removed;

	if (listing_add_store(&below, store, prefix, true) < 0)
		return EXIT_FAILED;
	if (!below.n) {
		say_failed("nothing is published below '%s'", prefix);
		say_hint("'tarn ls' lists what is published");
		return EXIT_FAILED;
	}
	if (have_members(store, &below))
		return EXIT_FAILED;
	removed = below.n;
	r = tarn_store_publish(store, NULL, 0, &nothing, NULL);
	if (r == -ENOTSUP)
		status = rm_each(store, &below, &removed);
	else if (r < 0)
		return say_error();
	printf("removed %zu %s%s below ", removed,
		listing_channels(&below) ? "name" : "tensor",
		removed == 1 ? "" : "s");
	text_put(stdout, prefix);
	putchar('\n');
	return status;
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
			 "stands for all below it. Who\nhas such a tensor open "
			 "keeps it.",
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
