// SPDX-License-Identifier: MIT
/*
 * Random numbers as a function of a seed and of an element's number: the seed is
 * the key, and the number says which block of the generator, and which of its
 * words. So neither threads nor strides change anything, and parts of a sequence
 * can be made by themselves.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include <tarn/copy.h>

#include "base/checked.h"
#include "ops/kernels.h"
#include "ops/result.h"
#include "ops/threads.h"

#define PART 256 /* batches that pay for a thread */

struct job {
	uint32_t key[2];
	uint64_t position;
	int64_t n, size, a_batch; /* elements; bytes of each; of 16 blocks */
	char *to;
	random_fn *fn; /* NULL: integers */
	double a, b;
	uint64_t low, range; /* 0: all of 64 bits */
};

static void integers(const struct job *job,
	const uint32_t words[4][RANDOM_BLOCKS], void *dst)
{
	int64_t *d = dst;

	for (int i = 0; i < 2 * RANDOM_BLOCKS; i++) {
		uint64_t w = words[i % 2 * 2][i / 2] |
			     (uint64_t)words[i % 2 * 2 + 1][i / 2] << 32;

		if (job->range)
			w = (uint64_t)((unsigned __int128)w * job->range >> 64);
		d[i] = (int64_t)(job->low + w);
	}
}

/* The elements of a batch that are wanted, at their places. */
static void make_batch(const struct job *job, uint64_t number)
{
	_Alignas(64) char made[4 * RANDOM_BLOCKS * sizeof(double)];
	uint32_t words[4][RANDOM_BLOCKS];
	uint64_t block = number * RANDOM_BLOCKS, size = (uint64_t)job->a_batch;
	uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), 0, 0};
	/* Modulo 2^64, as positions are. */
	int64_t first = (int64_t)(number * size - job->position);
	int64_t skip = first < 0 ? -first : 0;
	int64_t n = MIN(job->a_batch, job->n - first) - skip;

	kernels()->random_words(counter, job->key, words);
	if (job->fn)
		job->fn((const uint32_t(*)[RANDOM_BLOCKS])words, job->a, job->b,
			made);
	else
		integers(job, (const uint32_t(*)[RANDOM_BLOCKS])words, made);
	memcpy(job->to + (first + skip) * job->size, made + skip * job->size,
		(size_t)(n * job->size));
}

static int64_t batches(const struct job *job)
{
	uint64_t skip = job->position % (uint64_t)job->a_batch;

	return (job->n + (int64_t)skip + job->a_batch - 1) / job->a_batch;
}

static void make_part(void *arg, size_t part)
{
	const struct job *job = arg;
	uint64_t begin = job->position / (uint64_t)job->a_batch;
	int64_t i = (int64_t)part * PART, end = MIN(i + PART, batches(job));

	for (; i < end; i++)
		make_batch(job, begin + (uint64_t)i);
}

/* Makes them in computed, and then of them the result. */
static int run(const char *op, struct job *job, uint64_t seed,
	uint64_t position, enum tarn_dtype computed, enum tarn_dtype dtype,
	int ndim, const int64_t *shape, tarn_tensor **out)
{
	_cleanup_tensor_ tarn_tensor *apart = NULL;
	struct result result;
	int r = result_begin_plain(
		op, dtype, ndim, shape, NULL, 0, out, &result);

	if (r >= 0 && dtype != computed)
		r = result_new(op, computed, ndim, shape, &apart);
	if (r < 0)
		return result_end(&result, r);
	job->key[0] = (uint32_t)seed;
	job->key[1] = (uint32_t)(seed >> 32);
	job->position = position;
	job->n = tarn_layout_numel(tarn_tensor_layout(result.work));
	job->size = tarn_dtype_bits(computed) / 8;
	job->a_batch = (computed == TARN_F32 ? 4 : 2) * RANDOM_BLOCKS;
	job->to = tarn_tensor_data(apart ?: result.work);
	if (job->n && position > UINT64_MAX - (uint64_t)job->n)
		r = tarn_error_set(EINVAL,
			"%s: position %llu; positions end at 2^64", op,
			(unsigned long long)position);
	else if (job->n)
		threads_run((size_t)((batches(job) + PART - 1) / PART),
			make_part, job);
	if (r >= 0 && apart)
		r = tarn_copy(result.work, apart, NULL, NULL);
	return result_end(&result, r);
}

static int of_floats(const char *op, bool normal, uint64_t seed,
	uint64_t position, double a, double b, enum tarn_dtype dtype, int ndim,
	const int64_t *shape, tarn_tensor **out)
{
	enum tarn_dtype computed = dtype_computed(dtype);
	struct job job = {.a = a, .b = b};
	int r = dtype_check(op, dtype);

	if (r >= 0 && dtype_kind(dtype) != KIND_FLOAT)
		r = tarn_error_set(EINVAL,
			"%s: of %s; F32, for example, is possible", op,
			tarn_dtype_name(dtype));
	if (r < 0)
		return r;
	job.fn = kernels()->random[normal][computed == TARN_F64];
	return run(op, &job, seed, position, computed, dtype, ndim, shape, out);
}

int tarn_random_uniform(uint64_t seed, uint64_t position, double low,
	double high, enum tarn_dtype dtype, int ndim, const int64_t *shape,
	tarn_tensor **out)
{
	if (!(low < high) || isinf(high - low))
		return tarn_error_set(EINVAL,
			"random_uniform: from %g to %g; both must be finite, "
			"and the second the larger one",
			low, high);
	return of_floats("random_uniform", false, seed, position, low, high,
		dtype, ndim, shape, out);
}

int tarn_random_normal(uint64_t seed, uint64_t position, double mean,
	double deviation, enum tarn_dtype dtype, int ndim, const int64_t *shape,
	tarn_tensor **out)
{
	if (!(deviation >= 0))
		return tarn_error_set(EINVAL,
			"random_normal: a deviation of %g; 0 or more is "
			"possible",
			deviation);
	return of_floats("random_normal", true, seed, position, mean, deviation,
		dtype, ndim, shape, out);
}

/* The largest that a dtype holds of those in I64; the least. */
static void limits(enum tarn_dtype dtype, int64_t *ret_low, int64_t *ret_high)
{
	int bits = tarn_dtype_bits(dtype);
	bool is_signed = dtype == TARN_I8 || dtype == TARN_I16 ||
			 dtype == TARN_I32 || dtype == TARN_I64;

	if (dtype == TARN_BOOL)
		bits = 1;
	*ret_low = is_signed ? (int64_t)(UINT64_MAX << (bits - 1)) : 0;
	*ret_high = bits == 64  ? INT64_MAX
		    : is_signed ? -1 - *ret_low
				: (int64_t)(((uint64_t)1 << bits) - 1);
}

int tarn_random_int(uint64_t seed, uint64_t position, int64_t low, int64_t high,
	enum tarn_dtype dtype, int ndim, const int64_t *shape,
	tarn_tensor **out)
{
	struct job job = {.low = (uint64_t)low,
		.range = (uint64_t)high - (uint64_t)low + 1};
	int64_t least, most;
	int r = dtype_check("random_int", dtype);

	if (r >= 0 && dtype_kind(dtype) == KIND_FLOAT)
		r = tarn_error_set(EINVAL,
			"random_int: of %s; an integer or BOOL is possible",
			tarn_dtype_name(dtype));
	if (r < 0)
		return r;
	limits(dtype, &least, &most);
	if (low > high || low < least || high > most)
		return tarn_error_set(EINVAL,
			"random_int: from %lld to %lld; for %s they must lie "
			"within %lld to %lld, in that order",
			(long long)low, (long long)high, tarn_dtype_name(dtype),
			(long long)least, (long long)most);
	return run("random_int", &job, seed, position, TARN_I64, dtype, ndim,
		shape, out);
}
