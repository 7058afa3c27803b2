/* SPDX-License-Identifier: MIT */
/*
 * tarn ls: what is published. A table without a heading, since half of its
 * readers are programs. Where no daemon runs nothing is published, which is an
 * answer; but a daemon that was asked for by its socket must be there.
 */
#include "cli/cli.h"

#include "cli/json.h"
#include "cli/listing.h"
#include "cli/options.h"
#include "cli/say.h"
#include "cli/store.h"

static json_t *ls_json(const struct listing *listing)
{
	json_t *object = must(json_object());

	json_put(object, "tensors", listing_json(listing, false, true));
	return object;
}

int cmd_ls(int argc, char **argv)
{
	_cleanup_listing_ struct listing listing = {0};
	_cleanup_store_ tarn_store *store = NULL;
	const char *socket = NULL;
	bool json = false;
	const struct option_row rows[] = {
		OPTION_JSON(&json), OPTION_SOCKET(&socket), OPTION_POOL, {0}};
	const struct usage usage = {.verb = "ls",
		.arguments = "[OPTION]... [PREFIX]",
		.about = "The published tensors, or those whose names begin "
			 "with PREFIX: name, dtype,\nshape, size.",
		.options = rows,
		.args_max = 1};
	char **args;
	int n, r;

	r = options_parse(&usage, argc, argv, &n, &args);
	if (r != OPTIONS_DONE)
		return r;
	r = cli_store_find(socket, &store);
	if (r != EXIT_DONE)
		return r;
	if (store && listing_add_store(&listing, store, args[0], false) < 0)
		return EXIT_FAILED;
	if (json)
		return json_print(ls_json(&listing));
	listing_print(&listing, 0);
	return EXIT_DONE;
}
