// SPDX-License-Identifier: MIT
/*
 * The memory of a load is the tensors' bytes as they lie in the file, so that every
 * node finds each of them at the same place without being told. Each shard begins at
 * the offset in a page that it has in its file: direct reads need no other place.
 */
#include "mpi/source.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include <tarn/publish.h>

#include "base/checked.h"
#include "base/page.h"
#include "mpi/type.h"

void source_close(struct source *source)
{
	for (size_t i = 0; i < source->n_shards; i++)
		tarn_tensor_unref(source->shards[i].bytes);
	free(source->shards);
	tarn_file_unref(source->file);
	*source = (struct source) {0};
}

/* ---- what it is ------------------------------------------------------ */

static int add_shard(
	struct source *source, size_t i, struct digest_state *digest)
{
	tarn_file *file = tarn_file_shard(source->file, i);
	struct source_shard *shard = &source->shards[i];
	struct stat st;
	int64_t mtime;
	int r = tarn_file_bytes(file, &shard->bytes);

	if (r < 0)
		return r;
	tarn_file_data_range(file, &shard->begin, &shard->size);
	if (fstat(tarn_file_fd(file), &st) < 0)
		return tarn_error_set(errno, "%s: fstat: %s",
			tarn_file_path(file), strerror(errno));
	mtime = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	source->mtime_ns = MAX(source->mtime_ns, mtime);
	source->bytes += (uint64_t)st.st_size;
	digest_add(digest, &st.st_size, sizeof(st.st_size));
	digest_add(digest, &mtime, sizeof(mtime));
	if (round_up_u64(source->memory, PAGE, &shard->at) ||
		add_u64(shard->at, shard->begin % PAGE, &shard->at) ||
		add_u64(shard->at, shard->size, &source->memory) ||
		source->memory > INT64_MAX)
		return tarn_error_set(EOVERFLOW,
			"%s: its files have more than 2^63 bytes",
			tarn_file_path(source->file));
	return 0;
}

static void add_text(struct digest_state *digest, const char *text)
{
	digest_add(digest, text, strlen(text) + 1);
}

static int add_tensor(
	struct source *source, size_t i, struct digest_state *digest)
{
	const struct tarn_file_entry *t = tarn_file_at(source->file, i);
	const int64_t numbers[] = {(int64_t)t->file_offset, (int64_t)t->nbytes,
		t->dtype, t->ndim, t->shard};

	if (t->stride || t->fortran_order)
		return tarn_error_set(ENOTSUP,
			"%s: '%s' is not in C order without gaps; load such a "
			"file on each node by itself, or save it again as "
			"safetensors",
			tarn_file_path(source->file), t->name);
	add_text(digest, t->name);
	digest_add(digest, numbers, sizeof(numbers));
	digest_add(digest, t->shape, (size_t)t->ndim * sizeof(*t->shape));
	return 0;
}

static int add_metadata(struct source *source, struct digest_state *digest)
{
	size_t n = tarn_file_metadata_count(source->file);
	const char *key, *value;

	for (size_t i = 0; i < n; i++) {
		int r = tarn_file_metadata_at(source->file, i, &key, &value);

		if (r < 0)
			return r;
		add_text(digest, key);
		add_text(digest, value);
	}
	return 0;
}

static int look(struct source *source, struct digest_state *digest)
{
	size_t n = tarn_file_count(source->file);
	int r = 0;

	for (size_t i = 0; r >= 0 && i < source->n_shards; i++)
		r = add_shard(source, i, digest);
	for (size_t i = 0; r >= 0 && i < n; i++)
		r = add_tensor(source, i, digest);
	return r < 0 ? r : add_metadata(source, digest);
}

int source_open(const char *path, struct source *ret)
{
	struct digest_state *digest = digest_new();
	struct source source = {0};
	int r = digest ? tarn_file_open(path, &source.file) : -ENOMEM;

	if (r >= 0) {
		size_t n = tarn_file_shard_count(source.file);

		source.shards = calloc(n + 1, sizeof(*source.shards));
		source.n_shards = source.shards ? n : 0;
	}
	if (!digest || (r >= 0 && !source.shards))
		r = tarn_error_set(ENOMEM, "%s: out of memory", path);
	if (r >= 0)
		r = look(&source, digest);
	if (r >= 0)
		source.digest = digest_end(digest);
	digest_free(digest);
	if (r < 0)
		source_close(&source);
	*ret = source;
	return r;
}

/* ---- memory ---------------------------------------------------------- */

int source_read(const struct source *source, tarn_stream *stream,
	tarn_tensor *memory, uint64_t begin, uint64_t end, uint64_t user,
	int *ret_copies, uint64_t *ret_bytes)
{
	*ret_copies = 0;
	for (size_t i = 0; i < source->n_shards; i++) {
		const struct source_shard *shard = &source->shards[i];
		uint64_t from = MAX(begin, shard->at),
			 to = MIN(end, shard->at + shard->size);
		_cleanup_tensor_ tarn_tensor *dst = NULL, *src = NULL;
		int64_t n;
		int r;

		if (from >= to)
			continue;
		n = (int64_t)(to - from);
		r = tarn_tensor_narrow(memory, 0, (int64_t)from, n, &dst);
		if (r >= 0)
			r = tarn_tensor_take(dst);
		if (r >= 0)
			r = tarn_tensor_narrow(shard->bytes, 0,
				(int64_t)(from - shard->at), n, &src);
		if (r >= 0)
			r = tarn_stream_copy(
				stream, dst, src, NULL, -1, user, NULL);
		if (r < 0)
			return r;
		++*ret_copies;
		*ret_bytes += (uint64_t)n;
	}
	return 0;
}

int source_tensor(const struct source *source, tarn_storage *memory, size_t i,
	tarn_tensor **ret)
{
	const struct tarn_file_entry *t = tarn_file_at(source->file, i);
	const struct source_shard *shard = &source->shards[t->shard];
	struct tarn_layout layout;
	int r = tarn_file_entry_layout(t, &layout);

	if (r >= 0)
		r = tarn_tensor_new(memory,
			shard->at + (t->file_offset - shard->begin), &layout,
			ret);
	return r;
}
