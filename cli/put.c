/* SPDX-License-Identifier: MIT */
/*
 * tarn put: a copy of a tensor, or of a view of it, under a name of its own.
 * Unlike what is loaded it has no file any more: it stays until it is removed
 * or its time is over.
 */
#include "cli/cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/node.h>
#include <tarn/publish.h>

#include "cli/address.h"
#include "cli/listing.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/store.h"
#include "cli/text.h"
#include "cli/size.h"

/* Seconds as milliseconds, at least 1; 0 without a text; -1: no such number. */
static int64_t parse_ttl(const char *text)
{
	char *end;
	double s;

	if (!text)
		return 0;
	s = strtod(text, &end);
	return end == text || *end || !(s > 0) || s > 1e12
		       ? -1
		       : (int64_t)ceil(s * 1e3);
}

/* Filled where it will stay: large tensors are not copied again. */
static int copy(tarn_store *store, const tarn_tensor *from, tarn_tensor **ret)
{
	const struct tarn_layout *l = tarn_tensor_layout(from);
	int r;

	r = tarn_store_create(store, l->dtype, l->ndim, l->shape, 0, ret);
	return r < 0 ? r
		     : tarn_tensor_ravel(from, TARN_ORDER_C,
			       tarn_tensor_data(*ret),
			       (uint64_t)tarn_layout_nbytes(l));
}

static void print_put(
	const char *name, const tarn_tensor *tensor, uint64_t version)
{
	const struct tarn_layout *l = tarn_tensor_layout(tensor);
	char bytes[SIZE_TEXT_MAX];

	text_put(stdout, name);
	printf(": %s [", tarn_dtype_name(l->dtype));
	for (int i = 0; i < l->ndim; i++)
		printf("%s%lld", i ? ", " : "", (long long)l->shape[i]);
	printf("], %s, version %llu\n",
		size_text((double)tarn_layout_nbytes(l), bytes),
		(unsigned long long)version);
}

static int put(tarn_store *store, const char *name, tarn_tensor *from,
	const struct tarn_publish_options *options)
{
	_cleanup_tensor_ tarn_tensor *mine = NULL;
	struct tarn_publish_item item = {.name = name};
	uint64_t version;
	int r = copy(store, from, &mine);

	item.tensor = mine;
	if (r >= 0)
		r = tarn_store_publish(store, &item, 1, options, &version);
	if (r < 0)
		return print_error();
	print_put(name, mine, version);
	return EXIT_DONE;
}

/* By a channel; then it says so. */
static bool is_taken(tarn_store *store, const char *name)
{
	if (!cli_is_channel(store, name))
		return false;
	print_failure(
		"'%s' is a channel, which a tensor does not replace", name);
	print_hint("'tarn channel rm %s' removes its name", name);
	return true;
}

int cmd_put(int argc, char **argv)
{
	_cleanup_tensor_ tarn_tensor *tensor = NULL, *view = NULL;
	_cleanup_store_ tarn_store *store = NULL;
	struct tarn_publish_options options = {0};
	const char *socket = NULL, *ttl = NULL, *node_text = NULL;
	const struct option_row rows[] = {
		{.name = "ttl",
			.letter = 't',
			.value = "SECONDS",
			.ret_text = &ttl,
			.help = "remove it after so many seconds"},
		{.name = "new",
			.letter = 'n',
			.ret_flag = &options.exclusive,
			.help = "fail if there is something of that name"},
		OPTION_NODE(&node_text, "on that NUMA node, or not at all"),
		OPTION_SOCKET(&socket),
		OPTION_POOL,
		{0},
	};
	const struct usage usage = {.verb = "put",
		.arguments = "[OPTION]... NAME FILE[:TENSOR] [EXPR]",
		.about = "Publishes a copy of a file's tensor, or of a view of "
			 "it, as NAME, in place of\nwhat is published as that. "
			 "It stays until it is removed. EXPR is a chain of\n"
			 "views; 'tarn view --help' has them all.",
		.options = rows,
		.args_min = 2,
		.args_max = 3};
	char **args;
	int n, r, node = -1;

	r = options_parse(&usage, argc, argv, &n, &args);
	if (r != OPTIONS_DONE)
		return r;
	options.ttl_ms = parse_ttl(ttl);
	if (options.ttl_ms < 0)
		return usage_failed(&usage,
			"--ttl needs seconds, more than 0, not '%s'", ttl);
	r = option_node(&usage, node_text, &node);
	if (r != OPTIONS_DONE)
		return r;
	/* Errors of the file are found before a daemon is started. */
	r = address_open(args[1], &tensor);
	if (r != EXIT_DONE)
		return r;
	if (tarn_tensor_eval_copy(tensor, n > 2 ? args[2] : "", &view) < 0)
		return print_error();
	if (cli_store_open(socket, &store) < 0)
		return EXIT_FAILED;
	if (tarn_store_set_node(store, node) < 0)
		return print_error();
	if (is_taken(store, args[0]))
		return EXIT_FAILED;
	return put(store, args[0], view, &options);
}
