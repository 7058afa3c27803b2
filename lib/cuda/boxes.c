/* SPDX-License-Identifier: MIT */
/*
 * Copies of the driver's: a run of bytes, rows of them at a pitch, slices of
 * rows. What remains of the loops is walked from copy to copy. The driver knows
 * no strides that are 0, negative or shorter than a row, and its slices are
 * whole rows apart.
 */
#include "base/checked.h"
#include "lib/cuda/move_loops.h"

/* Picked, not tuned: each copy is a call. */
#define COPIES_MOST 16
/* A copy engine moves short rows one by one; picked, not tuned. */
#define ROW_SHORT 256
/* CU_DEVICE_ATTRIBUTE_MAX_PITCH of all devices; if one has less, it says so. */
#define PITCH_MOST INT32_MAX

static bool is_pitch(const struct cuda_loops *l, int loop, int64_t width)
{
	int64_t dst = l->dst_stride[loop], src = l->src_stride[loop];

	return dst >= width && src >= width && dst <= PITCH_MOST &&
	       src <= PITCH_MOST;
}

static bool is_slice(
	const struct cuda_loops *l, int loop, const struct cuda_boxes *b)
{
	int64_t dst = l->dst_stride[loop], src = l->src_stride[loop];

	return dst > 0 && src > 0 && dst % b->dst_pitch == 0 &&
	       src % b->src_pitch == 0 && dst / b->dst_pitch >= b->rows &&
	       src / b->src_pitch >= b->rows;
}

bool cuda_boxes_plan(struct cuda_boxes *ret, const struct cuda_loops *loops)
{
	struct cuda_boxes b = {.outer = *loops,
		.width = loops->dst_size,
		.rows = 1,
		.slices = 1,
		.count = 1};
	struct cuda_loops *l = &b.outer;

	if (l->n && l->dst_stride[l->n - 1] == b.width &&
		l->src_stride[l->n - 1] == b.width)
		b.width *= l->extent[--l->n];
	b.dst_pitch = b.src_pitch = b.width;
	if (l->n && is_pitch(l, l->n - 1, b.width)) {
		l->n--;
		b.rows = l->extent[l->n];
		b.dst_pitch = l->dst_stride[l->n];
		b.src_pitch = l->src_stride[l->n];
		if (l->n && is_slice(l, l->n - 1, &b)) {
			l->n--;
			b.slices = l->extent[l->n];
			b.dst_slice = l->dst_stride[l->n];
			b.src_slice = l->src_stride[l->n];
		}
	}
	for (int i = 0; i < l->n; i++)
		if (__builtin_mul_overflow(b.count, l->extent[i], &b.count) ||
			b.count > COPIES_MOST)
			return false;
	b.short_rows = b.width < ROW_SHORT && b.rows * b.slices * b.count > 1;
	*ret = b;
	return true;
}

static CUresult copy_2d(const struct cuda_boxes *b,
	const struct cuda_driver *driver, uint64_t dst, uint64_t src,
	CUstream stream)
{
	const CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = src,
		.srcPitch = (size_t)b->src_pitch,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = dst,
		.dstPitch = (size_t)b->dst_pitch,
		.WidthInBytes = (size_t)b->width,
		.Height = (size_t)b->rows};

	return driver->copy_2d(&copy, stream);
}

static CUresult copy_3d(const struct cuda_boxes *b,
	const struct cuda_driver *driver, uint64_t dst, uint64_t src,
	CUstream stream)
{
	const CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = src,
		.srcPitch = (size_t)b->src_pitch,
		.srcHeight = (size_t)(b->src_slice / b->src_pitch),
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = dst,
		.dstPitch = (size_t)b->dst_pitch,
		.dstHeight = (size_t)(b->dst_slice / b->dst_pitch),
		.WidthInBytes = (size_t)b->width,
		.Height = (size_t)b->rows,
		.Depth = (size_t)b->slices};

	return driver->copy_3d(&copy, stream);
}

static CUresult copy_box(const struct cuda_boxes *b,
	const struct cuda_driver *driver, uint64_t dst, uint64_t src,
	CUstream stream)
{
	if (b->slices > 1)
		return copy_3d(b, driver, dst, src, stream);
	if (b->rows > 1)
		return copy_2d(b, driver, dst, src, stream);
	return driver->copy(dst, src, (size_t)b->width, stream);
}

CUresult cuda_boxes_run(const struct cuda_boxes *boxes,
	const struct cuda_driver *driver, CUstream stream, int64_t *ret_queued)
{
	const struct cuda_loops *l = &boxes->outer;
	CUresult e = CUDA_SUCCESS;
	int64_t i;

	for (i = 0; i < boxes->count; i++) {
		uint64_t dst = l->dst, src = l->src;
		int64_t rest = i;

		for (int loop = l->n - 1; loop >= 0; loop--) {
			int64_t step = rest % l->extent[loop];

			dst += (uint64_t)(step * l->dst_stride[loop]);
			src += (uint64_t)(step * l->src_stride[loop]);
			rest /= l->extent[loop];
		}
		e = copy_box(boxes, driver, dst, src, stream);
		if (e)
			break;
	}
	*ret_queued = i;
	return e;
}
