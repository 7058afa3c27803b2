// SPDX-License-Identifier: MIT
/*
 * A table that is kept beside the first file of its source. Its name has a hash of
 * what it was made of: sizes and times of all files, windows and groups; so another
 * corpus, or another length, has another one. Its last two words are a hash of the
 * others, since a table that is slightly wrong would show other samples, and no
 * error.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "lib/data/dataset.h"
#include "lib/data/side_car.h"
#include "lib/tensor/tensor.h"

/* False: it is no file, and others may have its bytes. */
static bool stamp_of(const tarn_storage *storage, uint64_t hash[2])
{
	const struct storage_file *file =
		storage ? storage_file(storage) : NULL;

	if (!file || !file->parsed)
		return false;
	data_hash(&file->seen.size, sizeof(file->seen.size), hash);
	data_hash(&file->seen.mtime, sizeof(file->seen.mtime), hash);
	return true;
}

static bool stamps_of(const tarn_data_source *source, uint64_t hash[2])
{
	for (size_t i = 0; i < source->n_parts; i++) {
		const struct data_part *p = &source->parts[i];

		if (!stamp_of(p->storage, hash) ||
			(p->index.kind != DATA_WHOLE &&
				!stamp_of(p->index.storage, hash)))
			return false;
	}
	return source->n_parts > 0;
}

/* NULL: the source is not of files alone, or there is no memory. */
static char *path_of(const struct data_stream *stream,
	const struct data_shape *shape, uint32_t group)
{
	const uint64_t words[] = {stream->mark[0], stream->mark[1],
		(uint64_t)shape->windows, shape->seq_len, group};
	uint64_t hash[2] = {0, 0};
	char *path;

	data_hash(words, sizeof(words), hash);
	if (!stamps_of(stream->source, hash) ||
		asprintf(&path, "%s.%016" PRIx64 ".tarn-table.npy",
			stream->source->parts[0].name, hash[0]) < 0)
		return NULL;
	return path;
}

static void hash_of(const uint64_t *words, int64_t n, uint64_t ret[2])
{
	ret[0] = ret[1] = 0;
	data_hash(words, (size_t)n * sizeof(*words), ret);
}

/* A table in memory, if its hash is right. most: no table here has more words. */
static int read_table(const char *path, uint64_t most, tarn_tensor **ret)
{
	_cleanup_tensor_ tarn_tensor *file = NULL, *all = NULL;
	const uint64_t *words;
	uint64_t hash[2];
	int64_t n;
	int r = side_car_read(path, &file);

	if (r < 0)
		return r;
	n = file->layout.shape[0] - 2;
	if (file->layout.dtype != TARN_U64 || file->layout.ndim != 1 || n < 1 ||
		(uint64_t)n > most)
		return tarn_fail(EBADMSG, "%.300s: this is no table", path);
	r = tarn_tensor_clone(file, &all);
	if (r < 0)
		return r;
	words = tarn_tensor_data(all);
	hash_of(words, n, hash);
	if (memcmp(hash, words + n, sizeof(hash)) != 0)
		return tarn_fail(EBADMSG, "%.300s: its hash is wrong", path);
	return tarn_tensor_narrow(all, 0, 0, n, ret);
}

static void write_table(const char *path, const tarn_tensor *table)
{
	_cleanup_tensor_ tarn_tensor *all = NULL;
	int64_t n = table->layout.shape[0], more = n + 2;
	uint64_t *words;

	/* Without it the table is computed again next time. */
	if (tarn_tensor_zeros(TARN_U64, 1, &more, &all) < 0)
		return;
	words = tarn_tensor_data(all);
	memcpy(words, tarn_tensor_data(table), (size_t)n * sizeof(*words));
	hash_of(words, n, words + n);
	side_car_write(path, all);
}

int data_table_make_beside(struct data_table *table,
	const struct data_stream *stream, const struct data_shape *shape,
	uint32_t group, const struct tarn_data_options *options)
{
	_cleanup_free_ char *path = path_of(stream, shape, group);
	_cleanup_tensor_ tarn_tensor *given = NULL;
	/* A word for each group, and a few before and behind them. */
	uint64_t most = stream->source->n_documents / group + 16;
	int r;

	if (path && read_table(path, most, &given) >= 0 &&
		data_table_make(table, stream, shape, group, given, options) >=
			0)
		return 0;
	r = data_table_make(table, stream, shape, group, NULL, options);
	if (r >= 0 && path)
		write_table(path, table->tensor);
	return r;
}
