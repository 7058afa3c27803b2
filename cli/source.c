/* SPDX-License-Identifier: MIT */
/*
 * The tensors that an address stands for. Checksums are looked up in an index
 * made for it: a file may have a hundred thousand of them.
 */
#include "cli/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/save.h>

#include "cli/address.h"
#include "cli/cli.h"
#include "cli/message.h"
#include "cli/store.h"

void cli_source_free(struct cli_source *source)
{
	for (size_t i = 0; i < source->n; i++)
		tarn_tensor_unref(source->at[i].tensor);
	free(source->at);
	free(source->path);
	tarn_file_unref(source->file);
	tarn_store_unref(source->store);
}

/* ---- addresses ----------------------------------------------------- */

static struct source_one *make_room(struct cli_source *source, size_t n)
{
	source->at = must(calloc(n + 1, sizeof(source->at[0])));
	source->alone = n == 1;
	return source->at;
}

static int open_all(struct cli_source *source)
{
	size_t n = tarn_file_count(source->file);
	struct source_one *at = make_room(source, n);

	for (; source->n < n; source->n++, at++) {
		at->name = tarn_file_at(source->file, source->n)->name;
		if (tarn_file_tensor(source->file, at->name, &at->tensor) < 0)
			return print_error();
	}
	return EXIT_DONE;
}

static int open_one(struct cli_source *source, const char *tensor)
{
	struct source_one *at = make_room(source, 1);

	if (tarn_file_tensor(source->file, tensor, &at->tensor) < 0) {
		print_error();
		if (!tarn_file_find(source->file, tensor))
			address_hint(source->file, tensor);
		return EXIT_FAILED;
	}
	at->name = tarn_file_find(source->file, tensor)->name;
	source->n = 1;
	return EXIT_DONE;
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

/* Is it a folder of names? */
static bool hint_folder(tarn_store *store, const char *name)
{
	_cleanup_free_ char *folder = NULL;
	size_t n = 0;

	if (asprintf(&folder, "%s/", name) < 0)
		return false;
	if (tarn_store_list(store, folder, count, &n) < 0 || !n)
		return false;
	print_hint("there %s below it; 'tarn save %s FILE' saves %s",
		n == 1 ? "is a tensor" : "are tensors", name,
		n == 1 ? "it" : "them");
	return true;
}

static int open_name(
	struct cli_source *source, const char *name, const char *socket)
{
	struct source_one *at = make_room(source, 1);
	const char *slash = strrchr(name, '/');
	int r = -ENOENT;

	if (cli_store_find(socket, &source->store) != EXIT_DONE)
		return EXIT_FAILED;
	if (source->store && cli_is_channel(source->store, name))
		return cli_channel_failed(name);
	if (source->store)
		r = tarn_store_lookup(source->store, name, &at->tensor);
	if (r >= 0) {
		source->n = 1;
		at->name = slash ? slash + 1 : name;
		return EXIT_DONE;
	}
	if (r != -ENOENT)
		return print_error();
	print_failure(
		"'%s' is no file, and nothing is published as that", name);
	if (!source->store)
		print_hint("no daemon is running; a FILE needs none");
	else if (!hint_folder(source->store, name))
		cli_hint_name(source->store, name);
	return EXIT_FAILED;
}

int cli_source_open(
	const char *address, const char *socket, struct cli_source *ret)
{
	const char *tensor = NULL;
	bool whole = cli_is_file(address);

	if (whole)
		ret->path = must(strdup(address));
	else
		ret->path = address_file(address, &tensor);
	if (!ret->path)
		return open_name(ret, address, socket);
	if (tarn_file_open(ret->path, &ret->file) < 0)
		return print_error();
	return whole ? open_all(ret) : open_one(ret, tensor);
}

/* ---- checksums ----------------------------------------------------- */

/* A pair of metadata that is a checksum. */
struct sum {
	uint32_t shard;
	const char *name, *digits;
};

static int by_shard_and_name(const void *a, const void *b)
{
	const struct sum *x = a, *y = b;

	if (x->shard != y->shard)
		return x->shard < y->shard ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* All of the file; malloc'ed, sorted. */
static struct sum *read_sums(const tarn_file *file, size_t *ret_n)
{
	size_t shards = tarn_file_shard_count(file), most = 0;
	struct sum *sums;

	for (size_t i = 0; i < shards; i++)
		most += tarn_file_metadata_count(tarn_file_shard(file, i));
	sums = must(calloc(most + 1, sizeof(sums[0])));
	*ret_n = 0;
	for (size_t i = 0; i < shards; i++) {
		const tarn_file *shard = tarn_file_shard(file, i);

		for (size_t k = 0; k < tarn_file_metadata_count(shard); k++) {
			struct sum s = {.shard = (uint32_t)i};

			if (tarn_file_metadata_at(
				    shard, k, &s.name, &s.digits) < 0 ||
				strncmp(s.name, "xxh3:", 5) != 0)
				continue;
			s.name += 5;
			sums[(*ret_n)++] = s;
		}
	}
	qsort(sums, *ret_n, sizeof(sums[0]), by_shard_and_name);
	return sums;
}

static int take_sum(
	const tarn_file *file, const struct sum *sum, struct source_one *one)
{
	char *end;

	one->checksum = strtoull(sum->digits, &end, 16);
	one->summed = true;
	if (strspn(sum->digits, "0123456789abcdefABCDEF") == 16 && !*end)
		return EXIT_DONE;
	/* tarn_file_checksum reports what is wrong. */
	return tarn_file_checksum(file, one->name, &one->checksum) < 0
		       ? print_error()
		       : EXIT_DONE;
}

int cli_source_read_checksums(struct cli_source *source)
{
	_cleanup_free_ struct sum *sums = NULL;
	size_t n_sums;
	int r = EXIT_DONE;

	if (!source->file)
		return EXIT_DONE;
	sums = read_sums(source->file, &n_sums);
	for (size_t i = 0; r == EXIT_DONE && i < source->n; i++) {
		struct source_one *one = &source->at[i];
		const struct tarn_file_entry *t =
			tarn_file_find(source->file, one->name);
		struct sum key = {.shard = t->shard, .name = one->name};
		const struct sum *found = bsearch(
			&key, sums, n_sums, sizeof(sums[0]), by_shard_and_name);

		if (found)
			r = take_sum(source->file, found, one);
	}
	return r;
}
