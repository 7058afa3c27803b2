/* SPDX-License-Identifier: MIT */
/*
 * tarn info: what is in a file, or published below a name. A file is only
 * looked at: no daemon is asked, nothing is loaded.
 */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "cli/json.h"
#include "cli/listing.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/store.h"
#include "cli/text.h"
#include "cli/size.h"

#define METADATA_SHOWN 200 /* bytes of a value; some hold whole documents */

static bool is_index(const tarn_file *file)
{
	return file && tarn_file_shard(file, 0) != file;
}

static json_t *info_json(const char *format, const tarn_file *file,
	const struct listing *listing)
{
	json_t *object = must(json_object()), *metadata = must(json_object());
	size_t n = file ? tarn_file_metadata_count(file) : 0;

	for (size_t i = 0; i < n; i++) {
		const char *key, *value;

		if (tarn_file_metadata_at(file, i, &key, &value) == 0)
			json_put(metadata, key, json_text(value));
	}
	json_put(object, "format", json_text(format));
	if (is_index(file))
		json_put(object, "shards",
			json_u64(tarn_file_shard_count(file)));
	json_put(object, "metadata", metadata);
	json_put(object, "tensors", listing_json(listing, true, !file));
	return object;
}

static void print_metadata(const tarn_file *file)
{
	size_t n = tarn_file_metadata_count(file);

	if (n)
		puts("metadata:");
	for (size_t i = 0; i < n; i++) {
		const char *key, *value;

		if (tarn_file_metadata_at(file, i, &key, &value) < 0)
			continue;
		fputs("  ", stdout);
		text_put(stdout, key);
		fputs(": ", stdout);
		text_put_cut(stdout, value, METADATA_SHOWN);
		putchar('\n');
	}
	if (n && tarn_file_count(file))
		puts("tensors:");
}

/* "2 tensors, 1.46 GiB", and channels if there are any, or those alone. */
static void print_counts(const struct listing *listing)
{
	size_t channels = listing_channels(listing);
	size_t tensors = listing->n - channels;
	char bytes[SIZE_TEXT_MAX];

	if (tensors || !channels)
		printf(", %zu tensor%s, %s", tensors, tensors == 1 ? "" : "s",
			size_text((double)listing_bytes(listing), bytes));
	if (channels)
		printf(", %zu channel%s", channels, channels == 1 ? "" : "s");
	putchar('\n');
}

static int print_info(const char *what, const char *format,
	const tarn_file *file, const struct listing *listing, bool json)
{
	if (json)
		return json_print(info_json(format, file, listing));
	text_put(stdout, what);
	printf(": %s", format);
	if (is_index(file))
		printf(" of %zu file%s", tarn_file_shard_count(file),
			tarn_file_shard_count(file) == 1 ? "" : "s");
	print_counts(listing);
	if (file)
		print_metadata(file);
	listing_print(listing, 2);
	return EXIT_DONE;
}

static int info_file(const char *path, bool json)
{
	_cleanup_listing_ struct listing listing = {0};
	_cleanup_file_ tarn_file *file = NULL;

	if (tarn_file_open(path, &file) < 0)
		return print_error();
	listing_add_file(&listing, file);
	return print_info(path, tarn_file_format(file), file, &listing, json);
}

static int info_name(const char *name, const char *socket, bool json)
{
	_cleanup_listing_ struct listing listing = {0};
	_cleanup_store_ tarn_store *store = NULL;

	if (cli_store_find(socket, &store) != EXIT_DONE)
		return EXIT_FAILED;
	if (store && listing_add_store(&listing, store, name, true) < 0)
		return EXIT_FAILED;
	if (listing.n)
		return print_info(name, "published", NULL, &listing, json);
	print_failure("'%s' is no file, and nothing is published as that, or "
		      "below it",
		name);
	if (store)
		cli_hint_name(store, name);
	else
		print_hint("no daemon is running; a FILE needs none");
	return EXIT_FAILED;
}

int cmd_info(int argc, char **argv)
{
	const char *socket = NULL;
	bool json = false;
	const struct option_row rows[] = {
		OPTION_JSON(&json), OPTION_SOCKET(&socket), OPTION_POOL, {0}};
	const struct usage usage = {.verb = "info",
		.arguments = "[OPTION]... FILE|NAME",
		.about = "What tensors there are in a file, or published as "
			 "NAME or below NAME/. Nothing\nis loaded.",
		.options = rows,
		.args_min = 1,
		.args_max = 1};
	char **args;
	int n, r;

	r = options_parse(&usage, argc, argv, &n, &args);
	if (r != OPTIONS_DONE)
		return r;
	return cli_is_file(args[0]) ? info_file(args[0], json)
				    : info_name(args[0], socket, json);
}
