/* SPDX-License-Identifier: MIT */
/*
 * The nest of a move gets addresses and strides in bytes, and is then either
 * copies of the driver's or a kernel. Where there is no kernel, the driver also
 * copies what a kernel would do faster.
 */
#include "lib/cuda/move.h"

#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/cuda/move_loops.h"
#include "lib/move/bytes.h"

/* ---- channels ------------------------------------------------------------ */

static void channels_of(
	const struct nest *nest, int64_t *ret_first, int64_t *ret_last)
{
	*ret_first = *ret_last = nest->channel0;
	for (int i = 0; i < nest->n; i++) {
		int64_t span = nest->channel[i] * (nest->extent[i] - 1);

		*(span < 0 ? ret_first : ret_last) += span;
	}
}

static bool scales_wide(const struct convert *c)
{
	return cuda_is_wide(c->dst_dtype) || cuda_is_wide(c->src_dtype);
}

/* n scales, then n biases, from a channel on; a missing bias is -0, which alone
 * leaves every number as it is. */
static void write_factors(
	const struct convert *c, int64_t first, int64_t n, void *ret)
{
	for (int64_t i = 0; i < 2 * n; i++) {
		const double *from = i < n ? c->scale : c->bias;
		double x = from ? from[first + i % n] : i < n ? 1 : -0.0;
		float narrow = (float)x;

		if (scales_wide(c))
			memcpy((char *)ret + 8 * i, &x, sizeof(x));
		else
			memcpy((char *)ret + 4 * i, &narrow, sizeof(narrow));
	}
}

uint64_t cuda_move_factors_size(const struct move *move)
{
	int64_t first, last;

	if (!move->convert.scaled || move->nest.empty)
		return 0;
	channels_of(&move->nest, &first, &last);
	if (last - first < CUDA_CHANNELS)
		return 0;
	return (uint64_t)(last - first + 1) *
	       (scales_wide(&move->convert) ? 16 : 8);
}

void cuda_move_factors(const struct move *move, void *ret)
{
	int64_t first, last;

	channels_of(&move->nest, &first, &last);
	write_factors(&move->convert, first, last - first + 1, ret);
}

static void set_factors(
	struct cuda_nest *nest, const struct move *move, CUdeviceptr factors)
{
	int64_t first, last;

	if (!move->convert.scaled)
		return;
	channels_of(&move->nest, &first, &last);
	nest->channels = last - first + 1;
	nest->channel0 -= first;
	if (cuda_move_factors_size(move))
		nest->factors = factors;
	else
		write_factors(
			&move->convert, first, nest->channels, nest->factor);
}

/* ---- loops --------------------------------------------------------------- */

static int raw_loops(struct cuda_loops *l, const struct nest *nest)
{
	int64_t dst0, src0;
	struct raw raw;

	if (!bytes_loops(nest, false, &raw, &dst0, &src0))
		return tarn_fail(ENOTSUP,
			"copy: elements of %s that do not fill whole bytes are "
			"not moved on a device; copy through memory of the "
			"host",
			tarn_dtype_name(nest->src_dtype));
	l->n = raw.n;
	l->dst_size = l->src_size = raw.size;
	l->dst += (uint64_t)dst0;
	l->src += (uint64_t)src0;
	for (int i = 0; i < raw.n; i++) {
		l->extent[i] = raw.extent[i];
		l->dst_stride[i] = raw.dst[i];
		l->src_stride[i] = raw.src[i];
	}
	return 0;
}

static int convert_loops(struct cuda_loops *l, const struct nest *nest)
{
	int64_t dst = tarn_dtype_bits(nest->dst_dtype) / 8;
	int64_t bits = tarn_dtype_bits(nest->src_dtype), src = bits / 8, bit;

	if (tarn_dtype_pack(nest->dst_dtype) > 1)
		return tarn_fail(ENOTSUP,
			"copy: %s to %s is not converted on a device; copy "
			"through memory of the host",
			tarn_dtype_name(nest->src_dtype),
			tarn_dtype_name(nest->dst_dtype));
	l->n = nest->n;
	l->dst_size = dst;
	l->src_size = src;
	l->dst += (uint64_t)(nest->dst0 * dst);
	if (tarn_dtype_pack(nest->src_dtype) > 1) {
		bit = nest->src0 * bits;
		l->src += (uint64_t)(bit >> 3);
		l->src_first_bit = (int)(bit & 7);
		l->src_bits = (int)bits;
		l->src_size = src = bits;
	} else {
		l->src += (uint64_t)(nest->src0 * src);
	}
	l->channel0 = nest->channel0;
	for (int i = 0; i < nest->n; i++) {
		l->extent[i] = nest->extent[i];
		l->dst_stride[i] = nest->dst[i] * dst;
		l->src_stride[i] = nest->src[i] * src;
		l->channel[i] = nest->channel[i];
	}
	return 0;
}

/* ---- queueing ------------------------------------------------------------ */

static int queue_kernel(const struct cuda_driver *driver,
	struct cuda_device *device, struct cuda_steps *steps,
	const struct move *move, CUdeviceptr factors, CUstream stream)
{
	set_factors(&steps->nest, move, factors);
	return cuda_kernel_launch(
		driver, device, steps->kernel, &steps->nest, stream);
}

static int queue_convert(const struct cuda_driver *driver,
	struct cuda_device *device, const struct cuda_loops *l,
	CUdeviceptr factors, CUstream stream)
{
	struct cuda_steps steps, rest;
	int r;

	if (!factors && cuda_move_factors_size(l->move))
		return tarn_fail_constant(EINVAL,
			"copy: the scales and biases of so many channels must "
			"be in memory of the device (cuda_move_factors)");
	cuda_steps_convert(&steps, &rest, l);
	r = queue_kernel(driver, device, &steps, l->move, factors, stream);
	if (r >= 0 && rest.nest.steps)
		r = queue_kernel(
			driver, device, &rest, l->move, factors, stream);
	return r;
}

/* 1: the driver refuses the pitches, and nothing was queued. */
static int queue_boxes(const struct cuda_driver *driver,
	const struct cuda_device *device, const struct cuda_boxes *boxes,
	CUstream stream)
{
	int64_t queued;
	CUresult e = cuda_boxes_run(boxes, driver, stream, &queued);

	if (e == CUDA_ERROR_INVALID_VALUE && boxes->rows > 1 && !queued)
		return 1;
	return e ? cuda_fail(driver, e, "copying %lld bytes on %s",
			   (long long)(boxes->width * boxes->rows *
				       boxes->slices),
			   device->traits.name)
		 : 0;
}

static int queue_raw(const struct cuda_driver *driver,
	struct cuda_device *device, const struct cuda_loops *l, CUstream stream)
{
	struct cuda_boxes boxes;
	struct cuda_steps steps;
	bool boxed = cuda_boxes_plan(&boxes, l);
	int r = 1;

	if (boxed && !boxes.short_rows)
		r = queue_boxes(driver, device, &boxes, stream);
	if (r != 1)
		return r;
	cuda_steps_raw(&steps, l);
	r = cuda_kernel_launch(
		driver, device, steps.kernel, &steps.nest, stream);
	if (r == -ENOTSUP && boxed && boxes.short_rows &&
		queue_boxes(driver, device, &boxes, stream) == 0)
		return 0;
	return r;
}

int cuda_move(const struct cuda_driver *driver, struct cuda_device *device,
	const struct move *move, CUdeviceptr dst, CUdeviceptr src,
	CUdeviceptr factors, CUstream stream)
{
	struct move tidy = *move;
	struct cuda_loops l = {.move = &tidy, .dst = dst, .src = src};
	bool plain = move->convert.plain;
	int r;

	if (move->nest.empty)
		return 0;
	nest_tidy(&tidy.nest, NEST_BY_DST);
	r = plain ? raw_loops(&l, &tidy.nest) : convert_loops(&l, &tidy.nest);
	if (r < 0)
		return r;
	return plain ? queue_raw(driver, device, &l, stream)
		     : queue_convert(driver, device, &l, factors, stream);
}

bool cuda_move_can(const struct cuda_driver *driver, struct cuda_device *device,
	const struct move *move)
{
	struct move tidy = *move;
	struct cuda_loops l = {.move = &tidy};
	struct cuda_boxes boxes;

	if (move->nest.empty)
		return true;
	nest_tidy(&tidy.nest, NEST_BY_DST);
	if (move->convert.plain)
		return raw_loops(&l, &tidy.nest) >= 0 &&
		       (cuda_boxes_plan(&boxes, &l) ||
			       cuda_kernel_ready(driver, device) >= 0);
	return convert_loops(&l, &tidy.nest) >= 0 &&
	       cuda_kernel_ready(driver, device) >= 0;
}
