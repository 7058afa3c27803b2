/* SPDX-License-Identifier: MIT */
/*
 * tarn channel ls: a line for each channel. One that ends while it is listed
 * is not in the list.
 */
#include <errno.h>
#include <stdio.h>

#include "cli/channel.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/ls.h"
#include "cli/message.h"
#include "cli/text.h"
#include "cli/size.h"

#define NAME_COLUMNS_MAX 40 /* a longer name moves its own row only */

static void print_row(
	const char *name, int width, const struct tarn_channel_info *info)
{
	char bytes[SIZE_TEXT_MAX];

	text_put_padded(stdout, name, width);
	printf("  %-9s  %5u x %-11s  %5u ready  %u in, %u out%s%s\n",
		channel_mode(info), info->slots,
		size_text((double)info->slot_bytes, bytes), info->ready,
		info->producers, info->consumers,
		channel_is_idle(info) ? ", idle" : "",
		info->closed ? ", closed" : "");
}

/* False: it has gone meanwhile, or an error message was printed. */
static bool look(tarn_store *store, const char *name,
	struct tarn_channel_info *ret, int *status)
{
	_cleanup_channel_ tarn_channel *channel = NULL;
	int r = tarn_channel_open(store, name, NULL, &channel);

	if (r >= 0)
		r = tarn_channel_info(channel, ret);
	if (r < 0 && r != -ENOENT && r != -ESTALE)
		*status = print_error();
	return r >= 0;
}

static int list(
	tarn_store *store, const struct channel_names *names, json_t *array)
{
	int width = 0, status = EXIT_DONE;

	for (size_t i = 0; i < names->n; i++) {
		int columns = text_put(NULL, names->at[i]);

		if (columns > width && columns <= NAME_COLUMNS_MAX)
			width = columns;
	}
	for (size_t i = 0; i < names->n; i++) {
		struct tarn_channel_info info;
		const char *name = names->at[i];

		if (!look(store, name, &info, &status))
			continue;
		if (!array)
			print_row(name, width, &info);
		else if (json_array_append_new(
				 array, channel_json(name, &info)) < 0)
			must(NULL);
	}
	return status;
}

static int list_json(tarn_store *store, const struct channel_names *names)
{
	json_t *object = must(json_object()), *array = must(json_array());
	int status = list(store, names, array), r;

	json_put(object, "channels", array);
	r = json_print(object);
	return r == EXIT_DONE ? status : r;
}

int channel_ls(int argc, char **argv)
{
	_cleanup_names_ struct channel_names names = {0};
	_cleanup_store_ tarn_store *store = NULL;
	struct ls ls;
	int r = ls_begin("channel ls",
		"The channels, or those whose names begin with PREFIX: name, "
		"mode, slots, items\nthat wait, producers and consumers; idle: "
		"no participants.",
		argc, argv, NULL, &ls);

	if (r != OPTIONS_DONE)
		return r;
	store = ls.store;
	if (store && channel_names_list(&names, store, ls.prefix) < 0)
		return EXIT_FAILED;
	r = ls.json ? list_json(store, &names) : list(store, &names, NULL);
	return r == EXIT_DONE ? ls_end(&ls, names.n, "channel") : r;
}
