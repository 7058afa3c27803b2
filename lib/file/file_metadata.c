/* SPDX-License-Identifier: MIT */
/*
 * A file's metadata: pairs of strings, in the order of the file, and found by
 * key. A file with checksums has a pair for each of its tensors, and a
 * verification looks up each of them; so the first look-up indexes all keys. In
 * most files there is never a look-up.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/file/file.h"

/* So few are searched one by one: picked, an index of them is no quicker. */
enum { WALKED = 8 };

struct metadata_index {
	struct name_index keys;
	struct arena arena;
};

size_t tarn_file_metadata_count(const tarn_file *file)
{
	return file->pair_count;
}

int tarn_file_metadata_at(const tarn_file *file, size_t i, const char **ret_key,
	const char **ret_value)
{
	if (i >= file->pair_count)
		return tarn_fail(ERANGE,
			"%s: there is no metadata pair %zu "
			"among %zu",
			file->path, i, file->pair_count);
	*ret_key = file->pairs[i].key;
	*ret_value = file->pairs[i].value;
	return 0;
}

/* ---- by key ---------------------------------------------------------- */

struct metadata_index *metadata_index_free(struct metadata_index *index)
{
	if (index)
		arena_free(&index->arena);
	free(index);
	return NULL;
}

static const struct file_pair *find(const struct tarn_file *file,
	const struct metadata_index *index, const char *key,
	struct name_state *state)
{
	int64_t i;

	while ((i = name_index_next(&index->keys, key, strlen(key), state)) >=
		0)
		if (!strcmp(file->pairs[i].key, key))
			return &file->pairs[i];
	return NULL;
}

/* NULL: out of memory. */
static struct metadata_index *make_index(const struct tarn_file *file)
{
	struct metadata_index *index = calloc(1, sizeof(*index));

	if (!index || name_index_init(&index->keys, &index->arena,
			      file->pair_count) < 0)
		return metadata_index_free(index);
	for (size_t i = 0; i < file->pair_count; i++) {
		struct name_state state = {0};

		/* Of two with one key the first counts, as in the search one by
		 * one. */
		if (!find(file, index, file->pairs[i].key, &state))
			name_index_add(&index->keys, &state, (uint32_t)i);
	}
	return index;
}

/* Any thread may be the first to look up. */
static const struct metadata_index *index_of(const struct tarn_file *file)
{
	/* All other fields are constant once the file is open. */
	struct tarn_file *f = (struct tarn_file *)file;
	struct metadata_index *seen, *made;

	/* Acquire: pairs with the release of the exchange below, in the thread
	 * that made it. */
	seen = atomic_load_explicit(&f->by_key, memory_order_acquire);
	if (seen)
		return seen;
	made = make_index(file);
	/* Release: pairs with the acquire loads above and here, so that a
	 * thread that finds the index finds its content. */
	if (!made || atomic_compare_exchange_strong_explicit(&f->by_key, &seen,
			     made, memory_order_release, memory_order_acquire))
		return made;
	metadata_index_free(made); /* another thread was quicker */
	return seen;
}

const struct file_pair *file_metadata_find(
	const struct tarn_file *file, const char *key)
{
	const struct metadata_index *index = NULL;
	struct name_state state = {0};

	if (file->pair_count > WALKED)
		index = index_of(file);
	if (index)
		return find(file, index, key, &state);
	for (size_t i = 0; i < file->pair_count; i++)
		if (!strcmp(file->pairs[i].key, key))
			return &file->pairs[i];
	return NULL;
}
