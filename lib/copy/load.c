// SPDX-License-Identifier: MIT
/*
 * A tensor of a file gets an address without a copy: the file is mapped. Bytes
 * that are not in the page cache yet are read into it first, all at once: with
 * large folios that costs a quarter of a read into private memory, which must
 * be zeroed before, and the next process finds the bytes there. A network file
 * system is different: only many parallel requests hide its latency, and page
 * faults come one after the other; from there the tensor is read into memory.
 */
#include <tarn/copy.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/copy/copy_op.h"
#include "lib/copy/times.h"
#include "lib/file/file.h"
#include "lib/io/io_mode.h"
#include "lib/tensor/tensor.h"

/* Finds the tensor in the file, or all bytes of it. */
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

/* Checked whether they are used or not: invalid options must not be accepted
 * just because the file happens to be in the page cache today. */
static int check(const tarn_tensor *src, const struct tarn_copy_options *o)
{
	struct tarn_copy_options checked;

	if (!o)
		return 0;
	checked = *o;
	return copy_check_options(&src->layout, &checked);
}

/* A caller that asks for an I/O mode, or for other numbers, asks for a copy. */
static bool may_map(const struct tarn_copy_options *o)
{
	return !o || (o->io_mode == TARN_IO_AUTO && !o->scale && !o->bias);
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

/* All at once; in chunks if there is a progress callback. */
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
	_cleanup_tensor_ tarn_tensor *src = NULL, *mapped = NULL;
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
	cached = io_mostly_cached(bytes->fd, offset, offset + info.bytes);
	if (!may_map(options) ||
		(!cached && io_fs_of(bytes->fd) == IO_FS_REMOTE))
		return read_in(src, offset, info.bytes, options, ret_info, ret);
	info.read = cached ? 0 : info.bytes;
	r = map(file, name, info.read, options, &mapped);
	/* Its file system does not support mmap, or there is no room for it. */
	if (r == -ENODEV || r == -ENOMEM)
		return read_in(src, offset, info.bytes, options, ret_info, ret);
	copy_end_times(&info);
	if (r < 0)
		return r;
	r = storage_file_check(bytes);
	if (r < 0)
		return tarn_fail_prefix(r, "%s: ", file->path);
	if (ret_info)
		*ret_info = info;
	*ret = STEAL(mapped);
	return 0;
}
