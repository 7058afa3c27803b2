// SPDX-License-Identifier: MIT
/*
 * The JSON of an index, through jansson as a whole: it names each tensor once
 * without further data, so that even a hundred thousand are quickly read. The
 * metadata's numbers are taken from the text, digit by digit.
 *
 * An index may come from anywhere. All that it controls are the names of its
 * shards, which must not lead out of its folder.
 */
#include "lib/file/shard_index.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/file/file.h"
#include "lib/file/json_tally.h"

/* The limit for a safetensors header, which has more data for each tensor. */
#define TEXT_MAX 100000000

/* A hundred times the number in the largest checkpoints. */
#define SHARDS_MAX 65536

int shard_index_begins(const char *head, size_t size)
{
	const char *p = json_skip_blanks(head, head + size);

	/* The length at the beginning of a safetensors file has zeros in its
	 * upper half, which text never has. */
	return p < head + size && *p == '{' && !memchr(head, 0, MIN(size, 8));
}

/* ---- the names of files ---------------------------------------------- */

static bool leads_out(const char *name)
{
	if (*name == '/')
		return true;
	for (const char *part = name; part; part = strchr(part, '/')) {
		part += *part == '/';
		if (!strncmp(part, "..", 2) && (!part[2] || part[2] == '/'))
			return true;
	}
	return false;
}

static int check_name(const char *tensor, const json_t *value)
{
	const char *name = json_string_value(value);
	char a[FILE_TEXT_MAX], b[FILE_TEXT_MAX];

	file_clean(tensor, strlen(tensor), a);
	if (!name || !*name)
		return tarn_fail(EBADMSG,
			"weight_map gives tensor '%s' no name of a file", a);
	if (leads_out(name))
		return tarn_fail(EBADMSG,
			"weight_map has tensor '%s' in '%s': shards must be "
			"in the folder of the index, or below it",
			a, file_clean(name, strlen(name), b));
	return 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Numbers the names, each once, in order, in a table from name to number. */
static int number_shards(
	struct tarn_file *file, json_t *numbers, struct shard_index *ret)
{
	size_t n = json_object_size(numbers), i = 0;
	const char *key;
	json_t *value;

	ret->shards = arena_array(&file->arena, n, sizeof(*ret->shards));
	if (!ret->shards)
		return file_no_memory("the shards of an index");
	json_object_foreach(numbers, key, value)
	{
		ret->shards[i] = arena_text(&file->arena, key, strlen(key));
		if (!ret->shards[i++])
			return file_no_memory("the shards of an index");
	}
	if (n)
		qsort(ret->shards, n, sizeof(*ret->shards), by_text);
	ret->shard_count = n;
	for (i = 0; i < n; i++)
		json_integer_set(json_object_get(numbers, ret->shards[i]),
			(json_int_t)i);
	return 0;
}

static int collect_shards(const json_t *map, json_t *numbers)
{
	const char *tensor;
	json_t *value;
	int r;

	json_object_foreach((json_t *)map, tensor, value)
	{
		r = check_name(tensor, value);
		if (r < 0)
			return r;
		if (json_object_get(numbers, json_string_value(value)))
			continue;
		if (json_object_size(numbers) == SHARDS_MAX)
			return tarn_fail(EBADMSG,
				"weight_map names more than %d files",
				SHARDS_MAX);
		if (json_object_set_new(numbers, json_string_value(value),
			    json_integer(0)) < 0)
			return file_no_memory("the shards of an index");
	}
	return 0;
}

/* ---- the map --------------------------------------------------------- */

static int read_entries(struct tarn_file *file, const json_t *map,
	const json_t *numbers, struct shard_index *ret)
{
	struct shard_entry *entry;
	const char *tensor;
	json_t *value;

	entry = ret->entries = arena_array(
		&file->arena, json_object_size(map), sizeof(*entry));
	if (!entry)
		return file_no_memory("the tensors of an index");
	json_object_foreach((json_t *)map, tensor, value)
	{
		const json_t *number =
			json_object_get(numbers, json_string_value(value));

		entry->size = strlen(tensor);
		entry->tensor = arena_text(&file->arena, tensor, entry->size);
		entry->shard = (uint32_t)json_integer_value(number);
		if (!entry->tensor)
			return file_no_memory("the tensors of an index");
		entry++;
		ret->count++;
	}
	return 0;
}

static int read_map(
	struct tarn_file *file, const json_t *map, struct shard_index *ret)
{
	json_t *numbers = json_object();
	int r = numbers ? 0 : file_no_memory("the shards of an index");

	if (r >= 0)
		r = collect_shards(map, numbers);
	if (r >= 0)
		r = number_shards(file, numbers, ret);
	if (r >= 0)
		r = read_entries(file, map, numbers, ret);
	json_decref(numbers);
	return r;
}

/* ---- the metadata ---------------------------------------------------- */

/* A string without its quotes; other scalars as they are written. */
static char *scalar(struct tarn_file *file, struct json_text text)
{
	size_t size = (size_t)(text.end - text.at);
	json_t *decoded;
	char *copy = NULL;

	if (*text.at != '"')
		return arena_text(&file->arena, text.at, size);
	decoded = json_loadb(text.at, size, JSON_DECODE_ANY, NULL);
	if (decoded)
		copy = arena_text(&file->arena, json_string_value(decoded),
			json_string_length(decoded));
	json_decref(decoded);
	return copy;
}

/* Lists and objects do not become pairs; null neither. */
static int read_metadata(struct tarn_file *file, struct json_text root)
{
	struct json_value metadata, value;
	struct json_text rest, key;
	char shown[FILE_TEXT_MAX];

	if (!json_count(root, "metadata", &metadata) ||
		*metadata.text.at == 'n')
		return 0;
	rest = metadata.text;
	if (*rest.at != '{')
		return tarn_fail(EBADMSG,
			"metadata is %s, it must be an object",
			file_clean(
				rest.at, (size_t)(rest.end - rest.at), shown));
	file->pairs = arena_array(
		&file->arena, metadata.members, sizeof(*file->pairs));
	if (!file->pairs)
		return file_no_memory("the metadata of a file");
	while (json_next(&rest, &key, &value)) {
		struct file_pair *pair = &file->pairs[file->pair_count];

		if (value.depth || *value.text.at == 'n')
			continue;
		pair->key = scalar(file, key);
		pair->value = scalar(file, value.text);
		if (!pair->key || !pair->value)
			return file_no_memory("the metadata of a file");
		file->pair_count++;
	}
	return 0;
}

/* ---- all of it ------------------------------------------------------- */

static int parse(const char *text, size_t size, json_t **ret)
{
	/* Numbers are read from the text, so none is too large here. */
	const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL;
	const char *nul = json_find_nul((struct json_text) {text, text + size});
	char shown[FILE_TEXT_MAX];
	json_error_t error;

	if (nul)
		return tarn_fail(EBADMSG,
			"it begins like the JSON of an index of shards, but "
			"byte %zu of its %zu is a NUL",
			(size_t)(nul - text), size);
	*ret = json_loadb(text, size, flags, &error);
	if (*ret)
		return 0;
	if (json_error_code(&error) == json_error_out_of_memory)
		return file_no_memory("an index of shards");
	return tarn_fail(EBADMSG,
		"it begins like the JSON of an index of shards, but at byte %d "
		"of its %zu: %s",
		error.position, size,
		file_clean(error.text, strlen(error.text), shown));
}

int shard_index_read(struct tarn_file *file, struct shard_index *ret)
{
	_cleanup_free_ char *text = NULL;
	json_t *root = NULL, *map;
	int r;

	*ret = (struct shard_index) {0};
	if (file->size > TEXT_MAX)
		return tarn_fail(EBADMSG,
			"an index of %llu bytes, at most %d are allowed",
			(unsigned long long)file->size, TEXT_MAX);
	text = malloc(file->size);
	if (!text)
		return file_no_memory("an index of shards");
	r = file_read(file, text, file->size, 0);
	if (r >= 0)
		r = parse(text, file->size, &root);
	if (r < 0)
		return r;
	map = json_object_get(root, "weight_map");
	if (!json_is_object(map))
		r = tarn_fail(EBADMSG,
			"it is JSON, but no index of shards: it has no "
			"weight_map of tensors and files");
	if (r >= 0)
		r = read_map(file, map, ret);
	if (r >= 0)
		r = read_metadata(
			file, (struct json_text) {text, text + file->size});
	json_decref(root);
	return r;
}
