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

/* One of the tensors. Those of one storage are neighbours, and so are those of
 * one device. */
struct lent {
	const tarn_tensor *tensor;
	size_t item;
	uint64_t begin, end; /* bytes of the storage that it reaches */
	uint64_t at;         /* of the first of them, in the copy */
};

bool is_lent(const tarn_tensor *tensor)
{
	return device_storage_is_lent(tensor->storage);
}

/* ---- in order -------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
	const struct lent *x = a, *y = b;
	const tarn_storage *s = x->tensor->storage, *t = y->tensor->storage;
	int r = memcmp(device_storage_uuid(s), device_storage_uuid(t), 16);

	if (r)
		return r;
	if (s != t)
		return (uintptr_t)s < (uintptr_t)t ? -1 : 1;
	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void reach(struct lent *lent)
{
	const struct tarn_layout *l = &lent->tensor->layout;
	uint64_t bits = (uint64_t)tarn_dtype_bits(l->dtype);
	int64_t first, count;

	/* All of it lies inside the storage, so nothing overflows. */
	tarn_layout_bounds(l, &first, &count);
	lent->begin = lent->tensor->base;
	if (count)
		lent->begin += (uint64_t)first * bits / 8;
	lent->end = lent->begin + ((uint64_t)count * bits + 7) / 8;
}

static size_t collect(
	const struct tarn_publish_item *items, size_t n, struct lent *ret)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++) {
		if (!is_lent(items[i].tensor))
			continue;
		ret[count] =
			(struct lent) {.tensor = items[i].tensor, .item = i};
		reach(&ret[count++]);
	}
	qsort(ret, count, sizeof(*ret), by_place);
	return count;
}

/* ---- copies ---------------------------------------------------------- */

/* How many from the first on reach one range of bytes, each beginning where
 * another one still goes on; and where the range ends. */
static size_t same_range(const struct lent *lent, size_t n, uint64_t *ret_end)
{
	uint64_t end = lent->end;
	size_t i = 1;

	while (i < n && lent[i].tensor->storage == lent->tensor->storage &&
		lent[i].begin < end) {
		end = MAX(end, lent[i].end);
		i++;
	}
	*ret_end = end;
	return i;
}

/* Where each comes to lie, as aligned as it is in its storage; and bytes in
 * all. */
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

static int copy_range(
	const struct lent *lent, uint64_t size, tarn_storage *arena)
{
	_cleanup_tensor_ tarn_tensor *src = NULL, *dst = NULL;
	int r;

	if (!size)
		return 0;
	r = tensor_of_bytes(lent->tensor->storage, lent->begin, size, &src);
	if (r >= 0)
		r = tensor_of_bytes(arena, lent->at, size, &dst);
	return r < 0 ? r : tarn_copy(dst, src, NULL, NULL);
}

static int copy_ranges(const struct lent *lent, size_t n, tarn_storage *arena)
{
	uint64_t end;
	int r = 0;

	for (size_t i = 0, count; r >= 0 && i < n; i += count) {
		count = same_range(&lent[i], n - i, &end);
		r = copy_range(&lent[i], end - lent[i].begin, arena);
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
	all = collect(items, n, lent);
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
