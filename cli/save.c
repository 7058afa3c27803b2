/* SPDX-License-Identifier: MIT */
/*
 * tarn save: what is published becomes a file, from shared memory straight to
 * the disk. The file has the set of names as it stood at one moment.
 */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/held.h"
#include "cli/message.h"
#include "cli/sink.h"
#include "cli/store.h"

static struct tarn_save_item *make_items(const struct held *held)
{
	struct tarn_save_item *items = must(calloc(held->n, sizeof(items[0])));

	for (size_t i = 0; i < held->n; i++) {
		items[i].name = held->at[i].short_name;
		items[i].tensor = held->at[i].tensor;
	}
	return items;
}

static int save(tarn_store *store, const char *prefix, struct sink *sink)
{
	_cleanup_held_ struct held held = {0};
	_cleanup_free_ struct tarn_save_item *items = NULL;
	struct tarn_copy_info info;
	int r = held_take(store, prefix, &held);

	if (r != EXIT_DONE)
		return r;
	items = make_items(&held);
	if (sink_save(sink, items, held.n, &info) < 0)
		return EXIT_FAILED;
	if (sink->json)
		return json_print(sink_json(sink, held.n, &info));
	sink_print(sink, held.n, &info);
	putchar('\n');
	return EXIT_DONE;
}

int cmd_save(int argc, char **argv)
{
	_cleanup_store_ tarn_store *store = NULL;
	_cleanup_sink_ struct sink sink = {0};
	const char *socket = NULL;
	const struct option_row rows[] = {
		SINK_OPTIONS(&sink),
		OPTION_JSON(&sink.json),
		OPTION_SOCKET(&socket),
		OPTION_POOL,
		{0},
	};
	const struct usage usage = {.verb = "save",
		.arguments = "[OPTION]... PREFIX FILE",
		.about = "Saves what is published as PREFIX and below PREFIX/, "
			 "as it stands at one moment,\nunder names without "
			 "PREFIX/; 'PREFIX/' means only what is below it. FILE "
			 "is a\n.safetensors, or, of one tensor, a .npy; it is "
			 "replaced whole or not at all.",
		.options = rows,
		.args_min = 2,
		.args_max = 2};
	char **args;
	int n, r;

	r = options_parse(&usage, argc, argv, &n, &args);
	if (r != OPTIONS_DONE)
		return r;
	sink.path = args[1];
	r = sink_parse(&sink, &usage);
	if (r != OPTIONS_DONE)
		return r;
	r = cli_store_need(socket, &store);
	if (r != EXIT_DONE)
		return r;
	return save(store, args[0], &sink);
}
