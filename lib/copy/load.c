// SPDX-License-Identifier: MIT
/*
 * A tensor of a file gets an address without a copy: it is mapped. What is not
 * in the page cache yet is read into it first, all at once: by large folios
 * that costs a quarter of what memory of its own does, which must be zeroed
 * before it is read into, and the next process finds it there. A network is
 * different: only many requests at once hide how far away it is, and faults
 * are one after the other; from there it is read to memory.
 */
#include <tarn/copy.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/copy/mover.h"
#include "lib/copy/times.h"
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

/* Whether they are used or not: what is wrong is not right because the file
 * happens to be in the page cache today. */
static int check(const tarn_tensor *src, const struct tarn_copy_options *o)
{
	struct tarn_copy_options checked;

	if (!o)
		return 0;
	checked = *o;
	return copy_check_options(&src->layout, &checked);
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

/* All at once; in pieces for who wants to be told of them. */
static int map(tarn_file *file, const char *name, uint64_t cold,
	const struct tarn_copy_options *o, tarn_tensor **ret)
{
	bool told = cold && o && o->progress;
	tarn_tensor *tensor;
	int r;

	r = tarn_file_map(
		file, name, cold && !told ? TARN_MAP_POPULATE : 0, &tensor);
	if (r >= 0 && told) {
		r = file_map_read(tensor, cold, o->progress, o->arg);
		if (r < 0) {
			tarn_tensor_unref(tensor);
			r = tarn_fail_prefix(r, "%s: ", file->path);
		}
	}
	if (r >= 0)
		*ret = tensor;
	return r;
}

int tarn_file_load(tarn_file *file, const char *name,
	const struct tarn_copy_options *options,
	struct tarn_copy_info *ret_info, tarn_tensor **ret)
{
	_cleanup_tensor_ tarn_tensor *src = NULL;
	struct tarn_copy_info info = {.engine = "mapped"};
	const struct storage_file *bytes;
	uint64_t offset;
	bool cached;
	int r = find(file, name, &src);

	if (r >= 0)
		r = check(src, options);
	if (r < 0)
		return r;
	copy_begin_times(&info);
	bytes = storage_file(src->storage);
	offset = bytes->offset + src->base;
	info.bytes = (uint64_t)tarn_layout_nbytes(&src->layout);
	cached = road_mostly_cached(bytes->fd, offset, offset + info.bytes);
	if (!may_map(options) ||
		(!cached && road_file_system(bytes->fd) == ROAD_FS_REMOTE))
		return read_in(src, offset, info.bytes, options, ret_info, ret);
	info.read = cached ? 0 : info.bytes;
	r = map(file, name, info.read, options, ret);
	/* Its file system maps no files, or there is no room for it. */
	if (r == -ENODEV || r == -ENOMEM)
		return read_in(src, offset, info.bytes, options, ret_info, ret);
	copy_end_times(&info);
	if (r >= 0 && ret_info)
		*ret_info = info;
	return r;
}
