// SPDX-License-Identifier: MIT
/*
 * Shards of one source, as they are used. There may be more than a process may
 * have files open, so those that were used longest ago are closed, and opened
 * again by their paths. What is there then must be the file that was there before.
 */
#include "lib/data/shard.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "lib/data/dataset.h"
#include "lib/data/side_car.h"
#include "lib/tensor/tensor.h"

/* ---- one shard ------------------------------------------------------------------ */

int data_shard_open_file(const struct data_shard *shard, tarn_storage **ret,
	struct file_identity *ret_seen)
{
	const char *path = shard->path;
	/* A fifo without a writer would block. */
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return tarn_fail(
			errno, "%.300s: %s", path, tarn_errno_text(errno));
	if (!S_ISREG(st.st_mode))
		return tarn_fail(S_ISDIR(st.st_mode) ? EISDIR : EBADMSG,
			"%.300s: shards are regular files", path);
	r = identity_of(fd, ret_seen);
	if (r >= 0 && shard->is_seen)
		r = identity_compare_bytes(
			&shard->seen, ret_seen, "after it was opened first");
	if (r >= 0)
		r = tarn_storage_from_fd(fd, 0, ret_seen->size, ret);
	if (r < 0)
		return tarn_fail_prefix(r, "%.300s: ", path);
	storage_file_parsed((*ret)->arg, ret_seen);
	return 0;
}

int data_shard_index_path(const struct data_shard *shard, char **ret)
{
	if (asprintf(ret, "%s.tarn-index", shard->path) >= 0)
		return 0;
	*ret = NULL;
	return tarn_fail_constant(ENOMEM, "data: no memory for a path");
}

int data_shard_open_index(
	struct data_shard *shard, struct shard_index_head *head)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_tensor_ tarn_tensor *index = NULL;
	int r = data_shard_index_path(shard, &path);

	if (r >= 0)
		r = side_car_read(path, &index);
	if (r >= 0)
		r = shard_index_check(index, &shard->seen, head);
	if (r >= 0)
		shard->index = STEAL(index);
	return r;
}

void data_shard_close(struct data_shard *shard)
{
	shard->storage = tarn_storage_unref(shard->storage);
	if (!shard->index_kept)
		shard->index = tarn_tensor_unref(shard->index);
}

struct data_shards *data_shards_free(struct data_shards *shards)
{
	if (!shards)
		return NULL;
	for (size_t i = 0; i < shards->n; i++) {
		shards->at[i].index_kept = false;
		data_shard_close(&shards->at[i]);
		free(shards->at[i].path);
	}
	fork_lock_end(&shards->lock);
	free(shards->at);
	free(shards);
	return NULL;
}

/* ---- use ----------------------------------------------------------------------------- */

/* Those without records begin where the next one does. */
size_t data_shards_find(const struct data_shards *shards, uint64_t record)
{
	size_t low = 0, high = shards->n;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (shards->at[middle].first <= record)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static void close_oldest(struct data_shards *shards)
{
	struct data_shard *oldest = NULL;

	for (size_t i = 0; i < shards->n; i++) {
		struct data_shard *shard = &shards->at[i];

		if (shard->storage && (!oldest || shard->used < oldest->used))
			oldest = shard;
	}
	if (!oldest)
		return;
	data_shard_close(oldest);
	shards->open--;
}

/* With the lock. */
static int open_again(struct data_shards *shards, struct data_shard *shard)
{
	struct shard_index_head head;
	struct file_identity seen;
	int r;

	if (shards->open >= shards->open_max)
		close_oldest(shards);
	r = data_shard_open_file(shard, &shard->storage, &seen);
	if (r < 0)
		return r;
	shards->open++;
	if (shard->index)
		return 0;
	r = data_shard_open_index(shard, &head);
	if (r >= 0 && memcmp(&head, &shard->head, sizeof(head)) != 0) {
		shard->index = tarn_tensor_unref(shard->index);
		r = tarn_fail_constant(
			ESTALE, "the index beside it is another by now");
	}
	if (r >= 0)
		return 0;
	shard->storage = tarn_storage_unref(shard->storage);
	shards->open--;
	return tarn_fail_prefix(r, "%.300s: ", shard->path);
}

int data_shards_use(struct data_shards *shards, size_t i,
	tarn_storage **ret_storage, tarn_tensor **ret_index)
{
	struct data_shard *shard = &shards->at[i];
	int r = 0;

	pthread_mutex_lock(&shards->lock.mutex);
	if (!shard->storage)
		r = open_again(shards, shard);
	if (r >= 0) {
		shard->used = ++shards->uses;
		*ret_storage = tarn_storage_ref(shard->storage);
		if (ret_index)
			*ret_index = tarn_tensor_ref(shard->index);
	}
	pthread_mutex_unlock(&shards->lock.mutex);
	return r;
}

/* ---- marks ---------------------------------------------------------------------------- */

/* Picked: as of files with tokens. */
#define MARK_BYTES 4096u
#define MARK_SHARDS 16u

/* The head has times, which are no part of it. */
static int mark_shard(const tarn_tensor *index, uint64_t hash[2])
{
	uint64_t skip = sizeof(struct shard_index_head);
	uint64_t all = (uint64_t)index->layout.shape[0] - skip;
	uint64_t n = MIN(all, MARK_BYTES);
	char buf[MARK_BYTES];
	int r = 0;

	for (int end = 0; r >= 0 && end < 2; end++) {
		r = tarn_storage_read(index->storage,
			index->base + (uint64_t)index->layout.offset + skip +
				(end ? all - n : 0),
			buf, n);
		if (r >= 0)
			data_hash(buf, n, hash);
	}
	return r;
}

int data_shards_mark(struct data_shards *shards, uint64_t hash[2])
{
	size_t step = shards->n / MARK_SHARDS + 1;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < shards->n; i++) {
		const struct data_shard *shard = &shards->at[i];
		const uint64_t sizes[] = {shard->head.n_records,
			shard->head.n_fields, shard->head.shard_size};
		_cleanup_storage_ tarn_storage *storage = NULL;
		_cleanup_tensor_ tarn_tensor *index = NULL;

		data_hash(sizes, sizeof(sizes), hash);
		if (i % step)
			continue;
		r = data_shards_use(shards, i, &storage, &index);
		if (r >= 0)
			r = mark_shard(index, hash);
	}
	return r;
}
