// SPDX-License-Identifier: MIT
/* Tensors from tensors: another layout over the same storage. */
#include "lib/tensor.h"

#include "base/checked.h"

int tarn_tensor_with_layout(tarn_tensor *tensor,
	const struct tarn_layout *layout, tarn_tensor **ret)
{
	return tarn_tensor_new(tensor->storage, tensor->base, layout, ret);
}

int tarn_tensor_flat_storage(tarn_tensor *tensor, tarn_tensor **ret)
{
	int dtype = tensor->layout.dtype;
	int pack = tarn_dtype_pack(dtype);
	uint64_t unit = (uint64_t)(pack * tarn_dtype_bits(dtype) / 8);
	/* Elements of the tensor are to be elements of the result: it begins
	 * where the storage first has one in step with them. */
	uint64_t skipped = tensor->base % unit;
	uint64_t units = (tensor->storage->size - skipped) / unit;
	struct tarn_layout flat;
	int64_t count;
	int r;

	if (mul_i64((int64_t)units, pack, &count))
		count = INT64_MAX; /* refused by the next line, in words */
	r = tarn_layout_contiguous(dtype, 1, &count, &flat);
	if (r < 0)
		return r;
	return tarn_tensor_new(tensor->storage, skipped, &flat, ret);
}
