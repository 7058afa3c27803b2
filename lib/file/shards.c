// SPDX-License-Identifier: MIT
/*
 * A checkpoint in several files, opened by its index as if it were one.
 *
 * Every shard is an open file like any other, and the index is a list of their
 * tensors, each with the number of its shard. The weight_map decides: each
 * tensor that it names must be in the shard that it gives, and other tensors of
 * a shard are not part of the checkpoint.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/file/file.h"
#include "lib/file/shard_index.h"

#define MISSING_SHOWN 3 /* a sentence should not list more */

/* The path below the folder of the index; malloc'ed. */
static char *path_of(const struct tarn_file *file, const char *name)
{
	const char *slash = strrchr(file->path, '/');
	int folder = slash ? (int)(slash - file->path) + 1 : 0;
	char *path;

	if (asprintf(&path, "%.*s%s", folder, file->path, name) < 0)
		return NULL;
	return path;
}

/* ---- opening --------------------------------------------------------- */

static int too_many(size_t i, size_t n)
{
	struct rlimit limit = {0};

	getrlimit(RLIMIT_NOFILE, &limit);
	return tarn_fail(EMFILE,
		"shard %zu of %zu: too many open files; each shard takes one, "
		"and RLIMIT_NOFILE is %llu (ulimit -n raises it)",
		i + 1, n, (unsigned long long)limit.rlim_cur);
}

static bool is_missing(const struct tarn_file *file, const char *name)
{
	_cleanup_free_ char *path = path_of(file, name);
	struct stat st;

	return path && stat(path, &st) < 0 &&
	       (errno == ENOENT || errno == ENOTDIR);
}

/* Names all missing shards, in one sentence. */
static int missing(
	const struct tarn_file *file, const struct shard_index *index)
{
	char text[MISSING_SHOWN * (FILE_TEXT_MAX + 2) + 1] = "";
	size_t n = 0, used = 0;

	for (size_t i = 0; i < index->shard_count; i++) {
		const char *name = index->shards[i];
		char shown[FILE_TEXT_MAX];

		if (!is_missing(file, name))
			continue;
		if (n++ < MISSING_SHOWN)
			used += (size_t)sprintf(text + used, "%s%s",
				used ? ", " : "",
				file_clean(name, strlen(name), shown));
	}
	return tarn_fail(ENOENT, "%zu of its %zu shards %s missing: %s%s", n,
		index->shard_count, n == 1 ? "is" : "are", text,
		n > MISSING_SHOWN ? ", ..." : "");
}

static int open_shard(
	struct tarn_file *file, const struct shard_index *index, size_t i)
{
	_cleanup_free_ char *path = path_of(file, index->shards[i]);
	int r;

	if (!path)
		return file_no_memory("the shards of an index");
	r = file_open_shard(path, file->sharing, &file->shards[i]);
	if (r == -EMFILE)
		return too_many(i, index->shard_count);
	if (r < 0 && is_missing(file, index->shards[i]))
		return missing(file, index);
	if (r < 0)
		return tarn_fail_prefix(
			r, "shard %zu of %zu: ", i + 1, index->shard_count);
	file->shard_count++;
	if (add_u64(file->data_size, file->shards[i]->data_size,
		    &file->data_size))
		return tarn_fail(
			EBADMSG, "its shards have more than 2^64 bytes");
	return 0;
}

static int open_shards(struct tarn_file *file, const struct shard_index *index)
{
	int r = 0;

	/* None is opened if any cannot be used. */
	for (size_t i = 0; i < index->shard_count; i++)
		if (is_missing(file, index->shards[i]))
			return missing(file, index);
	file->shards = calloc(
		MAX(index->shard_count, (size_t)1), sizeof(*file->shards));
	if (!file->shards)
		return file_no_memory("the shards of an index");
	for (size_t i = 0; i < index->shard_count && r >= 0; i++)
		r = open_shard(file, index, i);
	return r;
}

/* ---- the tensors of all ---------------------------------------------- */

static int not_there(const struct tarn_file *file,
	const struct shard_index *index, const struct shard_entry *entry)
{
	char a[FILE_TEXT_MAX], b[FILE_TEXT_MAX], c[FILE_TEXT_MAX];
	const char *name = index->shards[entry->shard];

	file_clean(entry->tensor, entry->size, a);
	file_clean(name, strlen(name), b);
	for (size_t i = 0; i < file->shard_count; i++)
		if (tarn_file_find(file->shards[i], entry->tensor))
			return tarn_fail(EBADMSG,
				"weight_map has tensor '%s' in '%s', but it is "
				"in '%s'",
				a, b,
				file_clean(index->shards[i],
					strlen(index->shards[i]), c));
	return tarn_fail(EBADMSG,
		"weight_map has tensor '%s' in '%s', which has no such tensor",
		a, b);
}

static int by_place(const void *a, const void *b)
{
	const struct tarn_file_entry *x = a, *y = b;

	if (x->shard != y->shard)
		return x->shard < y->shard ? -1 : 1;
	if (x->file_offset != y->file_offset)
		return x->file_offset < y->file_offset ? -1 : 1;
	if (x->nbytes != y->nbytes)
		return x->nbytes < y->nbytes ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* The shards own names and shapes. */
static int collect_tensors(
	struct tarn_file *file, const struct shard_index *index)
{
	file->tensors =
		calloc(MAX(index->count, (size_t)1), sizeof(*file->tensors));
	if (!file->tensors)
		return file_no_memory("the tensors of an index");
	for (size_t i = 0; i < index->count; i++) {
		const struct shard_entry *entry = &index->entries[i];
		const struct tarn_file_entry *tensor = tarn_file_find(
			file->shards[entry->shard], entry->tensor);

		if (!tensor)
			return not_there(file, index, entry);
		file->tensors[i] = *tensor;
		file->tensors[i].shard = entry->shard;
	}
	file->count = index->count;
	qsort(file->tensors, file->count, sizeof(*file->tensors), by_place);
	return file_index(file);
}

int shards_read(struct tarn_file *file)
{
	struct shard_index index;
	int r;

	if (file->part)
		return tarn_fail(EBADMSG,
			"it is JSON; the shards of an index must be tensor "
			"files");
	r = shard_index_read(file, &index);
	if (r < 0)
		return r;
	if (!file->by_path && index.shard_count)
		return tarn_fail(ENOTSUP,
			"an index of shards, which are found beside its path: "
			"open it by that, not by a descriptor");
	file->format = "safetensors index";
	r = open_shards(file, &index);
	return r < 0 ? r : collect_tensors(file, &index);
}

/* ---- what a file is made of ------------------------------------------ */

size_t tarn_file_shard_count(const tarn_file *file)
{
	return file->shards ? file->shard_count : 1;
}

tarn_file *tarn_file_shard(const tarn_file *file, size_t i)
{
	if (i >= tarn_file_shard_count(file))
		return NULL;
	return file->shards ? file->shards[i] : (tarn_file *)file;
}
