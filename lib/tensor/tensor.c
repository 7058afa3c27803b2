// SPDX-License-Identifier: MIT
/*
 * Tensors: a storage, a byte where counting begins, and a layout. The reach
 * of the layout is checked against the storage once, here, when the tensor is
 * made; everything that reads or writes elements later relies on it.
 */
#include "lib/tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/layout/layout.h"

/* Long enough for 12 extents and 12 strides of 20 digits. */
#define REACH_TEXT 640

static int out_of_reach(const struct tarn_layout *layout, uint64_t base,
	uint64_t size, const char *what)
{
	char text[REACH_TEXT];

	tarn_layout_format(layout, text, sizeof(text));
	return tarn_fail(ERANGE,
		"tensor: %s at byte %llu %s; the storage has %llu bytes", text,
		(unsigned long long)base, what, (unsigned long long)size);
}

/* In bits, because elements may be smaller than bytes. */
static int check_reach(
	const struct tarn_layout *layout, uint64_t base, uint64_t size)
{
	int64_t first, count, stop, bits;
	uint64_t last;
	char what[80];

	if (base > size)
		return out_of_reach(layout, base, size, "begins outside");
	tarn_layout_bounds(layout, &first, &count);
	if (count == 0)
		return 0;
	if (first < 0) {
		snprintf(what, sizeof(what), "reaches element %lld before it",
			(long long)first);
		return out_of_reach(layout, base, size, what);
	}
	if (add_i64(first, count, &stop) ||
		mul_i64(stop, tarn_dtype_bits(layout->dtype), &bits) ||
		add_u64(base, ((uint64_t)bits + 7) / 8 - 1, &last))
		return out_of_reach(
			layout, base, size, "reaches past any address");
	if (last < size)
		return 0;
	snprintf(what, sizeof(what), "reaches byte %llu",
		(unsigned long long)last);
	return out_of_reach(layout, base, size, what);
}

static void init(tarn_tensor *t, bool lodger, tarn_storage *storage,
	uint64_t base, const struct tarn_layout *layout)
{
	atomic_init(&t->refs, 1);
	t->lodger = lodger;
	t->storage = storage;
	t->base = base;
	if (layout != &t->layout)
		t->layout = *layout;
}

void tensor_lodge(tarn_tensor *place, tarn_storage *storage, uint64_t base,
	const struct tarn_layout *layout)
{
	init(place, true, storage, base, layout);
}

int tarn_tensor_new_checked(tarn_storage *storage, uint64_t base,
	const struct tarn_layout *layout, tarn_tensor **ret)
{
	tarn_tensor *t = malloc(sizeof(*t));

	if (!t)
		return tarn_fail(ENOMEM, "tensor: out of memory");
	init(t, false, tarn_storage_ref(storage), base, layout);
	*ret = t;
	return 0;
}

int tarn_tensor_new(tarn_storage *storage, uint64_t base,
	const struct tarn_layout *layout, tarn_tensor **ret)
{
	int r = tarn_layout_check(layout);

	if (r >= 0)
		r = check_reach(layout, base, storage->size);
	return r < 0 ? r : tarn_tensor_new_checked(storage, base, layout, ret);
}

int tensor_of_bytes(
	tarn_storage *storage, uint64_t base, uint64_t size, tarn_tensor **ret)
{
	int64_t extent = (int64_t)size;
	struct tarn_layout layout;
	int r = tarn_layout_contiguous(TARN_U8, 1, &extent, &layout);

	return r < 0 ? r : tarn_tensor_new(storage, base, &layout, ret);
}

int tarn_tensor_alloc(const char *op, bool zeroed, enum tarn_dtype dtype,
	int ndim, const int64_t *shape, tarn_tensor **ret)
{
	_cleanup_storage_ tarn_storage *storage = NULL;
	struct tarn_layout layout;
	uint64_t size;
	int r = layout_contiguous(op, dtype, ndim, shape, &layout);

	if (r < 0)
		return r;
	size = (uint64_t)tarn_layout_nbytes(&layout);
	r = zeroed ? tarn_storage_alloc(size, &storage)
		   : storage_alloc_any(size, &storage);
	if (r < 0)
		return r;
	return tarn_tensor_new_checked(storage, 0, &layout, ret);
}

int tarn_tensor_empty(enum tarn_dtype dtype, int ndim, const int64_t *shape,
	tarn_tensor **ret)
{
	return tarn_tensor_alloc("empty", false, dtype, ndim, shape, ret);
}

tarn_tensor *tarn_tensor_ref(tarn_tensor *tensor)
{
	/* Relaxed, as in tarn_storage_ref: the caller holds a reference. */
	if (tensor)
		atomic_fetch_add_explicit(
			&tensor->refs, 1, memory_order_relaxed);
	return tensor;
}

tarn_tensor *tarn_tensor_unref(tarn_tensor *tensor)
{
	tarn_storage *storage;

	if (!tensor)
		return NULL;
	/* A thread that has the only reference is alone with it: no other can
	 * appear. Release: pairs with the acquire half of the same in the
	 * thread that drops the last reference, and with the acquire of a
	 * thread that finds its own to be the last; no fence, as in
	 * tarn_storage_unref. */
	if (atomic_load_explicit(&tensor->refs, memory_order_acquire) != 1 &&
		atomic_fetch_sub_explicit(
			&tensor->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	storage = tensor->storage;
	if (!tensor->lodger)
		free(tensor);
	tarn_storage_unref(storage);
	return NULL;
}

const struct tarn_layout *tarn_tensor_layout(const tarn_tensor *tensor)
{
	return &tensor->layout;
}

uint64_t tarn_tensor_base(const tarn_tensor *tensor)
{
	return tensor->base;
}

tarn_storage *tarn_tensor_storage(const tarn_tensor *tensor)
{
	return tensor->storage;
}

void *tarn_tensor_data(const tarn_tensor *tensor)
{
	const struct tarn_layout *l = &tensor->layout;
	char *origin = tarn_tensor_origin(tensor);
	int bits = tarn_dtype_bits(l->dtype);

	if (!origin)
		return NULL;
	/* Without elements the offset may point anywhere. */
	if (tarn_layout_numel(l) == 0)
		return origin;
	if (l->offset * bits % 8 != 0)
		return NULL;
	return origin + l->offset * bits / 8;
}

bool tarn_tensor_same_storage(const tarn_tensor *a, const tarn_tensor *b)
{
	return a->storage == b->storage;
}

int tarn_tensor_check_writable(const tarn_tensor *tensor, const char *verb)
{
	static const char *const kinds[] = {
		[TARN_STORAGE_OWNED] = "this memory",
		[TARN_STORAGE_BORROWED] = "this lent memory",
		[TARN_STORAGE_SHARED] = "memory shared by a daemon",
		[TARN_STORAGE_FILE] = "a tensor in a file",
		[TARN_STORAGE_MAPPED] = "a mapped file",
		[TARN_STORAGE_COW] = "private memory",
		[TARN_STORAGE_DEVICE] = "memory of a device",
	};

	if (tensor->storage->writable && tensor->storage->data)
		return 0;
	if (tensor->storage->writable)
		return tarn_fail(ENOTSUP,
			"%s: elements %s are not written one by one; write "
			"them in memory and tarn_copy that there",
			verb,
			tensor->storage->on_device ? "on a device"
						   : "of a file");
	return tarn_fail(EROFS,
		"%s: %s is read-only; clone the tensor and change that", verb,
		kinds[tensor->storage->kind]);
}

void tensor_reach(const tarn_tensor *tensor, void **ret, uint64_t *ret_size)
{
	const struct tarn_layout *layout = &tensor->layout;
	int64_t first, count, bits = tarn_dtype_bits(layout->dtype), start;

	tarn_layout_bounds(layout, &first, &count);
	/* Nothing overflows: it was checked when the tensor was made. */
	start = first * bits / 8;
	*ret = (char *)tarn_tensor_origin(tensor) + start;
	*ret_size = count ? (uint64_t)(((first + count) * bits + 7) / 8 - start)
			  : 0;
}
