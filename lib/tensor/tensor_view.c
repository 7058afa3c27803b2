// SPDX-License-Identifier: MIT
/*
 * Tensors from tensors: another layout over the same storage. An expression is
 * evaluated on layouts alone; only where one of its links needs a copy is a
 * tensor made, and the chain continues with that.
 */
#include "lib/tensor/tensor.h"

#include "base/checked.h"
#include "base/fail.h"
#include "lib/layout/expr.h"

static int refuse_copy(struct expr *e)
{
	char text[640];

	tarn_layout_format(&e->source, text, sizeof(text));
	return tarn_fail(EINVAL,
		"eval \"%.200s\": the part that ends at column %d needs a copy "
		"of %s; tarn_tensor_eval_copy (in Python: Tensor.eval_copy) "
		"makes it",
		e->text, (int)(e->at - e->text), text);
}

static int make_copy(struct expr *e)
{
	_cleanup_tensor_ tarn_tensor *view = NULL;
	tarn_tensor **now = e->arg, *copy;
	int r = tarn_tensor_with_layout(*now, &e->source, &view);

	if (r >= 0)
		r = tarn_tensor_clone(view, &copy);
	if (r < 0)
		return r;
	tarn_tensor_unref(*now);
	*now = copy;
	return 0;
}

static int run(tarn_tensor *tensor, const char *text,
	int (*copy)(struct expr *e), tarn_tensor **ret)
{
	_cleanup_tensor_ tarn_tensor *now = tarn_tensor_ref(tensor);
	struct expr e = {
		.text = text,
		.at = text,
		.layout = tensor->layout,
		.copy = copy,
		.arg = &now,
	};
	int copied = expr_run(&e), r;

	if (copied < 0)
		return copied;
	r = tarn_tensor_with_layout(now, &e.layout, ret);
	return r < 0 ? r : copied;
}

int tarn_tensor_eval(tarn_tensor *tensor, const char *expr, tarn_tensor **ret)
{
	return run(tensor, expr, refuse_copy, ret);
}

int tarn_tensor_eval_copy(
	tarn_tensor *tensor, const char *expr, tarn_tensor **ret)
{
	return run(tensor, expr, make_copy, ret);
}

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
	/* Elements of the tensor must be elements of the result: it begins at
	 * the first byte of the storage that is aligned with them. */
	uint64_t skipped = tensor->base % unit;
	uint64_t units = (tensor->storage->size - skipped) / unit;
	struct tarn_layout flat;
	int64_t count;
	int r;

	if (mul_i64((int64_t)units, pack, &count))
		count = INT64_MAX; /* the next line refuses it, with a
				    * sentence */
	r = tarn_layout_contiguous(dtype, 1, &count, &flat);
	if (r < 0)
		return r;
	return tarn_tensor_new(tensor->storage, skipped, &flat, ret);
}
