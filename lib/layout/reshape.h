/* SPDX-License-Identifier: MIT */
/* Shared by the operations that regroup dimensions. */
#pragma once

#include <tarn/layout.h>

/*
 * shape with its one -1 filled in, checked to hold as many elements as from.
 * -EINVAL, -EOVERFLOW. out has room for TARN_NDIM_MAX.
 */
int shape_infer(const char *op, int dtype, int from_ndim, const int64_t *from,
	int ndim, const int64_t *shape, int64_t *out);

/* The same for the sizes into which one dimension of layout is split; errors
 * name the dimension. */
int dim_infer(const char *op, const struct tarn_layout *layout, int dim, int n,
	const int64_t *sizes, int64_t *out);

/* A strict view under the name of op. */
int view_as(const char *op, const struct tarn_layout *layout, int ndim,
	const int64_t *shape, struct tarn_layout *ret);

/* A view or else (returns 1) the layout of a copy. */
int reshape_as(const char *op, const struct tarn_layout *layout, int ndim,
	const int64_t *shape, struct tarn_layout *ret);

/* tarn_layout_rearrange, and the source of its copy: the axes in their new
 * order, before they are merged. */
int rearrange_as(const struct tarn_layout *layout, const char *pattern,
	const struct tarn_axis *axes, size_t n, struct tarn_layout *ret_source,
	struct tarn_layout *ret);
