/* SPDX-License-Identifier: MIT */
/*
 * tarn copy: tensors of a file, or a published one, become a file, changed on
 * the way if that is asked for.
 *
 * Checksums go along. A tensor that stays what it is must have its old one in
 * the new file too, so that damage is found here and not copied on; one that
 * changes gets a new one.
 */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/address.h"
#include "cli/change.h"
#include "cli/message.h"
#include "cli/sink.h"
#include "cli/source.h"
#include "cli/store.h"

struct copy {
	struct cli_source source;
	struct sink sink;
	struct change change;
	const char *expr; /* NULL: none */
	const char *name;
	struct tarn_save_item *items;
	struct tarn_copy_options *converts; /* of each item */
	tarn_tensor **views;
	size_t changed;
};

static void copy_free(struct copy *copy)
{
	for (size_t i = 0; copy->views && i < copy->source.n; i++)
		tarn_tensor_unref(copy->views[i]);
	free(copy->views);
	free(copy->converts);
	free(copy->items);
	cli_source_free(&copy->source);
	sink_free(&copy->sink);
	change_free(&copy->change);
}

/* ---- metadata ------------------------------------------------------ */

/* The size that an index speaks of is that of its own shards. */
static bool is_of_index(const tarn_file *file, const char *key)
{
	return tarn_file_shard(file, 0) != file &&
	       strcmp(key, "total_size") == 0;
}

static void add_pairs(struct sink *sink, const tarn_file *file)
{
	for (size_t i = 0; i < tarn_file_metadata_count(file); i++) {
		const char *key, *value;

		if (tarn_file_metadata_at(file, i, &key, &value) < 0 ||
			strncmp(key, "xxh3:", 5) == 0 || is_of_index(file, key))
			continue;
		sink_add_metadata(sink, key, value);
	}
}

static void keep_metadata(struct copy *copy)
{
	tarn_file *file = copy->source.file;

	if (!file || sink_is_npy(&copy->sink))
		return;
	add_pairs(&copy->sink, file);
	for (size_t i = 0; i < tarn_file_shard_count(file); i++)
		add_pairs(&copy->sink, tarn_file_shard(file, i));
}

/* ---- tensors ------------------------------------------------------- */

static int view(struct copy *copy, size_t i)
{
	struct source_one *one = &copy->source.at[i];

	if (!copy->expr) {
		copy->views[i] = tarn_tensor_ref(one->tensor);
		return EXIT_DONE;
	}
	if (tarn_tensor_eval_copy(one->tensor, copy->expr, &copy->views[i]) < 0)
		return print_failure(
			"tensor '%s': %s", one->name, tarn_error_message());
	return EXIT_DONE;
}

static int make_item(struct copy *copy, size_t i)
{
	struct source_one *one = &copy->source.at[i];
	struct tarn_save_item *item = &copy->items[i];
	int r = view(copy, i);

	if (r != EXIT_DONE)
		return r;
	item->name = copy->name ? copy->name : one->name;
	item->tensor = copy->views[i];
	if (change_concerns(&copy->change,
		    tarn_tensor_layout(item->tensor)->dtype,
		    copy->source.alone)) {
		copy->changed++;
		return change_apply(&copy->change, item, &copy->converts[i]);
	}
	if (one->summed && !copy->expr && copy->sink.save.checksums)
		item->checksum = &one->checksum;
	return EXIT_DONE;
}

static int make_items(struct copy *copy)
{
	size_t n = copy->source.n;
	int r = EXIT_DONE;

	copy->items = must(calloc(n + 1, sizeof(copy->items[0])));
	copy->views = must(calloc(n + 1, sizeof(copy->views[0])));
	copy->converts = must(calloc(n + 1, sizeof(copy->converts[0])));
	for (size_t i = 0; i < n; i++)
		if (copy->source.at[i].summed && !sink_is_npy(&copy->sink))
			copy->sink.save.checksums = true;
	for (size_t i = 0; r == EXIT_DONE && i < n; i++)
		r = make_item(copy, i);
	return r;
}

/* ---- all of it ----------------------------------------------------- */

static int print_result(
	const struct copy *copy, const struct tarn_copy_info *info)
{
	const struct sink *sink = &copy->sink;
	json_t *object;

	if (sink->json) {
		object = sink_json(sink, copy->source.n, info);
		json_put(object, "converted", json_u64(copy->changed));
		return json_print(object);
	}
	sink_print(sink, copy->source.n, info);
	if (copy->change.dtype || copy->change.n)
		printf("; converted %zu", copy->changed);
	putchar('\n');
	return EXIT_DONE;
}

static int run(struct copy *copy, const char *address, const char *socket)
{
	struct tarn_copy_info info;
	int r = cli_source_open(address, socket, &copy->source);

	if (r != EXIT_DONE)
		return r;
	if (copy->source.n != 1 && copy->source.file &&
		(sink_is_npy(&copy->sink) || copy->name))
		return address_no_tensor(copy->source.path);
	keep_metadata(copy);
	r = cli_source_read_checksums(&copy->source);
	if (r == EXIT_DONE)
		r = make_items(copy);
	if (r != EXIT_DONE)
		return r;
	if (sink_save(&copy->sink, copy->items, copy->source.n, &info) < 0)
		return EXIT_FAILED;
	return print_result(copy, &info);
}

/* "tarn copy FILE '[0:10]'" forgot something, and would make a file. */
static bool is_expr(const char *text)
{
	size_t n = strlen(text);

	return n > 2 && ((text[0] == '[' && text[n - 1] == ']') ||
				(text[0] == '.' && text[n - 1] == ')'));
}

int cmd_copy(int argc, char **argv)
{
	__attribute__((__cleanup__(copy_free))) struct copy copy = {0};
	const char *socket = NULL;
	const struct option_row rows[] = {
		CHANGE_OPTIONS(&copy.change),
		{.name = "name",
			.letter = 'N',
			.value = "NAME",
			.ret_text = &copy.name,
			.help = "of one tensor: what it is called in DST"},
		SINK_OPTIONS(&copy.sink),
		OPTION_JSON(&copy.sink.json),
		OPTION_SOCKET(&socket),
		OPTION_POOL,
		{0},
	};
	const struct usage usage = {.verb = "copy",
		.arguments = "[OPTION]... FILE[:TENSOR]|NAME [EXPR] DST",
		.about = "Copies the tensors of a file, one of them, or a "
			 "published one into the file\nDST, a .safetensors or "
			 "a .npy. EXPR is a chain of views, which each tensor "
			 "goes\nthrough; 'tarn view --help' has them all. DST "
			 "is replaced whole or not at all,\nand may be FILE. "
			 "Its metadata are kept; what has checksums gets some.",
		.options = rows,
		.args_min = 2,
		.args_max = 3};
	char **args;
	int n, r;

	r = options_parse(&usage, argc, argv, &n, &args);
	if (r != OPTIONS_DONE)
		return r;
	copy.sink.path = args[n - 1];
	if (is_expr(copy.sink.path))
		return usage_failed(&usage, "'%s' is a view; DST is missing",
			copy.sink.path);
	copy.expr = n > 2 && *args[1] ? args[1] : NULL;
	r = sink_parse(&copy.sink, &usage);
	if (r == OPTIONS_DONE)
		r = change_parse(&copy.change, &usage);
	if (r != OPTIONS_DONE)
		return r;
	return run(&copy, args[0], socket);
}
