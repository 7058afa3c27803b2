// SPDX-License-Identifier: MIT
/*
 * One element by its index. The layout gives the element's place in the
 * storage, number.c its bits; a tensor in a file reads just the bytes of that
 * element.
 */
#include "lib/tensor/tensor.h"

#include "base/fail.h"
#include "lib/number/number.h"

static int load_from_file(
	const tarn_tensor *t, int64_t element, uint64_t *ret_raw)
{
	int bits = tarn_dtype_bits(t->layout.dtype);
	int pack = tarn_dtype_pack(t->layout.dtype);
	int64_t first = element - element % pack;
	int64_t from = first * bits / 8;
	int64_t stop = ((element + 1) * bits + 7) / 8;
	uint64_t bytes[2] = {0};
	int r = tarn_storage_read(t->storage, t->base + (uint64_t)from, bytes,
		(uint64_t)(stop - from));

	if (r < 0)
		return r;
	*ret_raw = number_load(t->layout.dtype, bytes, element - first);
	return 0;
}

int tarn_tensor_load(
	const tarn_tensor *tensor, int64_t element, uint64_t *ret_raw)
{
	if (!storage_by_address(tensor->storage))
		return load_from_file(tensor, element, ret_raw);
	*ret_raw = number_load(
		tensor->layout.dtype, tarn_tensor_origin(tensor), element);
	return 0;
}

static int get(const tarn_tensor *t, const int64_t *index, uint64_t *ret_raw)
{
	int64_t element;
	int r = tarn_layout_element(&t->layout, index, &element);

	return r < 0 ? r : tarn_tensor_load(t, element, ret_raw);
}

/* The place of an element that may be written. */
static int place(
	const tarn_tensor *t, const int64_t *index, int64_t *ret_element)
{
	int r = tarn_tensor_check_writable(t, "set");

	return r < 0 ? r : tarn_layout_element(&t->layout, index, ret_element);
}

static int put(tarn_tensor *t, int64_t element, uint64_t raw)
{
	number_store(t->layout.dtype, tarn_tensor_origin(t), element, raw);
	return 0;
}

int tarn_tensor_get_f64(
	const tarn_tensor *tensor, const int64_t *index, double *ret)
{
	uint64_t raw;
	int r = get(tensor, index, &raw);

	if (r >= 0)
		*ret = number_f64(tensor->layout.dtype, raw);
	return r;
}

int tarn_tensor_get_i64(
	const tarn_tensor *tensor, const int64_t *index, int64_t *ret)
{
	uint64_t raw;
	int r = get(tensor, index, &raw);

	return r < 0 ? r : number_i64(tensor->layout.dtype, raw, ret);
}

int tarn_tensor_get_c64(
	const tarn_tensor *tensor, const int64_t *index, float ret[2])
{
	uint64_t raw;
	int r = get(tensor, index, &raw);

	if (r >= 0)
		number_c64(tensor->layout.dtype, raw, ret);
	return r;
}

int tarn_tensor_set_f64(tarn_tensor *tensor, const int64_t *index, double value)
{
	int64_t element;
	uint64_t raw;
	int r = place(tensor, index, &element);

	if (r >= 0)
		r = number_from_f64(tensor->layout.dtype, value, &raw);
	return r < 0 ? r : put(tensor, element, raw);
}

int tarn_tensor_set_i64(
	tarn_tensor *tensor, const int64_t *index, int64_t value)
{
	int64_t element;
	uint64_t raw;
	int r = place(tensor, index, &element);

	if (r >= 0)
		r = number_from_i64(tensor->layout.dtype, value, &raw);
	return r < 0 ? r : put(tensor, element, raw);
}

int tarn_tensor_set_c64(
	tarn_tensor *tensor, const int64_t *index, const float value[2])
{
	int64_t element;
	uint64_t raw;
	int r = place(tensor, index, &element);

	if (r >= 0)
		r = number_from_c64(tensor->layout.dtype, value, &raw);
	return r < 0 ? r : put(tensor, element, raw);
}
