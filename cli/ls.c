/* SPDX-License-Identifier: MIT */
/*
 * tarn ls: what is published. A table without a heading, since half of its
 * readers are programs. Without a daemon nothing is published, which is an
 * answer; but a daemon that was asked for by its socket must be there, and so
 * must names with the prefix that was asked for.
 */
#include "cli/ls.h"

#include "cli/cli.h"
#include "cli/json.h"
#include "cli/listing.h"
#include "cli/message.h"

static json_t *ls_json(const struct listing *listing)
{
	json_t *object = must(json_object());

	json_put(object, "tensors", listing_json(listing, false, true));
	return object;
}

int ls_begin(const char *verb, const char *about, int argc, char **argv,
	bool *ret_long, struct ls *ret)
{
	const char *socket = NULL;
	const struct option_row more = {.name = "long",
		.letter = 'l',
		.ret_flag = ret_long,
		.help = "also each one's pages, and its NUMA nodes"};
	const struct option_row rows[] = {OPTION_JSON(&ret->json),
		OPTION_SOCKET(&socket), OPTION_POOL,
		ret_long ? more : (struct option_row) {0}, {0}};
	const struct usage usage = {.verb = verb,
		.arguments = "[OPTION]... [PREFIX]",
		.about = about,
		.options = rows,
		.args_max = 1};
	char **args;
	int n, r;

	*ret = (struct ls) {0};
	r = options_parse(&usage, argc, argv, &n, &args);
	if (r != OPTIONS_DONE)
		return r;
	ret->prefix = args[0];
	r = cli_store_find(socket, &ret->store);
	return r == EXIT_DONE ? OPTIONS_DONE : r;
}

int ls_end(const struct ls *ls, size_t n, const char *what)
{
	if (n || !ls->prefix)
		return EXIT_DONE;
	return print_failure(
		"there is no %s whose name begins with '%s'", what, ls->prefix);
}

int cmd_ls(int argc, char **argv)
{
	_cleanup_listing_ struct listing listing = {0};
	_cleanup_store_ tarn_store *store = NULL;
	struct ls ls;
	int r = ls_begin("ls",
		"The published tensors, or those whose names begin with "
		"PREFIX: name, dtype,\nshape, size.",
		argc, argv, &listing.with_details, &ls);

	if (r != OPTIONS_DONE)
		return r;
	store = ls.store;
	if (store && listing_add_store(&listing, store, ls.prefix, false) < 0)
		return EXIT_FAILED;
	r = EXIT_DONE;
	if (ls.json)
		r = json_print(ls_json(&listing));
	else
		listing_print(&listing, 0);
	return r == EXIT_DONE ? ls_end(&ls, listing.n, "tensor") : r;
}
