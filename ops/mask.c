// SPDX-License-Identifier: MIT
/*
 * Elements where a mask is true, in C order. The mask is copied, so that as many
 * are selected as were counted.
 */
#include <errno.h>
#include <string.h>

#include <tarn/copy.h>

#include "ops/select.h"

/* The mask in a shape, of 0 and 1 alone, and how many are 1. */
static int mask_open(const char *op, const tarn_tensor *mask,
	const struct tarn_layout *l, struct source *ret, int64_t *ret_count)
{
	enum tarn_dtype dtype = tarn_tensor_layout(mask)->dtype;
	int64_t n = tarn_layout_numel(l), count = 0;
	tarn_tensor *copy;
	uint8_t *at;
	int r;

	if (dtype != TARN_BOOL)
		return tarn_error_set(EINVAL,
			"%s: the mask is %s, not BOOL; compare it with 0", op,
			tarn_dtype_name(dtype));
	r = refuse_device(op, mask);
	if (r >= 0)
		r = result_new(op, TARN_BOOL, l->ndim, l->shape, &copy);
	if (r < 0)
		return r;
	r = tarn_copy(copy, mask, NULL, NULL);
	if (r < 0) {
		tarn_tensor_unref(copy);
		return r;
	}
	at = tarn_tensor_data(copy);
	for (int64_t i = 0; i < n; i++) {
		at[i] = at[i] != 0;
		count += at[i];
	}
	*ret = (struct source) {copy, copy};
	*ret_count = count;
	return 0;
}

/* Without a branch for each element: what is not selected is overwritten. */
#define PACK(T)                                                                \
	for (; to < count; i++) {                                              \
		((T *)dst)[to] = ((const T *)src)[i];                          \
		to += mask[i];                                                 \
	}                                                                      \
	break;

static void pack(void *dst, const void *src, const uint8_t *mask, int64_t count,
	int64_t size)
{
	int64_t i = 0, to = 0;

	switch (size) {
	case 1:
		PACK(uint8_t)
	case 2:
		PACK(uint16_t)
	case 4:
		PACK(uint32_t)
	default:
		PACK(uint64_t)
	}
}

int tarn_masked_select(
	const tarn_tensor *x, const tarn_tensor *mask, tarn_tensor **out)
{
	const char *op = "masked_select";
	const struct tarn_layout *l = tarn_tensor_layout(x);
	const tarn_tensor *operands[2] = {x, mask};
	_cleanup_source_ struct source source = {0}, truth = {0};
	struct result result;
	int64_t count;
	int r = mask_open(op, mask, l, &truth, &count);

	if (r >= 0)
		r = source_open_plain(op, x, l->dtype, &source);
	if (r < 0)
		return r;
	r = result_begin_plain(
		op, l->dtype, 1, &count, operands, 2, out, &result);
	if (r >= 0)
		pack(tarn_tensor_data(result.work),
			tarn_tensor_data(source.tensor),
			tarn_tensor_data(truth.tensor), count,
			tarn_dtype_bits(l->dtype) / 8);
	return result_end(&result, r);
}

int tarn_masked_fill(
	tarn_tensor *dst, const tarn_tensor *mask, struct tarn_operand value)
{
	enum tarn_dtype dtype = tarn_tensor_layout(dst)->dtype;
	int r = value.tensor ? 0
			     : dtype_check_number("masked_fill", dtype, &value);

	return r < 0 ? r : tarn_where(mask, value, tarn_of(dst), &dst);
}

/* The next index in C order: how far its element is. */
static int64_t step(const struct tarn_layout *l, int64_t *index)
{
	int64_t at = 0;

	for (int i = l->ndim - 1; i >= 0; i--) {
		at += l->stride[i];
		if (++index[i] < l->shape[i])
			return at;
		at -= l->stride[i] * l->shape[i];
		index[i] = 0;
	}
	return at;
}

/* The elements of a tensor one after the other; one alone, or a number, is used
 * for all. */
static int open_elements(const char *op, const struct tarn_operand *src,
	enum tarn_dtype dtype, int64_t count, const tarn_tensor *dst,
	struct source *ret)
{
	const struct tarn_layout *l =
		src->tensor ? tarn_tensor_layout(src->tensor) : NULL;
	int64_t n = l ? tarn_layout_numel(l) : 1;

	if (n == 1)
		return operand_open(op, src, dtype, 1, &count, dst, ret);
	if (n < count)
		return tarn_error_set(EINVAL,
			"%s: the mask is true %lld times, and the tensor has "
			"%lld elements; it must have as many, or more",
			op, (long long)count, (long long)n);
	return operand_open(op, src, dtype, l->ndim, l->shape, dst, ret);
}

int tarn_masked_put(
	tarn_tensor *dst, const tarn_tensor *mask, struct tarn_operand src)
{
	const char *op = "masked_put";
	const struct tarn_layout *l = tarn_tensor_layout(dst);
	_cleanup_source_ struct source source = {0}, truth = {0};
	int64_t index[TARN_NDIM_MAX] = {0}, count, left;
	size_t size = (size_t)tarn_dtype_bits(l->dtype) / 8;
	const uint8_t *is;
	const char *from;
	char *to;
	struct result result;
	int r = dtype_check(op, l->dtype);

	if (r >= 0)
		r = result_begin(
			op, l->dtype, l->ndim, l->shape, &dst, &result);
	if (r >= 0)
		r = mask_open(op, mask, l, &truth, &count);
	if (r >= 0)
		r = open_elements(op, &src, l->dtype, count, dst, &source);
	if (r < 0)
		return r;
	is = tarn_tensor_data(truth.tensor);
	from = tarn_tensor_data(source.tensor);
	to = tarn_tensor_data(dst);
	for (left = count; left; to += step(l, index) * (int64_t)size) {
		if (!*is++)
			continue;
		memcpy(to, from, size);
		from += size;
		left--;
	}
	return 0;
}

int tarn_nonzero(const tarn_tensor *x, tarn_tensor **out)
{
	const char *op = "nonzero";
	const struct tarn_layout *l = tarn_tensor_layout(x);
	_cleanup_tensor_ tarn_tensor *truth = NULL;
	int64_t index[TARN_NDIM_MAX] = {0}, shape[2] = {0, l->ndim}, *to;
	const uint8_t *is;
	struct result result;
	int r = tarn_binary(TARN_NE, tarn_of(x), tarn_int(0), &truth);

	if (r < 0)
		return r;
	is = tarn_tensor_data(truth);
	for (int64_t i = 0; i < tarn_layout_numel(l); i++)
		shape[0] += is[i];
	r = result_begin_plain(op, TARN_I64, 2, shape, &x, 1, out, &result);
	if (r < 0)
		return result_end(&result, r);
	to = tarn_tensor_data(result.work);
	for (int64_t left = shape[0]; left; step(l, index)) {
		if (!*is++)
			continue;
		memcpy(to, index, (size_t)l->ndim * sizeof(*to));
		to += l->ndim;
		left--;
	}
	return result_end(&result, 0);
}
