/* SPDX-License-Identifier: MIT */
/*
 * All tensors of a file to memory of a device: tarn_cuda_load.
 *
 * The bytes of a file go to one storage as they lie in the file, in one copy at
 * the speed of the disk and the link, whatever the number of tensors. Where that
 * storage begins is chosen so that most bytes belong to tensors that are aligned
 * as kernels for the device want them; the others are then copied within the
 * device, which takes a fraction of the time.
 */
#include <stdlib.h>
#include <string.h>

#include <tarn/copy.h>
#include <tarn/cuda.h>
#include <tarn/file.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/store/device_storage.h"
#include "lib/tensor/tensor.h"

/* The widest load of a kernel's thread. */
#define ALIGN 16u

struct loading {
	const struct tarn_cuda_device *device;
	struct tarn_copy_options options;
	struct tarn_copy_info info; /* summed */
};

/* ---- alignment ----------------------------------------------------------- */

/* Where the storage's first byte must lie past an aligned address, so that as
 * many bytes as possible belong to aligned tensors. offsets are those in the
 * storage. */
static unsigned choose_lead(
	const struct tarn_file_entry *entries, size_t n, uint64_t begin)
{
	uint64_t bytes[ALIGN] = {0};
	unsigned best = 0;

	for (size_t i = 0; i < n; i++)
		bytes[(entries[i].file_offset - begin) % ALIGN] +=
			entries[i].nbytes;
	for (unsigned i = 1; i < ALIGN; i++)
		if (bytes[i] > bytes[best])
			best = i;
	return (ALIGN - best) % ALIGN;
}

static bool is_aligned(
	const struct tarn_file_entry *entry, uint64_t begin, unsigned lead)
{
	/* One with strides is a view of another tensor, and stays one if its
	 * elements can be addressed. */
	uint64_t align = entry->stride
				 ? (uint64_t)tarn_dtype_bits(entry->dtype) / 8
				 : ALIGN;

	return !entry->nbytes ||
	       (entry->file_offset - begin + lead) % align == 0;
}

/* ---- one file ------------------------------------------------------------ */

static void add(struct tarn_copy_info *sum, const struct tarn_copy_info *one)
{
	sum->bytes += one->bytes;
	sum->read += one->read;
	sum->cached += one->cached;
	sum->direct += one->direct;
	sum->requests += one->requests;
	sum->seconds += one->seconds;
	sum->cpu_seconds += one->cpu_seconds;
	sum->engine = one->engine;
}

/* The whole data range, after lead bytes. */
static int load_range(struct loading *l, tarn_storage *range, unsigned lead,
	tarn_storage **ret)
{
	_cleanup_tensor_ tarn_tensor *src = NULL, *dst = NULL;
	_cleanup_storage_ tarn_storage *arena = NULL;
	uint64_t size = tarn_storage_size(range);
	struct tarn_copy_info info;
	int r = tarn_cuda_alloc(l->device, size + lead, &arena);

	if (r >= 0)
		r = tensor_of_bytes(range, 0, size, &src);
	if (r >= 0)
		r = tensor_of_bytes(arena, lead, size, &dst);
	if (r >= 0)
		r = tarn_copy(dst, src, &l->options, &info);
	if (r < 0)
		return r;
	add(&l->info, &info);
	*ret = STEAL(arena);
	return 0;
}

/* As bytes: what lies between elements goes along, and one that several places
 * of a tensor share goes once. */
static int move_bytes(
	tarn_storage *to, uint64_t at, const tarn_tensor *from, uint64_t n)
{
	_cleanup_tensor_ tarn_tensor *src = NULL, *dst = NULL;
	int r = tensor_of_bytes(from->storage, from->base, n, &src);

	if (r >= 0)
		r = tensor_of_bytes(to, at, n, &dst);
	return r < 0 ? r : tarn_copy(dst, src, NULL, NULL);
}

/* Tensors that are not aligned, to a storage where they are. */
static int realign(struct loading *l, tarn_tensor **tensors, size_t n,
	const struct tarn_file_entry *entries, uint64_t begin, unsigned lead)
{
	_cleanup_storage_ tarn_storage *arena = NULL;
	uint64_t size = 0, at = 0;
	int r = 0;

	for (size_t i = 0; i < n; i++)
		if (!is_aligned(&entries[i], begin, lead) &&
			(add_u64(size, entries[i].nbytes, &size) ||
				round_up_u64(size, ALIGN, &size)))
			return tarn_fail(
				EOVERFLOW, "the tensors are too large");
	if (!size)
		return 0;
	r = tarn_cuda_alloc(l->device, size, &arena);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		tarn_tensor *moved;

		if (is_aligned(&entries[i], begin, lead))
			continue;
		r = tarn_tensor_new(arena, at, &tensors[i]->layout, &moved);
		if (r < 0)
			break;
		r = move_bytes(arena, at, tensors[i], entries[i].nbytes);
		tarn_tensor_unref(tensors[i]);
		tensors[i] = moved;
		at += (entries[i].nbytes + ALIGN - 1) / ALIGN * ALIGN;
	}
	return r;
}

/* n tensors that follow each other in one file, whose data range is a storage
 * that begins at begin. */
static int load_tensors(struct loading *l, tarn_storage *range, uint64_t begin,
	const struct tarn_file_entry *entries, size_t n, tarn_tensor **ret)
{
	_cleanup_storage_ tarn_storage *arena = NULL;
	unsigned lead = choose_lead(entries, n, begin);
	int r = load_range(l, range, lead, &arena);

	for (size_t i = 0; r >= 0 && i < n; i++) {
		struct tarn_layout layout;

		r = tarn_file_entry_layout(&entries[i], &layout);
		if (r >= 0)
			r = tarn_tensor_new(arena,
				lead + entries[i].file_offset - begin, &layout,
				&ret[i]);
	}
	return r < 0 ? r : realign(l, ret, n, entries, begin, lead);
}

static int load_file(struct loading *l, tarn_file *file, tarn_tensor **ret)
{
	size_t n = tarn_file_count(file);
	_cleanup_tensor_ tarn_tensor *any = NULL;
	const struct tarn_file_entry *entries;
	uint64_t begin, size;
	int r;

	if (!n)
		return 0;
	entries = tarn_file_at(file, 0);
	tarn_file_data_range(file, &begin, &size);
	r = tarn_file_tensor(file, entries->name, &any);
	return r < 0 ? r
		     : load_tensors(l, tarn_tensor_storage(any), begin, entries,
			       n, ret);
}

/* ---- all ----------------------------------------------------------------- */

/* A shard's tensors are those of the index that are in it, in its order. */
static int load_shard(
	struct loading *l, tarn_file *file, size_t shard, tarn_tensor **ret)
{
	tarn_file *part = tarn_file_shard(file, shard);
	size_t n = tarn_file_count(part), all = tarn_file_count(file);
	tarn_tensor **own = calloc(n + 1, sizeof(*own));
	int r = own ? load_file(l, part, own)
		    : tarn_fail(ENOMEM, "no memory for %zu tensors", n);

	for (size_t i = 0; r >= 0 && i < all; i++) {
		const struct tarn_file_entry *entry = tarn_file_at(file, i);
		const struct tarn_file_entry *in_part;

		if (entry->shard != shard)
			continue;
		in_part = tarn_file_find(part, entry->name);
		ret[i] = tarn_tensor_ref(own[in_part - tarn_file_at(part, 0)]);
	}
	for (size_t i = 0; own && i < n; i++)
		tarn_tensor_unref(own[i]);
	free(own);
	return r;
}

static int load_all(struct loading *l, tarn_file *file, tarn_tensor **ret)
{
	size_t shards = tarn_file_shard_count(file);
	int r = 0;

	if (tarn_file_shard(file, 0) == file)
		return load_file(l, file, ret);
	for (size_t i = 0; r >= 0 && i < shards; i++)
		r = load_shard(l, file, i, ret);
	return r;
}

int tarn_cuda_load(tarn_file *file, const struct tarn_cuda_device *device,
	const struct tarn_copy_options *options,
	struct tarn_copy_info *ret_info, tarn_tensor **ret)
{
	struct loading l = {.device = device};
	size_t n = tarn_file_count(file);
	tarn_tensor **tensors = calloc(n + 1, sizeof(tarn_tensor *));
	int r;

	if (!tensors)
		return tarn_fail(ENOMEM, "no memory for %zu tensors", n);
	/* Not what changes elements: bytes are copied. */
	if (options)
		l.options = (struct tarn_copy_options) {
			.threads = options->threads,
			.io_mode = options->io_mode,
			.engine = options->engine,
			.progress = options->progress,
			.arg = options->arg,
			.cuda_stream = options->cuda_stream,
		};
	r = load_all(&l, file, tensors);
	if (r >= 0)
		memcpy(ret, tensors, n * sizeof(tarn_tensor *));
	for (size_t i = 0; r < 0 && i < n; i++)
		tarn_tensor_unref(tensors[i]);
	free(tensors);
	if (r < 0)
		return tarn_fail_prefix(
			r, "%s: to a device: ", tarn_file_path(file));
	if (ret_info)
		*ret_info = l.info;
	return 0;
}
