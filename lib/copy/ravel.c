// SPDX-License-Identifier: MIT
/*
 * Tensors to packed elements and back. A packed buffer is a layout too, so
 * all of these are one nest of loops between two layouts, and differ only in
 * which side the tensor is on.
 */
#include <tarn/copy.h>

#include "lib/tensor/tensor.h"

#include "base/fail.h"
#include "lib/move/bytes.h"
#include "lib/move/nest.h"
#include "lib/tensor/nest_read.h"

/* The layout of packed elements in that order, for any dtype and shape that the
 * tensor has; its sizes are known to fit. */
static struct tarn_layout packed(
	const struct tarn_layout *layout, enum tarn_order order)
{
	struct tarn_layout p = *layout;
	int64_t stride = 1;

	p.offset = 0;
	for (int i = 0; i < p.ndim; i++) {
		int dim = order == TARN_ORDER_F ? i : p.ndim - 1 - i;

		p.stride[dim] = stride;
		if (p.shape[dim] > 1)
			stride *= p.shape[dim];
	}
	return p;
}

static int check_buffer(const char *verb, const tarn_tensor *t,
	enum tarn_order order, uint64_t size)
{
	int64_t nbytes = tarn_layout_nbytes(&t->layout);

	if (order != TARN_ORDER_C && order != TARN_ORDER_F)
		return tarn_fail(EINVAL,
			"%s: %d is neither C nor Fortran order", verb,
			(int)order);
	if (size < (uint64_t)nbytes)
		return tarn_fail(EINVAL,
			"%s: a buffer of %llu bytes; the tensor has %lld", verb,
			(unsigned long long)size, (long long)nbytes);
	return 0;
}

/* From here on an engine pays off; smaller tensors are read with as few calls
 * as possible. */
#define LARGE ((uint64_t)256 << 10)

/* As any other copy of a file, in the best I/O mode. */
static int read_large(const tarn_tensor *tensor,
	const struct tarn_layout *packed_layout, void *buf, uint64_t size)
{
	_cleanup_storage_ tarn_storage *memory = NULL;
	_cleanup_tensor_ tarn_tensor *dst = NULL;
	int r = tarn_storage_borrow(
		buf, size, TARN_BORROW_WRITABLE, NULL, NULL, &memory);

	if (r >= 0)
		r = tarn_tensor_new_checked(memory, 0, packed_layout, &dst);
	return r < 0 ? r : tarn_copy(dst, tensor, NULL, NULL);
}

int tarn_tensor_ravel(const tarn_tensor *tensor, enum tarn_order order,
	void *buf, uint64_t size)
{
	struct tarn_layout dst;
	struct nest nest;
	int r = check_buffer("ravel", tensor, order, size);

	if (r < 0 || tarn_layout_numel(&tensor->layout) == 0)
		return r;
	dst = packed(&tensor->layout, order);
	if (storage_file(tensor->storage) && size > LARGE &&
		(uint64_t)tarn_layout_nbytes(&tensor->layout) > LARGE)
		return read_large(tensor, &dst, buf, size);
	if (!storage_by_address(tensor->storage)) {
		nest_plan(&nest, &dst, &tensor->layout, -1, NEST_BY_SRC);
		return nest_read(&nest, buf, tensor->storage, tensor->base);
	}
	nest_plan(&nest, &dst, &tensor->layout, -1, NEST_BY_DST);
	move_nest(&nest, buf, tarn_tensor_origin(tensor));
	return 0;
}

int tarn_tensor_unravel(tarn_tensor *tensor, enum tarn_order order,
	const void *buf, uint64_t size)
{
	struct tarn_layout src;
	struct nest nest;
	int r = check_buffer("unravel", tensor, order, size);

	if (r >= 0)
		r = tarn_tensor_check_writable(tensor, "unravel");
	if (r < 0 || tarn_layout_numel(&tensor->layout) == 0)
		return r;
	src = packed(&tensor->layout, order);
	nest_plan(&nest, &tensor->layout, &src, -1, NEST_BY_DST);
	move_nest(&nest, tarn_tensor_origin(tensor), buf);
	return 0;
}

int tarn_tensor_clone(const tarn_tensor *tensor, tarn_tensor **ret)
{
	_cleanup_tensor_ tarn_tensor *copy = NULL;
	const struct tarn_layout *l = &tensor->layout;
	int r = tarn_tensor_alloc(
		"clone", false, l->dtype, l->ndim, l->shape, &copy);

	if (r >= 0)
		r = tarn_tensor_ravel(tensor, TARN_ORDER_C, copy->storage->data,
			copy->storage->size);
	if (r < 0)
		return r;
	*ret = STEAL(copy);
	return 0;
}

int tarn_tensor_contiguous(tarn_tensor *tensor, tarn_tensor **ret)
{
	if (!tarn_layout_is_contiguous(&tensor->layout))
		return tarn_tensor_clone(tensor, ret);
	*ret = tarn_tensor_ref(tensor);
	return 0;
}
