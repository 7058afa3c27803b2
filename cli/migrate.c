/* SPDX-License-Identifier: MIT */
/* tarn migrate: published tensors move to another NUMA node, as new versions of
 * their names. */
#include "cli/cli.h"

#include "cli/json.h"
#include "cli/message.h"
#include "cli/node_copy.h"
#include "cli/options.h"
#include "cli/store.h"

static json_t *migrate_json(const struct node_copy *copy)
{
	json_t *object = must(json_object());

	json_put(object, "name", json_text(copy->name));
	json_put(object, "tensors", json_u64(copy->tensors));
	node_copy_json(copy, object);
	return object;
}

static int migrate(struct node_copy *copy, int node, bool json)
{
	int r = node_copy_begin(copy);

	if (r == EXIT_DONE)
		r = node_copy_to(copy, node);
	if (r != EXIT_DONE)
		return r;
	if (json)
		return json_print(migrate_json(copy));
	node_copy_print(copy);
	return EXIT_DONE;
}

int cmd_migrate(int argc, char **argv)
{
	_cleanup_store_ tarn_store *store = NULL;
	const char *socket = NULL, *text = NULL;
	bool json = false;
	const struct option_row rows[] = {
		OPTION_NODE(&text, "the node to which they move"),
		OPTION_JSON(&json), OPTION_SOCKET(&socket), OPTION_POOL, {0}};
	const struct usage usage = {.verb = "migrate",
		.arguments = "[OPTION]... --node N NAME|PREFIX/",
		.about = "Moves a published tensor, or all below PREFIX/, to "
			 "another NUMA node: the bytes\nare copied there, and "
			 "the names lead to them as new versions. Processes "
			 "that\nhave such a tensor open keep the old bytes. "
			 "See tarn-numa(7).",
		.options = rows,
		.args_min = 1,
		.args_max = 1};
	struct node_copy copy = {.done = "moved", .fn = tarn_store_migrate};
	char **args;
	int n, node, r;

	r = options_parse(&usage, argc, argv, &n, &args);
	if (r != OPTIONS_DONE)
		return r;
	if (!text)
		return usage_failed(&usage, "--node N is needed: the node to "
					    "which they move");
	r = option_node(&usage, text, &node);
	if (r != OPTIONS_DONE)
		return r;
	r = cli_store_need(socket, &store);
	if (r != EXIT_DONE)
		return r;
	copy.store = store;
	copy.name = args[0];
	return migrate(&copy, node, json);
}
