/* SPDX-License-Identifier: MIT */
/*
 * tarn replicate: copies of published tensors on other NUMA nodes, of which each
 * reader gets the nearest. They are made, and dropped again, by name.
 */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "base/nodes.h"
#include "cli/json.h"
#include "cli/message.h"
#include "cli/node_copy.h"
#include "cli/options.h"
#include "cli/store.h"

static json_t *name_json(const struct node_copy *copy)
{
	json_t *object = must(json_object());

	json_put(object, "name", json_text(copy->name));
	json_put(object, "tensors", json_u64(copy->tensors));
	return object;
}

/* ---- making them --------------------------------------------------- */

static json_t *node_json(const struct node_copy *copy)
{
	json_t *object = must(json_object());

	node_copy_json(copy, object);
	return object;
}

static int replicate(struct node_copy *copy, uint64_t nodes, bool json)
{
	json_t *object = name_json(copy), *array = must(json_array());
	int r = EXIT_DONE;

	for (int node = 0; node < (int)NODES_MAX && r == EXIT_DONE; node++) {
		if (!(nodes & 1ull << node))
			continue;
		r = node_copy_to(copy, node);
		if (r == EXIT_DONE && !json)
			node_copy_print(copy);
		if (r == EXIT_DONE &&
			json_array_append_new(array, node_json(copy)) < 0)
			must(NULL);
	}
	json_put(object, "nodes", array);
	if (r == EXIT_DONE && json)
		return json_print(object);
	json_decref(object);
	return r;
}

/* A node that the daemon may not use is refused by it. */
static uint64_t nodes_with_memory(void)
{
	struct nodes machine;

	nodes_read("", &machine);
	return machine.memory;
}

/* ---- dropping them ------------------------------------------------- */

/* node -1: on all nodes. */
static int drop(const struct node_copy *copy, int node, bool json)
{
	json_t *object;
	int r = tarn_store_drop_replicas(copy->store, copy->name, node);

	if (r < 0)
		return node_copy_failed(copy, r);
	if (json) {
		object = name_json(copy);
		json_put(object, "dropped",
			node < 0 ? json_text("all") : json_u64((uint64_t)node));
		return json_print(object);
	}
	node_copy_print_name(copy);
	if (node < 0)
		puts(" without replicas now");
	else
		printf(" without a replica on node %d now\n", node);
	return EXIT_DONE;
}

/* ---- the verb ------------------------------------------------------ */

/* The nodes of --node, and the one that is the only one; -1: all. */
static int parse_nodes(const struct usage *usage, const char *text, bool drops,
	uint64_t *ret_nodes, int *ret_node)
{
	int r;

	*ret_node = -1;
	*ret_nodes = nodes_with_memory();
	if (!text)
		return drops ? OPTIONS_DONE
			     : usage_failed(usage,
				       "--node N is needed: the node of the "
				       "copies, or 'all'");
	if (strcmp(text, "all") == 0)
		return OPTIONS_DONE;
	r = option_node(usage, text, ret_node);
	if (r != OPTIONS_DONE)
		return r;
	*ret_nodes = 1ull << *ret_node;
	return OPTIONS_DONE;
}

int cmd_replicate(int argc, char **argv)
{
	_cleanup_store_ tarn_store *store = NULL;
	const char *socket = NULL, *text = NULL;
	bool json = false, drops = false;
	const struct option_row rows[] = {
		OPTION_NODE(&text, "on that node; all: on every node that has "
				   "memory"),
		{.name = "drop",
			.letter = 'd',
			.ret_flag = &drops,
			.help = "drop the copies on that node, or all of them"},
		OPTION_JSON(&json), OPTION_SOCKET(&socket), OPTION_POOL, {0}};
	const struct usage usage = {.verb = "replicate",
		.arguments = "[OPTION]... --node N NAME|PREFIX/\n"
			     "[OPTION]... --drop [--node N] NAME|PREFIX/",
		.about = "Keeps the bytes of a published tensor, or of all "
			 "below PREFIX/, once more on\nanother NUMA node. A "
			 "reader that opens the name from then on gets the "
			 "nearest\ncopy. A new version has none until they are "
			 "made again. See tarn-numa(7).",
		.options = rows,
		.args_min = 1,
		.args_max = 1};
	struct node_copy copy = {.done = "copied", .fn = tarn_store_replicate};
	uint64_t nodes;
	char **args;
	int n, node, r;

	r = options_parse(&usage, argc, argv, &n, &args);
	if (r != OPTIONS_DONE)
		return r;
	r = parse_nodes(&usage, text, drops, &nodes, &node);
	if (r != OPTIONS_DONE)
		return r;
	r = cli_store_need(socket, &store);
	if (r != EXIT_DONE)
		return r;
	copy.store = store;
	copy.name = args[0];
	r = node_copy_begin(&copy);
	if (r != EXIT_DONE)
		return r;
	return drops ? drop(&copy, node, json) : replicate(&copy, nodes, json);
}
