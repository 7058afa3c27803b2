/* SPDX-License-Identifier: MIT */
/*
 * Layouts: how a tensor walks its storage.
 *
 * The element at index (i0, i1, ...) lies at element
 *
 *	offset + i0 * stride[0] + i1 * stride[1] + ...
 *
 * of the storage. Strides are in elements and signed: 0 repeats (broadcast), a
 * negative one walks backwards. Every view operation takes a layout and makes
 * another; none touches a byte, allocates, locks or fails half way. A layout is
 * a plain value: copy it, compare it, send it.
 *
 * Every layout that these functions make guarantees, so that no caller has to
 * check it again: 0 <= ndim <= TARN_NDIM_MAX, every extent >= 0, and the number
 * of elements, the number of bits, the offset and both ends of the reach fit in
 * int64_t. Unused entries of shape and stride are 0.
 *
 * Names and meaning follow PyTorch where it has the operation, numpy where it
 * does not, einops for rearrange. Dimensions may be negative: -1 is the last.
 *
 * None of these functions touches a tensor's bytes; all may be called from any
 * thread. They return 0 or -EINVAL (an argument makes no sense), -EOVERFLOW (a
 * size does not fit), -ENOTSUP (a sub-byte dtype would be split inside a byte),
 * or what is said beside them; on failure *ret is untouched. ret may be the
 * input itself.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarn/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARN_NDIM_MAX 12 /* what a 256-byte descriptor has room for */
#define TARN_NONE INT64_MIN /* a bound of a slice that was not given */

struct tarn_layout {
	uint8_t dtype; /* enum tarn_dtype */
	uint8_t ndim;
	uint8_t reserved[6]; /* 0 */
	int64_t offset; /* elements from the start of the storage */
	int64_t shape[TARN_NDIM_MAX];
	int64_t stride[TARN_NDIM_MAX]; /* elements */
};

/* ---- making one ---------------------------------------------------- */

/* C order (the last dimension is adjacent), offset 0. */
TARN_PUBLIC int tarn_layout_contiguous(enum tarn_dtype dtype, int ndim,
	const int64_t *shape, struct tarn_layout *ret)
	TARN_NONNULL(4) TARN_MUST_CHECK;

/* Fortran order (the first dimension is adjacent), offset 0. */
TARN_PUBLIC int tarn_layout_fortran(enum tarn_dtype dtype, int ndim,
	const int64_t *shape, struct tarn_layout *ret)
	TARN_NONNULL(4) TARN_MUST_CHECK;

/* Any strides and offset; checked for overflow, not against a storage. */
TARN_PUBLIC int tarn_layout_strided(enum tarn_dtype dtype, int ndim,
	const int64_t *shape, const int64_t *stride, int64_t offset,
	struct tarn_layout *ret) TARN_NONNULL(6) TARN_MUST_CHECK;

/* Parses text: "F32[2,3,4]", optionally with strides and an offset:
 * "F32[2,3]:(1,2)+5". */
TARN_PUBLIC int tarn_layout_parse(const char *spec, struct tarn_layout *ret)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* Checks a layout that came from elsewhere: is this a value that the functions
 * here could make? 0 or an error that says what is wrong. */
TARN_PUBLIC int tarn_layout_check(const struct tarn_layout *layout)
	TARN_NONNULL(1) TARN_MUST_CHECK;

/* ---- asking -------------------------------------------------------- */

/* Number of elements; 1 for rank 0. */
TARN_PUBLIC int64_t tarn_layout_numel(const struct tarn_layout *layout)
	TARN_NONNULL(1) TARN_PURE;

/* Bytes of the elements, packed: ceil(numel * bits / 8). */
TARN_PUBLIC int64_t tarn_layout_nbytes(const struct tarn_layout *layout)
	TARN_NONNULL(1) TARN_PURE;

/* Does walking it in C order (Fortran order) walk adjacent elements? True for
 * tensors with no elements; extents of 1 may have any stride. */
TARN_PUBLIC bool tarn_layout_is_contiguous(const struct tarn_layout *layout)
	TARN_NONNULL(1) TARN_PURE;
TARN_PUBLIC bool tarn_layout_is_fortran(const struct tarn_layout *layout)
	TARN_NONNULL(1) TARN_PURE;

/* Do two layouts have the same dtype, shape, strides and offset? */
TARN_PUBLIC bool tarn_layout_equal(const struct tarn_layout *a,
	const struct tarn_layout *b)
	TARN_NONNULL(1, 2) TARN_PURE;

/* The elements that it can reach: first .. first + count - 1 of the storage,
 * gaps included. count is 0 when there are no elements. */
TARN_PUBLIC void tarn_layout_bounds(const struct tarn_layout *layout,
	int64_t *ret_first, int64_t *ret_count)
	TARN_NONNULL(1, 2, 3);

/* Can two different indices reach the same element? (A stride of 0, or windows
 * that overlap.) Exact where the strides nest, as they do after slicing and
 * permuting; otherwise true when in doubt. */
TARN_PUBLIC bool tarn_layout_overlaps_itself(const struct tarn_layout *layout)
	TARN_NONNULL(1) TARN_PURE;

/* Can the two reach a common byte of one storage? Exact for bounds; strided
 * interleavings (even against odd columns) are told apart where the common
 * divisor of the strides does. */
TARN_PUBLIC bool tarn_layout_overlaps(const struct tarn_layout *a,
	const struct tarn_layout *b)
	TARN_NONNULL(1, 2) TARN_PURE;

/* The storage element at an index of ndim numbers (negative ones count from
 * the end). -ERANGE names the one that is out of range. */
TARN_PUBLIC int tarn_layout_element(const struct tarn_layout *layout,
	const int64_t *index, int64_t *ret_element)
	TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* Index <-> position in C order or Fortran order of shape (not of storage). */
enum tarn_order { TARN_ORDER_C = 0, TARN_ORDER_F = 1 };
TARN_PUBLIC int tarn_layout_ravel_index(int ndim, const int64_t *shape,
	const int64_t *index, enum tarn_order order, int64_t *ret_flat)
	TARN_NONNULL(5) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_layout_unravel_index(int ndim, const int64_t *shape,
	int64_t flat, enum tarn_order order, int64_t *ret_index)
	TARN_NONNULL(5) TARN_MUST_CHECK;

/* ---- views --------------------------------------------------------- */

/* Dimension i of the result is dimension dims[i] of the input; all ndim. */
TARN_PUBLIC int tarn_layout_permute(const struct tarn_layout *layout, int ndim,
	const int *dims, struct tarn_layout *ret)
	TARN_NONNULL(1, 4) TARN_MUST_CHECK;

/* Exchanges dimensions a and b. */
TARN_PUBLIC int tarn_layout_transpose(const struct tarn_layout *layout, int a,
	int b, struct tarn_layout *ret) TARN_NONNULL(1, 4) TARN_MUST_CHECK;

/* Dimensions first..last (both included) become one. Possible only where the
 * strides allow it; otherwise -EINVAL, with the pair that does not fit. */
TARN_PUBLIC int tarn_layout_merge(const struct tarn_layout *layout, int first,
	int last, struct tarn_layout *ret) TARN_NONNULL(1, 4) TARN_MUST_CHECK;

/* One dimension becomes n, of which one size may be -1 (inferred); 0 is
 * inferred too, unless the dimension has no elements. */
TARN_PUBLIC int tarn_layout_split(const struct tarn_layout *layout, int dim,
	int n, const int64_t *sizes, struct tarn_layout *ret)
	TARN_NONNULL(1, 5) TARN_MUST_CHECK;

/* A view of that shape, as PyTorch's view(): -EINVAL where the strides forbid
 * it. One size may be -1. */
TARN_PUBLIC int tarn_layout_view(const struct tarn_layout *layout, int ndim,
	const int64_t *shape, struct tarn_layout *ret)
	TARN_NONNULL(1, 4) TARN_MUST_CHECK;

/* A view where one is possible: returns 0. Else 1: a copy is needed, and *ret
 * is the layout of that copy (contiguous, offset 0). */
TARN_PUBLIC int tarn_layout_reshape(const struct tarn_layout *layout, int ndim,
	const int64_t *shape, struct tarn_layout *ret)
	TARN_NONNULL(1, 4) TARN_MUST_CHECK;

/* Dimensions first..last (included) into one by reshape; rank 0 gives [1]. */
TARN_PUBLIC int tarn_layout_flatten(const struct tarn_layout *layout, int first,
	int last, struct tarn_layout *ret) TARN_NONNULL(1, 4) TARN_MUST_CHECK;

/* start:stop:step as Python has it: bounds clamp, negative ones count from
 * the end, TARN_NONE is "not given", step may be negative but not 0. */
TARN_PUBLIC int tarn_layout_slice(const struct tarn_layout *layout, int dim,
	int64_t start, int64_t stop, int64_t step, struct tarn_layout *ret)
	TARN_NONNULL(1, 6) TARN_MUST_CHECK;

/* Every step-th element, ceil(n / step) of them; step > 0. */
TARN_PUBLIC int tarn_layout_skip(const struct tarn_layout *layout, int dim,
	int64_t step, struct tarn_layout *ret)
	TARN_NONNULL(1, 4) TARN_MUST_CHECK;

/* One index of a dimension, which disappears. -ERANGE when out of range. */
TARN_PUBLIC int tarn_layout_select(const struct tarn_layout *layout, int dim,
	int64_t index, struct tarn_layout *ret)
	TARN_NONNULL(1, 4) TARN_MUST_CHECK;

/* length elements from start on; unlike slice it does not clamp: -ERANGE. */
TARN_PUBLIC int tarn_layout_narrow(const struct tarn_layout *layout, int dim,
	int64_t start, int64_t length, struct tarn_layout *ret)
	TARN_NONNULL(1, 5) TARN_MUST_CHECK;

/* Reverses a dimension. */
TARN_PUBLIC int tarn_layout_flip(const struct tarn_layout *layout, int dim,
	struct tarn_layout *ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* A new dimension of size 1 before dim; dim may be ndim, or negative counted
 * from the end of the result. */
TARN_PUBLIC int tarn_layout_unsqueeze(const struct tarn_layout *layout, int dim,
	struct tarn_layout *ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* Drops all dimensions of size 1, or only dim if that is of size 1 (any other
 * size is left alone, as PyTorch does). */
TARN_PUBLIC int tarn_layout_squeeze(const struct tarn_layout *layout,
	struct tarn_layout *ret) TARN_NONNULL(1, 2) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_layout_squeeze_dim(const struct tarn_layout *layout,
	int dim, struct tarn_layout *ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* Sizes of 1 are repeated with stride 0; new dimensions come first; -1 leaves
 * a size as it is. */
TARN_PUBLIC int tarn_layout_expand(const struct tarn_layout *layout, int ndim,
	const int64_t *shape, struct tarn_layout *ret)
	TARN_NONNULL(1, 4) TARN_MUST_CHECK;

/* n layouts to their one common shape, by numpy's rule. rets has room for n. */
TARN_PUBLIC int tarn_layout_broadcast(const struct tarn_layout *layouts,
	size_t n, struct tarn_layout *rets) TARN_MUST_CHECK;

/* Dims a and b are replaced by their diagonal, which becomes the last dim;
 * element i is (i, i + k), or (i - k, i) for negative k. */
TARN_PUBLIC int tarn_layout_diagonal(const struct tarn_layout *layout,
	int64_t k, int a, int b, struct tarn_layout *ret)
	TARN_NONNULL(1, 5) TARN_MUST_CHECK;

/* Windows of size elements, step apart: dim becomes the number of windows and
 * a last dim of size is added. */
TARN_PUBLIC int tarn_layout_unfold(const struct tarn_layout *layout, int dim,
	int64_t size, int64_t step, struct tarn_layout *ret)
	TARN_NONNULL(1, 5) TARN_MUST_CHECK;

/* einops' rearrange: "b (h w) c -> b c h w" with sizes for names. A name of
 * the pattern that has no size is inferred, at most one a group. Returns as
 * reshape does: 1 when the result needs a copy. */
struct tarn_axis {
	const char *name;
	int64_t size;
	uint64_t reserved[2]; /* 0 */
};
TARN_PUBLIC int tarn_layout_rearrange(const struct tarn_layout *layout,
	const char *pattern, const struct tarn_axis *axes, size_t n,
	struct tarn_layout *ret) TARN_NONNULL(1, 2, 5) TARN_MUST_CHECK;

/* The same bytes under another dtype. Wider: the last dimension must be
 * adjacent and divide, strides and offset must divide. Narrower: the last
 * dimension is multiplied. Rank 0 only between equal sizes. */
TARN_PUBLIC int tarn_layout_bitcast(const struct tarn_layout *layout,
	enum tarn_dtype dtype, struct tarn_layout *ret)
	TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* ---- expressions --------------------------------------------------- */

/*
 * A chain of views as text, the same grammar in C, Python and on the command
 * line: "[0:4, ::2, -1, ..., None]", ".permute(2,0,1)", ".transpose(0,1)",
 * ".T", ".reshape(6,-1)", ".view(6,4)", ".flatten(1)", ".unsqueeze(0)",
 * ".squeeze()", ".expand(3,-1)", ".flip(0)", ".merge(1,2)", ".split(1,0,5)"
 * (0 is inferred there), ".narrow(0,2,3)", ".select(0,1)", ".skip(0,2)",
 * ".diagonal(0,0,1)", ".unfold(0,3,1)", ".bitcast(U8)",
 * ".rearrange(\"b h w -> b (h w)\", h=2)", ".contiguous()".
 *
 * Returns 0, or 1 when some .reshape, .flatten, .rearrange or .contiguous had
 * to copy; the chain then went on as if it had (contiguous, offset 0).
 * Parse errors are -EINVAL and point at the column.
 */
TARN_PUBLIC int tarn_layout_eval(const struct tarn_layout *layout,
	const char *expr, struct tarn_layout *ret)
	TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

/* ---- explaining ---------------------------------------------------- */

/*
 * The steps of a reshape from one shape to another. Steps are in the order in
 * which they are done; dim is the dimension of the shape at that step.
 */
enum tarn_reshape_kind {
	TARN_RESHAPE_SAME = 0,	      /* nothing to do */
	TARN_RESHAPE_MERGES = 1,      /* [2,3,4,5] -> [6,20] */
	TARN_RESHAPE_SPLITS = 2,      /* [6,20] -> [2,3,4,5] */
	TARN_RESHAPE_SPLITS_MERGES = 3, /* [6,8] -> [2,24] */
	TARN_RESHAPE_FLAT = 4,	      /* [6,8] -> [48] -> [4,12]; only what has
					 to be flat: [2,6,8] -> [2,48] */
};

struct tarn_reshape_step {
	uint8_t kind; /* 'm': merge dims dim..dim+n-1, 's': split dim into n */
	uint8_t dim;
	uint8_t n;
	int64_t sizes[TARN_NDIM_MAX]; /* of a split; the extent of a merge */
};

struct tarn_reshape_plan {
	enum tarn_reshape_kind kind;
	int n_steps;
	struct tarn_reshape_step steps[2 * TARN_NDIM_MAX];
};

/* Finds the steps of a reshape. Deterministic, and linear in the two ranks.
 * -EINVAL when the numbers of elements differ. One size of to may be -1. */
TARN_PUBLIC int tarn_reshape_explain(int from_ndim, const int64_t *from,
	int to_ndim, const int64_t *to, struct tarn_reshape_plan *ret)
	TARN_NONNULL(5) TARN_MUST_CHECK;

/* ---- printing ------------------------------------------------------ */

/* Writes a layout as text: "F32[2, 3]", with ":(strides)+offset" where it is
 * not contiguous at 0; the format of tarn_layout_parse. Returns the length that
 * it needs, as snprintf; it cannot fail. */
TARN_PUBLIC int tarn_layout_format(const struct tarn_layout *layout, char *buf,
	size_t size)
	TARN_NONNULL(1);

#ifdef __cplusplus
}
#endif
