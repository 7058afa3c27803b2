/* SPDX-License-Identifier: MIT */
/*
 * Tensors copied to a NUMA node. The daemon copies; what lies on the node
 * already costs nothing, which the summary says.
 */
#include "cli/node_copy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/message.h"
#include "cli/progress.h"
#include "cli/size.h"
#include "cli/store.h"
#include "cli/text.h"

static bool is_folder(const char *name)
{
	size_t n = strlen(name);

	return !n || name[n - 1] == '/';
}

static int count(void *arg, const char *name,
	const struct tarn_descriptor *descriptor, uint64_t version)
{
	(void)name;
	(void)descriptor;
	(void)version;
	++*(size_t *)arg;
	return 0;
}

int node_copy_begin(struct node_copy *copy)
{
	copy->tensors = 0;
	if (!is_folder(copy->name)) {
		copy->tensors = 1;
		return cli_is_channel(copy->store, copy->name)
			       ? cli_channel_failed(copy->name)
			       : EXIT_DONE;
	}
	if (tarn_store_list(copy->store, copy->name, count, &copy->tensors) < 0)
		return print_error();
	return EXIT_DONE;
}

int node_copy_failed(const struct node_copy *copy, int error)
{
	bool folder = is_folder(copy->name);

	print_error();
	if (error == -ENOENT && (folder || !cli_hint_folder(copy->store,
						   copy->name, NULL, NULL)))
		cli_hint_name(copy->store, copy->name);
	return EXIT_FAILED;
}

int node_copy_to(struct node_copy *copy, int node)
{
	struct progress_bar progress;
	const struct tarn_replicate_options options = {
		.progress = progress_step, .arg = &progress};
	double begun = clock_seconds(CLOCK_MONOTONIC);
	int r;

	copy->node = node;
	progress_begin(&progress);
	r = copy->fn(copy->store, copy->name, node, &options, &copy->bytes);
	progress_end(&progress);
	copy->seconds = clock_seconds(CLOCK_MONOTONIC) - begun;
	return r < 0 ? node_copy_failed(copy, r) : EXIT_DONE;
}

void node_copy_print_name(const struct node_copy *copy)
{
	text_put(stdout, *copy->name ? copy->name : "all");
	fputs(":", stdout);
	if (is_folder(copy->name))
		printf(" %zu tensor%s", copy->tensors,
			copy->tensors == 1 ? "" : "s");
}

void node_copy_print(const struct node_copy *copy)
{
	bool folder = is_folder(copy->name);
	char bytes[SIZE_TEXT_MAX];

	node_copy_print_name(copy);
	if (!copy->bytes)
		printf(" %s on node %d already\n",
			folder && copy->tensors != 1 ? "are" : "is",
			copy->node);
	else
		printf("%s %s %s to node %d in %.3f s\n", folder ? "," : "",
			size_text((double)copy->bytes, bytes), copy->done,
			copy->node, copy->seconds);
}

void node_copy_json(const struct node_copy *copy, json_t *object)
{
	json_put(object, "node", json_u64((uint64_t)copy->node));
	json_put(object, "bytes", json_u64(copy->bytes));
	json_put(object, "seconds", json_real(copy->seconds));
}
