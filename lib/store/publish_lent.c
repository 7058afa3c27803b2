/* SPDX-License-Identifier: MIT */
/*
 * Publishing tensors whose memory on a device other code has allocated, as
 * PyTorch does: the driver exports no such memory, so it is copied within the
 * device. All that one publication copies on a device goes to one storage: each
 * allocation that can be exported is whole granules (2 MiB), and has a
 * descriptor. What tensors share there they share in the copy, too.
 */
#include "lib/store/publish_lent.h"

#include <stdlib.h>
#include <string.h>

#include <tarn/copy.h>
#include <tarn/cuda.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/store/device_storage.h"
#include "lib/tensor/tensor.h"

#define ALIGN 256u /* of each range: that of cudaMalloc */

/* One of the tensors. Those of one device are neighbours, in the order of their
 * addresses: a library that hands out the same memory twice, as PyTorch does for
 * tied weights, lends it in two storages. */
struct lent {
	const tarn_tensor *tensor;
	size_t item;
	uint64_t storage;    /* where its storage begins */
	uint64_t begin, end; /* what it reaches */
	uint64_t at;         /* of the first byte of that, in the copy */
};

bool is_lent(const tarn_tensor *tensor)
{
	return device_storage_is_lent(tensor->storage);
}

/* ---- in order -------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
	const struct lent *x = a, *y = b;
	int r = memcmp(device_storage_uuid(x->tensor->storage),
		device_storage_uuid(y->tensor->storage), 16);

	if (r)
		return r;
	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static int reach(struct lent *lent)
{
	const tarn_storage *storage = lent->tensor->storage;
	const struct tarn_layout *l = &lent->tensor->layout;
	uint64_t bits = (uint64_t)tarn_dtype_bits(l->dtype);
	struct device_bytes bytes;
	int64_t first, count;
	int r = storage->on_device(storage, &bytes);

	if (r < 0)
		return r;
	/* All of it lies inside the storage, so nothing overflows. */
	tarn_layout_bounds(l, &first, &count);
	lent->storage = bytes.at;
	lent->begin = bytes.at + lent->tensor->base;
	if (count)
		lent->begin += (uint64_t)first * bits / 8;
	lent->end = lent->begin + ((uint64_t)count * bits + 7) / 8;
	return 0;
}

static int collect(const struct tarn_publish_item *items, size_t n,
	struct lent *lent, size_t *ret)
{
	size_t count = 0;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		if (!is_lent(items[i].tensor))
			continue;
		lent[count] =
			(struct lent) {.tensor = items[i].tensor, .item = i};
		r = reach(&lent[count++]);
	}
	if (r < 0)
		return r;
	qsort(lent, count, sizeof(*lent), by_place);
	*ret = count;
	return 0;
}

/* ---- copies ---------------------------------------------------------- */

/* How many from the first on reach one range of bytes, each beginning where
 * another one still goes on; and where the range ends. */
static size_t same_range(const struct lent *lent, size_t n, uint64_t *ret_end)
{
	uint64_t end = lent->end;
	size_t i = 1;

	while (i < n && lent[i].begin < end) {
		end = MAX(end, lent[i].end);
		i++;
	}
	*ret_end = end;
	return i;
}

/* Where each comes to lie, as aligned as it is now; and bytes in all. */
static int place_ranges(struct lent *lent, size_t n, uint64_t *ret)
{
	uint64_t size = 0, end;

	for (size_t i = 0; i < n;) {
		size_t count = same_range(&lent[i], n - i, &end);
		uint64_t begin = lent[i].begin - lent[i].begin % ALIGN;

		for (size_t k = 0; k < count; k++)
			lent[i + k].at = size + (lent[i + k].begin - begin);
		if (add_u64(size, end - begin, &size) ||
			round_up_u64(size, ALIGN, &size))
			return tarn_fail(EOVERFLOW, "more bytes than fit");
		i += count;
	}
	*ret = MAX(size, 1u);
	return 0;
}

/* What it reaches from an address on. */
static int copy_rest(
	const struct lent *lent, uint64_t from, tarn_storage *arena)
{
	_cleanup_tensor_ tarn_tensor *src = NULL, *dst = NULL;
	uint64_t size = lent->end - from;
	int r = tensor_of_bytes(
		lent->tensor->storage, from - lent->storage, size, &src);

	if (r >= 0)
		r = tensor_of_bytes(
			arena, lent->at + (from - lent->begin), size, &dst);
	return r < 0 ? r : tarn_copy(dst, src, NULL, NULL);
}

/* Each byte once, through the first storage that has it. */
static int copy_ranges(const struct lent *lent, size_t n, tarn_storage *arena)
{
	uint64_t done = 0;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		if (lent[i].end <= MAX(lent[i].begin, done))
			continue;
		r = copy_rest(&lent[i], MAX(lent[i].begin, done), arena);
		done = lent[i].end;
	}
	return r;
}

/* ---- the plan -------------------------------------------------------- */

static void put_places(const struct lent *lent, size_t n, uint32_t source,
	struct plan_place *places)
{
	for (size_t i = 0; i < n; i++) {
		struct plan_place *p = &places[lent[i].item];
		int64_t first, count;

		p->source = source;
		p->base = lent[i].at;
		p->layout = lent[i].tensor->layout;
		/* The element at at is the lowest that it reaches. */
		tarn_layout_bounds(&p->layout, &first, &count);
		p->layout.offset = count ? p->layout.offset - first : 0;
	}
}

/* Those of one device. */
static int plan_device_copy(struct plan *plan, struct tarn_store *store,
	struct lent *lent, size_t n)
{
	_cleanup_storage_ tarn_storage *arena = NULL;
	struct tarn_cuda_device device;
	uint32_t source = 0;
	uint64_t size = 0;
	int r = place_ranges(lent, n, &size);

	if (r >= 0)
		r = tarn_storage_device(lent->tensor->storage, &device);
	if (r >= 0)
		r = tarn_cuda_alloc(&device, size, &arena);
	if (r >= 0)
		r = copy_ranges(lent, n, arena);
	if (r >= 0)
		r = plan_device(plan, store, arena, &source);
	if (r < 0)
		return r;
	put_places(lent, n, source, plan->places);
	return 0;
}

static size_t same_device(const struct lent *lent, size_t n)
{
	const uint8_t *uuid = device_storage_uuid(lent->tensor->storage);
	size_t i = 1;

	while (i < n &&
		!memcmp(device_storage_uuid(lent[i].tensor->storage), uuid, 16))
		i++;
	return i;
}

int plan_lent(struct plan *plan, struct tarn_store *store,
	const struct tarn_publish_item *items, size_t n)
{
	size_t i = 0, count, all;
	struct lent *lent;
	int r = 0;

	while (i < n && !is_lent(items[i].tensor))
		i++;
	if (i == n)
		return 0;
	lent = calloc(n, sizeof(*lent));
	if (!lent)
		return tarn_fail(ENOMEM, "out of memory for %zu names", n);
	r = collect(items, n, lent, &all);
	for (i = 0; r >= 0 && i < all; i += count) {
		count = same_device(&lent[i], all - i);
		r = plan_device_copy(plan, store, &lent[i], count);
		if (r < 0)
			tarn_fail_prefix(
				r, "'%.200s': ", items[lent[i].item].name);
	}
	free(lent);
	return r;
}
