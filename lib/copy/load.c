// SPDX-License-Identifier: MIT
/*
 * A tensor of a file gets an address by the shorter of two ways: what is in
 * the page cache already is mapped, since a copy would only be slower; what is
 * not is read directly to memory of its own, since the page cache would be a
 * detour. One question to the kernel decides, for all of the bytes.
 */
#include <tarn/copy.h>

#include <time.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/file/file.h"
#include "lib/io/road.h"
#include "lib/tensor/tensor.h"

/* The tensor in the file, or all bytes of it. */
static int find(tarn_file *file, const char *name, tarn_tensor **ret)
{
	int64_t size = (int64_t)file->data_size;
	struct tarn_layout all;
	int r;

	if (name)
		return tarn_file_tensor(file, name, ret);
	if (file->shards)
		return tarn_fail(ENOTSUP,
			"%s: load: an index has no data range of its own; load "
			"its %zu shards one by one",
			file->path, file->shard_count);
	r = tarn_layout_contiguous(TARN_U8, 1, &size, &all);
	return r < 0 ? r : tarn_tensor_new(file->storage, 0, &all, ret);
}

/* Who asks for a road, or for other numbers, asks for a copy. */
static bool may_map(const struct tarn_copy_options *o)
{
	return !o || (o->road == TARN_ROAD_AUTO && !o->scale && !o->bias);
}

static int read_in(const tarn_tensor *src, uint64_t offset, uint64_t size,
	const struct tarn_copy_options *options,
	struct tarn_copy_info *ret_info, tarn_tensor **ret)
{
	_cleanup_storage_ tarn_storage *memory = NULL;
	_cleanup_tensor_ tarn_tensor *dst = NULL;
	int r = storage_alloc_like(size, offset, &memory);

	if (r >= 0)
		r = tarn_tensor_new(memory, 0, &src->layout, &dst);
	if (r >= 0)
		r = tarn_copy(dst, src, options, ret_info);
	if (r >= 0)
		*ret = STEAL(dst);
	return r;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int tarn_file_load(tarn_file *file, const char *name,
	const struct tarn_copy_options *options,
	struct tarn_copy_info *ret_info, tarn_tensor **ret)
{
	_cleanup_tensor_ tarn_tensor *src = NULL;
	struct tarn_copy_info info = {.engine = "mapped"};
	const struct storage_file *bytes;
	uint64_t offset;
	int r = find(file, name, &src);

	if (r < 0)
		return r;
	bytes = storage_file(src->storage);
	offset = bytes->offset + src->base;
	info.bytes = (uint64_t)tarn_layout_nbytes(&src->layout);
	info.seconds = -now();
	if (!may_map(options) ||
		!road_mostly_cached(bytes->fd, offset, offset + info.bytes))
		return read_in(src, offset, info.bytes, options, ret_info, ret);
	r = tarn_file_map(file, name, 0, ret);
	/* A file system that maps no files, or no room for it. */
	if (r < 0)
		return read_in(src, offset, info.bytes, options, ret_info, ret);
	info.seconds += now();
	if (ret_info)
		*ret_info = info;
	return 0;
}
