// SPDX-License-Identifier: MIT
/* New tensors from a rule: one value everywhere, or steps along a line. */
#include "lib/tensor/tensor.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/number/number.h"

/* One value, repeated. The bytes written so far are the pattern for as many
 * again, so that memcpy does the work. */
static void fill(tarn_tensor *t, uint64_t raw)
{
	int dtype = t->layout.dtype, pack = tarn_dtype_pack(dtype);
	size_t size = t->storage->size, done;
	char pattern[8] = {0};
	char *data = t->storage->data;

	for (int i = 0; i < pack; i++)
		number_store(dtype, pattern, i, raw);
	done = MIN(size, (size_t)(pack * tarn_dtype_bits(dtype) / 8));
	memcpy(data, pattern, done);
	while (done < size) {
		size_t n = MIN(done, size - done);

		memcpy(data + done, data, n);
		done += n;
	}
}

static int make_full(const char *op, enum tarn_dtype dtype, int ndim,
	const int64_t *shape, double value, tarn_tensor **ret)
{
	_cleanup_tensor_ tarn_tensor *t = NULL;
	uint64_t raw = 0;
	int r = tarn_tensor_alloc(op, true, dtype, ndim, shape, &t);

	/* Without elements it does not matter whether the dtype has the
	 * value. */
	if (r >= 0 && t->storage->size > 0)
		r = number_from_f64(dtype, value, &raw);
	if (r < 0)
		return r;
	if (raw != 0) /* the memory is zero already */
		fill(t, raw);
	*ret = STEAL(t);
	return 0;
}

int tarn_tensor_full(enum tarn_dtype dtype, int ndim, const int64_t *shape,
	double value, tarn_tensor **ret)
{
	return make_full("full", dtype, ndim, shape, value, ret);
}

int tarn_tensor_zeros(enum tarn_dtype dtype, int ndim, const int64_t *shape,
	tarn_tensor **ret)
{
	return make_full("zeros", dtype, ndim, shape, 0, ret);
}

int tarn_tensor_ones(enum tarn_dtype dtype, int ndim, const int64_t *shape,
	tarn_tensor **ret)
{
	return make_full("ones", dtype, ndim, shape, 1, ret);
}

int tarn_tensor_arange(enum tarn_dtype dtype, double start, double stop,
	double step, tarn_tensor **ret)
{
	_cleanup_tensor_ tarn_tensor *t = NULL;
	double length = ceil((stop - start) / step);
	int64_t count;
	int r;

	if (step == 0 || !isfinite(step))
		return tarn_fail(
			EINVAL, "arange: a step of %g is not possible", step);
	if (!isfinite(length))
		return tarn_fail(EINVAL,
			"arange: from %g to %g is not a length", start, stop);
	/* Past 2^53 the steps could not be distinguished any more. */
	if (length > 0x1p53)
		return tarn_fail(EOVERFLOW,
			"arange: from %g to %g by %g is %g elements", start,
			stop, step, length);
	count = length > 0 ? (int64_t)length : 0;
	r = tarn_tensor_alloc("arange", false, dtype, 1, &count, &t);
	for (int64_t i = 0; r >= 0 && i < count; i++) {
		uint64_t raw;

		r = number_from_f64(dtype, start + (double)i * step, &raw);
		if (r >= 0)
			number_store(dtype, t->storage->data, i, raw);
	}
	if (r < 0)
		return r;
	*ret = STEAL(t);
	return 0;
}
