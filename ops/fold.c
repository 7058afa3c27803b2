// SPDX-License-Identifier: MIT
/*
 * Reductions that need more than one number of what they have seen: variances,
 * norms, logarithms of sums of exponentials, and places of what is largest. A
 * row is cut into chunks; of each there is a state, and the states of
 * neighbours are joined.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include <tarn/copy.h>

#include "ops/result.h"
#include "ops/rows.h"

static void put(const struct folding *f, double value, void *to)
{
	struct tarn_operand number = tarn_float(value);

	dtype_put(f->computed, &number, to);
}

/* ---- moments -------------------------------------------------------------------- */

static void kernel_chunk(const struct folding *f, size_t n, const void *src,
	int64_t first, struct fold_state *ret)
{
	double numbers[2];

	(void)first;
	f->kernel(n, src, f->p, numbers);
	ret->a = numbers[0];
	ret->b = numbers[1];
}

/* a: the mean; b: the sum of squared distances from it. */
static void join_moments(const struct folding *f, struct fold_state *s,
	const struct fold_state *more)
{
	double n = (double)(s->n + more->n), apart = more->a - s->a;
	double share = (double)more->n / n;

	(void)f;
	s->a += apart * share;
	s->b += more->b + apart * apart * (double)s->n * share;
	s->n += more->n;
}

static void finish_variance(
	const struct folding *f, const struct fold_state *s, void *to)
{
	double n = (double)s->n - f->p, variance = s->b / (n > 0 ? n : 0);

	put(f, f->root ? sqrt(variance) : variance, to);
}

/* ---- powers --------------------------------------------------------------------- */

static void join_powers(const struct folding *f, struct fold_state *s,
	const struct fold_state *more)
{
	bool take = f->p > 0 ? more->a > s->a : more->a < s->a;

	if (!isinf(f->p))
		s->a += more->a;
	else if (take || isnan(more->a))
		s->a = more->a;
	s->n += more->n;
}

static void finish_norm(
	const struct folding *f, const struct fold_state *s, void *to)
{
	bool done = isinf(f->p) || f->p == 0 || f->p == 1;

	put(f, done ? s->a : f->p == 2 ? sqrt(s->a) : pow(s->a, 1 / f->p), to);
}

/* ---- exponentials --------------------------------------------------------------- */

/* a: the largest; b: the sum of the exponentials of the distances from it. */
static void join_exps(const struct folding *f, struct fold_state *s,
	const struct fold_state *more)
{
	double most = more->a > s->a ? more->a : s->a;

	(void)f;
	if (s->a < most)
		s->b = s->b * exp(s->a - most) + more->b;
	else if (more->a < most)
		s->b += more->b * exp(more->a - most);
	else
		s->b += more->b;
	s->a = most;
	s->n += more->n;
}

static void finish_log_sum(
	const struct folding *f, const struct fold_state *s, void *to)
{
	put(f, log(s->b) + s->a, to);
}

/* ---- places --------------------------------------------------------------------- */

static uint8_t decide(run_fn *compare, const void *a, const void *b)
{
	const void *src[3] = {a, b, NULL};
	uint8_t is = 0;

	compare(1, &is, src, 0);
	return is;
}

/* Runs so short that their comparisons are on the stack. */
#define RUN 1024

static void best_chunk(const struct folding *f, size_t n, const void *src,
	int64_t first, struct fold_state *ret)
{
	size_t size = (size_t)tarn_dtype_bits(f->computed) / 8;
	uint8_t is[RUN];
	const uint8_t *found = NULL;
	bool nan;

	f->best(n, &ret->value, src);
	nan = decide(f->is_nan, &ret->value, NULL);
	ret->index = first;
	for (size_t at = 0; at < n && !found; at += RUN) {
		size_t m = n - at < RUN ? n - at : RUN;
		const void *operands[3] = {
			(const char *)src + at * size, &ret->value, NULL};

		if (nan)
			f->is_nan(m, is, operands, 0);
		else
			f->equal(m, is, operands, 2);
		found = memchr(is, 1, m);
		if (found)
			ret->index = first + (int64_t)at + (found - is);
	}
}

static void join_best(const struct folding *f, struct fold_state *s,
	const struct fold_state *more)
{
	if (!decide(f->is_nan, &s->value, NULL) &&
		(decide(f->better, &more->value, &s->value) ||
			decide(f->is_nan, &more->value, NULL))) {
		s->value = more->value;
		s->index = more->index;
	}
	s->n += more->n;
}

static void finish_index(
	const struct folding *f, const struct fold_state *s, void *to)
{
	(void)f;
	memcpy(to, &s->index, sizeof(s->index));
}

/* ---- the operations ------------------------------------------------------------- */

/* dtype: the result's. */
static int run(const char *op, const struct source *x,
	const bool gone[TARN_NDIM_MAX], unsigned flags, enum tarn_dtype dtype,
	enum tarn_dtype written, const struct folding *fold, tarn_tensor **out)
{
	const struct tarn_layout *l = tarn_tensor_layout(x->tensor);
	_cleanup_tensor_ tarn_tensor *apart = NULL;
	struct tarn_layout shape;
	struct result result;
	int r;

	if (flags & ~TARN_KEEP_DIMS)
		return tarn_error_set(
			EINVAL, "%s: there are no flags 0x%x", op, flags);
	reduce_shape(l, gone, flags, &shape);
	r = result_begin_plain(op, dtype, shape.ndim, shape.shape, &x->tensor,
		1, out, &result);
	if (r >= 0 && dtype != written)
		r = result_new(op, written, shape.ndim, shape.shape, &apart);
	if (r >= 0)
		r = rows_fold(op, apart ?: result.work, x->tensor, gone, fold);
	if (r >= 0 && apart)
		r = tarn_copy(result.work, apart, NULL, NULL);
	return result_end(&result, r);
}

static int refuse_empty(const char *op, const struct tarn_layout *l,
	const bool gone[TARN_NDIM_MAX])
{
	for (int i = 0; i < l->ndim; i++)
		if (gone[i] && !l->shape[i])
			return tarn_error_set(EINVAL,
				"%s: of no elements there is none; give "
				"dimensions that have some",
				op);
	return 0;
}

static int of_floats(const char *op, enum chunk_op chunk, const tarn_tensor *x,
	int n_dims, const int *dims, unsigned flags, struct folding *fold,
	tarn_tensor **out)
{
	const struct tarn_layout *l = tarn_tensor_layout(x);
	_cleanup_source_ struct source source = {0};
	bool gone[TARN_NDIM_MAX];
	int r = source_open(op, x, &source);

	if (r >= 0 && dtype_kind(l->dtype) != KIND_FLOAT)
		r = tarn_error_set(EINVAL,
			"%s: of %s; cast the tensor to F32, for example", op,
			tarn_dtype_name(l->dtype));
	if (r >= 0)
		r = reduce_dims(op, l->ndim, n_dims, dims, gone);
	if (r >= 0 && chunk == CHUNK_POWERS && (fold->p < 0 || isinf(fold->p)))
		r = refuse_empty(op, l, gone);
	if (r < 0)
		return r;
	fold->computed = dtype_computed(l->dtype);
	fold->kernel = kernels()->chunk[kernels_type(fold->computed)][chunk];
	fold->chunk = kernel_chunk;
	return run(
		op, &source, gone, flags, l->dtype, fold->computed, fold, out);
}

int tarn_variance(const tarn_tensor *x, int n_dims, const int *dims,
	double correction, bool root, unsigned flags, tarn_tensor **out)
{
	struct folding fold = {.join = join_moments,
		.finish = finish_variance,
		.p = correction,
		.root = root};

	return of_floats(root ? "standard_deviation" : "variance",
		CHUNK_MOMENTS, x, n_dims, dims, flags, &fold, out);
}

int tarn_norm(const tarn_tensor *x, int n_dims, const int *dims, double p,
	unsigned flags, tarn_tensor **out)
{
	struct folding fold = {
		.join = join_powers, .finish = finish_norm, .p = p};

	if (isnan(p))
		return tarn_error_set(EINVAL, "norm: p is not a number");
	return of_floats(
		"norm", CHUNK_POWERS, x, n_dims, dims, flags, &fold, out);
}

int tarn_log_sum_exp(const tarn_tensor *x, int n_dims, const int *dims,
	unsigned flags, tarn_tensor **out)
{
	struct folding fold = {.join = join_exps, .finish = finish_log_sum};

	return of_floats(
		"log_sum_exp", CHUNK_EXPS, x, n_dims, dims, flags, &fold, out);
}

int tarn_arg_reduce(enum tarn_reduce_op op, const tarn_tensor *x, int dim,
	unsigned flags, tarn_tensor **out)
{
	const struct tarn_layout *l = tarn_tensor_layout(x);
	const char *name = op == TARN_AMIN ? "arg_min" : "arg_max";
	const struct kernels *k = kernels();
	_cleanup_source_ struct source source = {0};
	bool gone[TARN_NDIM_MAX];
	struct folding fold = {.chunk = best_chunk,
		.join = join_best,
		.finish = finish_index,
		.in_order = true};
	enum type type;
	int r;

	if (op != TARN_AMIN && op != TARN_AMAX)
		return tarn_error_set(EINVAL,
			"arg_reduce: of reduction %d; TARN_AMIN and TARN_AMAX "
			"have places",
			(int)op);
	r = source_open(name, x, &source);
	if (r >= 0)
		r = reduce_dims(
			name, l->ndim, dim != TARN_ALL_DIMS, &dim, gone);
	if (r >= 0)
		r = refuse_empty(name, l, gone);
	if (r < 0)
		return r;
	fold.computed = dtype_computed(l->dtype);
	type = kernels_type(fold.computed);
	fold.best = k->fold[type][op == TARN_AMIN ? FOLD_MIN : FOLD_MAX];
	fold.better = k->binary[type][op == TARN_AMIN ? TARN_LT : TARN_GT];
	fold.equal = k->binary[type][TARN_EQ];
	fold.is_nan = k->unary[type][TARN_IS_NAN];
	return run(name, &source, gone, flags, TARN_I64, TARN_I64, &fold, out);
}
