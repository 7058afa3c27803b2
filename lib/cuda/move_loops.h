/* SPDX-License-Identifier: MIT */
/* Between the files of cuda_move: a nest with addresses, in bytes. */
#pragma once

#include "lib/cuda/kernel.h"
#include "lib/cuda/kernels.h"
#include "lib/cuda/move.h"

struct cuda_loops {
	const struct move *move;
	uint64_t dst, src;          /* addresses of the first element */
	int64_t dst_size, src_size; /* of an element */
	int n;
	/* The outermost first; the strides of dst are not negative. */
	int64_t extent[CUDA_LOOPS_MAX];
	int64_t dst_stride[CUDA_LOOPS_MAX], src_stride[CUDA_LOOPS_MAX];
	int64_t channel[CUDA_LOOPS_MAX];
	int64_t channel0;
	/* Parts of bytes are read, not written: then src_size and the strides
	 * of src are in bits, and the first begins at that bit; else 0. */
	int src_bits, src_first_bit;
};

/* Scaled in F64, as F32 does not hold it. */
static inline bool cuda_is_wide(int dtype)
{
	return dtype == TARN_I32 || dtype == TARN_U32 || dtype == TARN_I64 ||
	       dtype == TARN_U64 || dtype == TARN_F64;
}

/* ---- boxes.c: copies of the driver's ------------------------------------- */

struct cuda_boxes {
	int64_t width, rows, slices; /* of each; width in bytes */
	int64_t dst_pitch, src_pitch, dst_slice, src_slice;
	int64_t count;
	bool short_rows;         /* a kernel does it faster */
	struct cuda_loops outer; /* from box to box */
};

/* False: it takes too many of them. */
bool cuda_boxes_plan(struct cuda_boxes *ret, const struct cuda_loops *loops);
/* *ret_queued: how many were queued. */
CUresult cuda_boxes_run(const struct cuda_boxes *boxes,
	const struct cuda_driver *driver, CUstream stream, int64_t *ret_queued);

/* ---- steps.c: a kernel and its nest -------------------------------------- */

struct cuda_steps {
	enum cuda_kernel kernel;
	struct cuda_nest nest;
};

/* Bytes as they are. */
void cuda_steps_raw(struct cuda_steps *ret, const struct cuda_loops *loops);
/* Elements converted; the factors are left to the caller. rest: steps that must
 * be run, too, if there are any (nest.steps is not 0). */
void cuda_steps_convert(struct cuda_steps *ret, struct cuda_steps *rest,
	const struct cuda_loops *loops);
