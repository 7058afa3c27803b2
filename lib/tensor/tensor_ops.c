// SPDX-License-Identifier: MIT
/*
 * One operation on a tensor: the layout's, over the same storage. A reshape
 * that the strides do not permit is a view of a copy in C order, which permits
 * any shape.
 */
#include "lib/tensor/tensor.h"

#include "base/fail.h"

/* r is what the operation on the layout returned. */
static int over(tarn_tensor *tensor, int r, const struct tarn_layout *layout,
	tarn_tensor **ret)
{
	_cleanup_tensor_ tarn_tensor *copy = NULL;
	int done;

	if (r < 0)
		return r;
	if (r == 0)
		return tarn_tensor_with_layout(tensor, layout, ret);
	done = tarn_tensor_clone(tensor, &copy);
	if (done >= 0)
		done = tarn_tensor_with_layout(copy, layout, ret);
	return done < 0 ? done : r;
}

/* The arguments in parentheses are the parameters, and their names. */
#define OPERATION(op, parameters, names)                                       \
	int tarn_tensor_##op(                                                  \
		tarn_tensor *tensor, UNPACK parameters, tarn_tensor **ret)     \
	{                                                                      \
		struct tarn_layout layout;                                     \
		int r = tarn_layout_##op(                                      \
			&tensor->layout, UNPACK names, &layout);               \
                                                                               \
		return over(tensor, r, &layout, ret);                          \
	}                                                                      \
	struct tarn_tensor /* for the semicolon */
#define UNPACK(...) __VA_ARGS__

OPERATION(permute, (int ndim, const int *dims), (ndim, dims));
OPERATION(transpose, (int a, int b), (a, b));
OPERATION(merge, (int first, int last), (first, last));
OPERATION(split, (int dim, int n, const int64_t *sizes), (dim, n, sizes));
OPERATION(view, (int ndim, const int64_t *shape), (ndim, shape));
OPERATION(reshape, (int ndim, const int64_t *shape), (ndim, shape));
OPERATION(flatten, (int first, int last), (first, last));
OPERATION(slice, (int dim, int64_t start, int64_t stop, int64_t step),
	(dim, start, stop, step));
OPERATION(skip, (int dim, int64_t step), (dim, step));
OPERATION(select, (int dim, int64_t index), (dim, index));
OPERATION(
	narrow, (int dim, int64_t start, int64_t length), (dim, start, length));
OPERATION(flip, (int dim), (dim));
OPERATION(unsqueeze, (int dim), (dim));
OPERATION(squeeze_dim, (int dim), (dim));
OPERATION(expand, (int ndim, const int64_t *shape), (ndim, shape));
OPERATION(diagonal, (int64_t k, int a, int b), (k, a, b));
OPERATION(unfold, (int dim, int64_t size, int64_t step), (dim, size, step));
OPERATION(bitcast, (enum tarn_dtype dtype), (dtype));

int tarn_tensor_squeeze(tarn_tensor *tensor, tarn_tensor **ret)
{
	struct tarn_layout layout;
	int r = tarn_layout_squeeze(&tensor->layout, &layout);

	return over(tensor, r, &layout, ret);
}
