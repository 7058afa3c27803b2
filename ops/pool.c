// SPDX-License-Identifier: MIT
/*
 * Pooling. One place of the kernel comes after the other: what all windows have
 * there is one strided view of x, which is added to the result, or of which the
 * largest is kept. Windows that reach past an edge leave those elements out, so
 * nothing is padded. Planes are taken as many at a time as stay in the cache.
 */
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include <tarn/copy.h>

#include "base/checked.h"
#include "ops/product.h"
#include "ops/windows.h"

#define CHUNK 32768 /* elements of the result */

struct pool {
	enum tarn_pool_kind kind;
	bool own; /* the mean counts x's elements, not padding */
	int n_axes;
	struct axis axes[2];
	tarn_tensor *x, *to, *counts;      /* counts: of means, else NULL */
	int64_t channels, a_chunk, chunks; /* of channels */
	atomic_int *error;                 /* the first of a part */
};

/* Windows that have an element of x at that place of the kernel: first .. end - 1. */
static void windows_with(const struct axis *a, int64_t place,
	int64_t *ret_first, int64_t *ret_end)
{
	int64_t before = a->padding - place * a->dilation;
	int64_t last = a->in - 1 + before;

	*ret_first = before > 0 ? (before + a->stride - 1) / a->stride : 0;
	*ret_end = last < 0 ? 0 : MIN(last / a->stride + 1, a->out);
}

/* Both as they are at that place of the kernel; false: at none. */
static bool views_at(const struct pool *p, int64_t place, struct tarn_layout *x,
	struct tarn_layout *to)
{
	for (int i = p->n_axes - 1; i >= 0; i--) {
		const struct axis *a = &p->axes[i];
		int64_t at = place % a->kernel, first, end;

		place /= a->kernel;
		windows_with(a, at, &first, &end);
		if (first >= end)
			return false;
		x->shape[2 + i] = to->shape[2 + i] = end - first;
		to->offset += first * to->stride[2 + i];
		x->offset +=
			(first * a->stride - a->padding + at * a->dilation) *
			x->stride[2 + i];
		x->stride[2 + i] *= a->stride;
	}
	return true;
}

static int take_place(const struct pool *p, int64_t place, struct tarn_layout x,
	struct tarn_layout to)
{
	_cleanup_tensor_ tarn_tensor *from = NULL, *into = NULL;
	int r;

	if (!views_at(p, place, &x, &to))
		return 0;
	r = tarn_tensor_with_layout(p->x, &x, &from);
	if (r >= 0)
		r = tarn_tensor_with_layout(p->to, &to, &into);
	if (r >= 0)
		r = tarn_binary(p->kind == TARN_POOL_MAX ? TARN_MAX : TARN_ADD,
			tarn_of(into), tarn_of(from), &into);
	return r;
}

static int pool_chunk(const struct pool *p, int64_t number)
{
	struct tarn_layout x = *tarn_tensor_layout(p->x);
	struct tarn_layout to = *tarn_tensor_layout(p->to);
	_cleanup_tensor_ tarn_tensor *part = NULL;
	int64_t image = number / p->chunks, places = 1;
	int64_t first = number % p->chunks * p->a_chunk;
	int r = 0;

	x.shape[0] = to.shape[0] = 1;
	x.shape[1] = to.shape[1] = MIN(p->a_chunk, p->channels - first);
	x.offset += image * x.stride[0] + first * x.stride[1];
	to.offset += image * to.stride[0] + first * to.stride[1];
	for (int i = 0; i < p->n_axes; i++)
		places *= p->axes[i].kernel;
	for (int64_t i = 0; i < places && r >= 0; i++)
		r = take_place(p, i, x, to);
	if (r < 0 || !p->counts)
		return r;
	r = tarn_tensor_with_layout(p->to, &to, &part);
	if (r >= 0)
		r = tarn_binary(
			TARN_DIV, tarn_of(part), tarn_of(p->counts), &part);
	return r;
}

static void run_chunk(const void *arg, int64_t number, char *scratch)
{
	const struct pool *p = arg;
	int r = pool_chunk(p, number);

	(void)scratch;
	if (r < 0)
		atomic_store(p->error, r);
}

/* The sentence is the thread's that met the error. */
static int report(int r)
{
	return r < 0 ? tarn_error_set(-r, "pool: %s", strerror(-r)) : r;
}

/* Less than all others. */
static struct tarn_operand lowest(enum tarn_dtype dtype)
{
	int bits = tarn_dtype_bits(dtype);

	if (dtype_kind(dtype) == KIND_FLOAT)
		return tarn_float(-INFINITY);
	if (dtype != TARN_I8 && dtype != TARN_I16 && dtype != TARN_I32 &&
		dtype != TARN_I64)
		return tarn_int(0);
	return tarn_int(INT64_MIN >> (64 - bits));
}

/* How many elements each window's mean is divided by. */
static int count(struct pool *p)
{
	const struct axis *a = p->axes;
	int64_t shape[2] = {a[0].out, p->n_axes > 1 ? a[1].out : 1};
	float *at;
	int r = tarn_tensor_zeros(TARN_F32, p->n_axes, shape, &p->counts);

	if (r < 0)
		return r;
	at = tarn_tensor_data(p->counts);
	for (int64_t i = 0; i < shape[0] * shape[1]; i++) {
		int64_t place[2] = {i / shape[1], i % shape[1]};

		at[i] = 1;
		for (int j = 0; j < p->n_axes; j++) {
			int64_t edge = p->own ? 0 : a[j].padding;
			int64_t begin = place[j] * a[j].stride - a[j].padding;
			int64_t end = MIN(begin + a[j].kernel, a[j].in + edge);

			at[i] *= (float)(end - MAX(begin, -edge));
		}
	}
	return 0;
}

static int run(struct pool *p)
{
	struct tarn_operand first = tarn_int(0);
	const struct tarn_layout *to = tarn_tensor_layout(p->to);
	atomic_int error = 0;
	struct parts parts = {.op = "pool", .fn = run_chunk, .arg = p};
	int64_t plane = 1, places = 1;
	int r;

	for (int i = 0; i < p->n_axes; i++) {
		plane *= p->axes[i].out;
		places *= p->axes[i].kernel;
	}
	if (p->kind == TARN_POOL_MAX)
		first = lowest(to->dtype);
	r = tensor_fill(p->to, &first);
	if (r >= 0 && p->kind == TARN_POOL_MEAN)
		r = count(p);
	if (r < 0)
		return r;
	p->error = &error;
	p->channels = to->shape[1];
	p->a_chunk = MAX(CHUNK / MAX(plane, (int64_t)1), (int64_t)1);
	p->chunks = (p->channels + p->a_chunk - 1) / p->a_chunk;
	parts.items = p->chunks * to->shape[0];
	parts.cost = 8 * (double)places * (double)plane * (double)p->a_chunk;
	r = parts_run(&parts);
	tarn_tensor_unref(p->counts);
	return r < 0 ? r : report(atomic_load(&error));
}

static int open_axes(struct pool *p, const struct tarn_layout *l,
	const struct tarn_pool_options *o)
{
	int r = 0;

	for (int i = 0; i < p->n_axes && r >= 0; i++) {
		struct axis *a = &p->axes[i];

		*a = (struct axis) {l->shape[2 + i], o->kernel[i],
			o->stride[i] ?: o->kernel[i], o->padding[i],
			o->dilation[i] ?: 1, 0};
		r = axis_open("pool", a, o->flags & TARN_POOL_CEIL);
		if (r >= 0 && a->padding > a->kernel / 2)
			r = tarn_error_set(EINVAL,
				"pool: a padding of %lld; it may be half of "
				"the kernel, %lld",
				(long long)a->padding, (long long)a->kernel);
		if (r >= 0 && a->dilation > 1 && p->kind == TARN_POOL_MEAN)
			r = tarn_error_set(EINVAL,
				"pool: a dilation of %lld; means have none",
				(long long)a->dilation);
	}
	return r;
}

static int check(enum tarn_pool_kind kind, const tarn_tensor *x,
	const struct tarn_pool_options *o, enum tarn_dtype *ret)
{
	const struct tarn_layout *l = tarn_tensor_layout(x);
	int r = OPTIONS_CHECK("tarn_pool_options", o);

	if (r < 0)
		return r;
	if ((unsigned)kind > TARN_POOL_MEAN ||
		o->flags & ~(uint64_t)(TARN_POOL_CEIL | TARN_POOL_NOT_PADDING))
		return tarn_error_set(EINVAL,
			"pool: there is no kind %d with the flags 0x%llx",
			(int)kind, (unsigned long long)o->flags);
	if (l->ndim != 3 && l->ndim != 4)
		return tarn_error_set(EINVAL,
			"pool: of %s; it must be [n, channels, length] or "
			"[n, channels, height, width]",
			shape_words(l->ndim, l->shape).text);
	return kind == TARN_POOL_MEAN ? floats_meet("pool", &x, 1, ret)
				      : dtypes_meet("pool", &x, 1, ret);
}

/* Is there one window, of all that there is? */
static bool is_reduction(const struct pool *p)
{
	bool all = true;

	for (int i = 0; i < p->n_axes; i++)
		all &= p->axes[i].kernel == p->axes[i].in &&
		       !p->axes[i].padding && p->axes[i].dilation == 1;
	return all;
}

int tarn_pool(enum tarn_pool_kind kind, const tarn_tensor *x,
	const struct tarn_pool_options *options, tarn_tensor **out)
{
	struct tarn_layout l = *tarn_tensor_layout(x);
	struct pool p = {.kind = kind,
		.own = options->flags & TARN_POOL_NOT_PADDING,
		.n_axes = l.ndim - 2};
	_cleanup_source_ struct source source = {0};
	_cleanup_tensor_ tarn_tensor *wide = NULL;
	enum tarn_dtype dtype = TARN_F32, computed;
	struct result result;
	int r = check(kind, x, options, &dtype);

	if (r >= 0)
		r = open_axes(&p, &l, options);
	if (r >= 0 && is_reduction(&p))
		return tarn_reduce(
			kind == TARN_POOL_MAX ? TARN_AMAX : TARN_MEAN, x,
			p.n_axes, (int[]) {-1, -2}, TARN_KEEP_DIMS, out);
	if (r >= 0)
		r = source_open("pool", x, &source);
	if (r < 0)
		return r;
	for (int i = 0; i < p.n_axes; i++)
		l.shape[2 + i] = p.axes[i].out;
	computed = kind == TARN_POOL_MEAN ? dtype_computed(dtype) : dtype;
	r = result_begin_plain("pool", dtype, l.ndim, l.shape, &source.tensor,
		1, out, &result);
	if (r >= 0 && computed != dtype)
		r = result_new("pool", computed, l.ndim, l.shape, &wide);
	if (r < 0)
		return result_end(&result, r);
	p.x = (tarn_tensor *)source.tensor;
	p.to = wide ?: result.work;
	if (tarn_layout_numel(tarn_tensor_layout(p.to)))
		r = run(&p);
	if (r >= 0 && wide)
		r = tarn_copy(result.work, wide, NULL, NULL);
	return result_end(&result, r);
}
