/* SPDX-License-Identifier: MIT */
#include "lib/save/transposed.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/headroom.h"
#include "lib/save/box.h"
#include "lib/save/chunk.h"
#include "lib/save/chunk_io.h"

/* The cost of a request, in bytes that could be read instead: shorter gaps are
 * read. About the same as in lib/copy. */
static const double REQUEST = 32 << 10;

/* Reading chunks may cost this many times as much as reading all at once. */
static const double WORTH = 2;

struct loop {
	int64_t stride, extent;
};

static int shorter_stride(const void *a, const void *b)
{
	const struct loop *l = a, *m = b;

	return (l->stride > m->stride) - (l->stride < m->stride);
}

/* In bytes; the sum need not be exact, and its terms may be large. */
static double price(const struct tarn_layout *l, const int64_t *extent)
{
	double bytes = tarn_dtype_bits(l->dtype) / 8.0, span = 1, ranges = 1;
	struct loop loops[TARN_NDIM_MAX];
	size_t n = 0;

	for (int i = 0; i < l->ndim; i++)
		if (extent[i] > 1 && l->stride[i])
			loops[n++] =
				(struct loop) {llabs(l->stride[i]), extent[i]};
	qsort(loops, n, sizeof(loops[0]), shorter_stride);
	for (size_t i = 0; i < n; i++) {
		double stride = (double)loops[i].stride;

		if (ranges > 1 || (stride - span) * bytes > REQUEST)
			ranges *= (double)loops[i].extent;
		else
			span += stride * (double)(loops[i].extent - 1);
	}
	return ranges * (span * bytes + REQUEST);
}

/* It is far larger in memory than in the file then, and is not read into
 * memory. */
static bool is_broadcast(const struct tarn_layout *l)
{
	for (int i = 0; i < l->ndim; i++)
		if (l->shape[i] > 1 && l->stride[i] == 0)
			return true;
	return false;
}

uint64_t transposed_bytes(const struct part *p)
{
	const struct tarn_layout *l = tarn_tensor_layout(p->src);
	int64_t count = (int64_t)(CHUNK_SIZE / p->unit * p->pack);
	struct tarn_layout whole;
	struct box box;

	if (p->memory || p->nbytes <= CHUNK_SIZE || is_broadcast(l))
		return 0;
	box_next(&p->file, 0, count, &box);
	if (price(l, box.extent) * (double)p->nbytes / (double)CHUNK_SIZE <
			WORTH * price(l, l->shape) ||
		tarn_layout_contiguous(l->dtype, l->ndim, l->shape, &whole) < 0)
		return 0;
	return (uint64_t)tarn_layout_nbytes(&whole);
}

int transposed_load(struct part *p, const struct tarn_copy_options *options,
	struct tarn_copy_info *info)
{
	const struct tarn_layout *l = tarn_tensor_layout(p->src);
	tarn_storage *storage = NULL;
	_cleanup_tensor_ tarn_tensor *dst = NULL;
	struct tarn_copy_info brought = {0};
	struct tarn_layout whole;
	int r;

	if (headroom_check(p->transposed) < 0 ||
		chunk_memory(&storage, p->transposed) < 0)
		return 0;
	r = tarn_layout_contiguous(l->dtype, l->ndim, l->shape, &whole);
	if (r >= 0)
		r = tarn_tensor_new(storage, 0, &whole, &dst);
	tarn_storage_unref(storage);
	if (r >= 0)
		r = tarn_copy(dst, p->src, options, &brought);
	if (r < 0)
		return r;
	info->read += brought.read;
	info->cached += brought.cached;
	info->direct += brought.direct;
	info->requests += brought.requests;
	tarn_tensor_unref(p->src);
	p->src = STEAL(dst);
	p->memory = true;
	return 1;
}
