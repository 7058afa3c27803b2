/* SPDX-License-Identifier: MIT */
/*
 * tarn rm: names are removed one by one; one that is not there does not keep
 * the others. Who has such a tensor open keeps it.
 */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

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
	say_hint("there are %zu below it; 'tarn rm %s/' removes them", below.n,
		name);
	return true;
}

static int rm_name(tarn_store *store, const char *name)
{
	int r = tarn_store_remove(store, name);

	if (r >= 0)
		return EXIT_DONE;
	say_error();
	if (r == -ENOENT && !hint_folder(store, name))
		cli_hint_name(store, name);
	return EXIT_FAILED;
}

/* One that somebody else removes meanwhile is as gone as the others. */
static int rm_below(tarn_store *store, const char *prefix)
{
	_cleanup_listing_ struct listing below = {0};
	int status = EXIT_DONE;
	size_t removed = 0;

	if (listing_add_store(&below, store, prefix, true) < 0)
		return EXIT_FAILED;
	if (!below.n) {
		say_failed("nothing is published below '%s'", prefix);
		say_hint("'tarn ls' lists what is published");
		return EXIT_FAILED;
	}
	for (size_t i = 0; i < below.n; i++) {
		int r = tarn_store_remove(store, below.at[i]->name);

		removed += r >= 0;
		if (r < 0 && r != -ENOENT)
			status = say_error();
	}
	printf("removed %zu tensor%s below ", removed, removed == 1 ? "" : "s");
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
	r = cli_store_find(socket, &store);
	if (r)
		return r == 1 ? cli_no_daemon(socket) : EXIT_FAILED;
	for (int i = 0; i < n; i++) {
		size_t size = strlen(args[i]);
		bool below = size && args[i][size - 1] == '/';

		if ((below ? rm_below : rm_name)(store, args[i]) != EXIT_DONE)
			status = EXIT_FAILED;
	}
	return status;
}
