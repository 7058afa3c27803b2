/* SPDX-License-Identifier: MIT */
/*
 * Where operands come from and where results go: an operand that lies in a file
 * is read, and a destination is checked, or made, before anything is computed.
 */
#pragma once

#include "base/cleanup.h"
#include "ops/dtype.h"

DEFINE_CLEANUP(tarn_tensor *, tarn_tensor_unref);
#define _cleanup_tensor_ _cleanup_(tarn_tensor_unrefp)

/* An operand in memory, of a dtype that has arithmetic. */
struct source {
	const tarn_tensor *tensor;
	tarn_tensor *copy; /* of one that was not in memory; else NULL */
};

/* -ENOTSUP for a tensor on a device: for operands that are not opened, but copied
 * from. */
int refuse_device(const char *op, const tarn_tensor *t);

int source_open(const char *op, const tarn_tensor *tensor, struct source *ret);
void source_close(struct source *source);

/* The same in C order, in dtype, and aligned to its elements: itself, or a
 * copy. */
int source_open_plain(const char *op, const tarn_tensor *tensor,
	enum tarn_dtype dtype, struct source *ret);

/* Copies one of which the destination is another view, for what is done element
 * by element, or row by row. */
int source_part(struct source *source, const tarn_tensor *to);

#define _cleanup_source_ _cleanup_(source_close)

/* A tensor of elements that nothing was written to yet, in C order. */
int result_new(const char *op, enum tarn_dtype dtype, int ndim,
	const int64_t *shape, tarn_tensor **ret);

struct result {
	tarn_tensor **out;
	/* Where the operation writes: a new tensor, *out, or another that
	 * result_end copies to *out. */
	tarn_tensor *work;
	bool made, apart;
};

/*
 * The result has that dtype and shape. work is *out, if that can take it, with
 * the dtype and strides that it has: for operations that write any, element by
 * element. -EINVAL, -EROFS, -ENOTSUP: *out cannot take it.
 */
int result_begin(const char *op, enum tarn_dtype dtype, int ndim,
	const int64_t *shape, tarn_tensor **out, struct result *ret);

/* The same, but work has that very dtype, is in C order, aligned to its
 * elements, and overlaps none of the n operands (which may be NULL). */
int result_begin_plain(const char *op, enum tarn_dtype dtype, int ndim,
	const int64_t *shape, const tarn_tensor *const *operands, size_t n,
	tarn_tensor **out, struct result *ret);

/* The same as result_begin, but work overlaps none of the n operands (which may
 * be NULL); where *out does, it is in C order. */
int result_begin_apart(const char *op, enum tarn_dtype dtype, int ndim,
	const int64_t *shape, const tarn_tensor *const *operands, size_t n,
	tarn_tensor **out, struct result *ret);

/* Ends it, with r, the operation's result, which it returns; or the error of the
 * last copy. */
int result_end(struct result *result, int r);

/* Do two tensors share bytes? */
bool tensors_overlap(const tarn_tensor *a, const tarn_tensor *b);

/* dim, negative ones counted from the end; -EINVAL: it is none of ndim. */
int dim_of(const char *op, int dim, int ndim, int *ret);

/* A shape in words, for errors: "[2, 3]". */
struct shape_text {
	char text[TARN_NDIM_MAX * 21 + 3];
};
struct shape_text shape_words(int ndim, const int64_t *shape);

/* Writes a number to all elements. */
int tensor_fill(tarn_tensor *to, const struct tarn_operand *value);

/* Which dimensions a reduction leaves out: those of the list, or all of ndim
 * where n is 0. */
int reduce_dims(const char *op, int ndim, int n, const int *dims,
	bool gone[TARN_NDIM_MAX]);

/* The shape without them (TARN_KEEP_DIMS: with extents of 1). */
void reduce_shape(const struct tarn_layout *l, const bool gone[TARN_NDIM_MAX],
	unsigned flags, struct tarn_layout *ret);
