// SPDX-License-Identifier: MIT
/*
 * What needs whole rows, beside loops in F64 that do the same plainly: softmax
 * and its logarithm, sums up to each element, layers that are normed, variances,
 * norms, logarithms of sums of exponentials, and places of the largest. Tensors
 * have any strides and dtype; each case is done with one thread and with two,
 * whose bits are the same, and in place.
 */
#include <tarn/ops.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/tap.h"
#include "tests/ops/tensors.h"

static const enum tarn_dtype floats[] = {
	TARN_F32, TARN_F64, TARN_F16, TARN_BF16, TARN_F32};
static const enum tarn_dtype all[] = {TARN_BOOL, TARN_U8, TARN_I8, TARN_U16,
	TARN_I16, TARN_U32, TARN_I32, TARN_U64, TARN_I64, TARN_F16, TARN_BF16,
	TARN_F32, TARN_F64};

static double tolerance(enum tarn_dtype dtype)
{
	return dtype == TARN_F64    ? 1e-11
	       : dtype == TARN_F32  ? 1e-5
	       : dtype == TARN_F16  ? 2e-3
	       : dtype == TARN_BF16 ? 2e-2
				    : 0;
}

/* ---- plainly ----------------------------------------------------------- */

enum what {
	SOFTMAX,
	LOG_SOFTMAX,
	CUMULATIVE_SUM,
	LAYER_NORM,
	RMS_NORM,
	VARIANCE,
	NORM,
	LOG_SUM_EXP,
	ARG_MAX,
	ARG_MIN,
	WHATS
};
static const char *const names[WHATS] = {"softmax", "log_softmax",
	"cumulative_sum", "layer_norm", "rms_norm", "variance", "norm",
	"log_sum_exp", "arg_max", "arg_min"};

struct problem {
	enum what what;
	double p; /* of a norm; the variance's correction */
	int dim, n_dims, ndim;
	const double *weight, *bias;
	unsigned flags;
};

static double sum_of(
	const double *x, int64_t n, double (*f)(double, double), double p)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += f(x[i], p);
	return sum;
}

static double exp_less(double x, double p)
{
	return exp(x - p);
}

static double square_less(double x, double p)
{
	return (x - p) * (x - p);
}

static double power(double x, double p)
{
	return p == 0 ? x != 0 : pow(fabs(x), p);
}

static double identity(double x, double p)
{
	(void)p;
	return x;
}

static int64_t place(const double *x, int64_t n, bool least)
{
	int64_t found = 0;

	for (int64_t i = 1; i < n && !isnan(x[found]); i++)
		if (isnan(x[i]) || (least ? x[i] < x[found] : x[i] > x[found]))
			found = i;
	return found;
}

static double norm_of(const double *x, int64_t n, double p)
{
	double most = p < 0 ? INFINITY : 0;

	if (!isinf(p))
		return p ? pow(sum_of(x, n, power, p), 1 / p)
			 : sum_of(x, n, power, p);
	for (int64_t i = 0; i < n; i++)
		if (isnan(x[i]) ||
			(p < 0 ? fabs(x[i]) < most : fabs(x[i]) > most))
			most = isnan(most) ? most : fabs(x[i]);
	return most;
}

/* Of a row of n elements: as many, or one. */
static void plainly(
	const struct problem *q, const double *x, int64_t n, double *y)
{
	double most = n ? x[place(x, n, false)] : 0, mean, scale, exps, sum = 0;

	mean = sum_of(x, n, identity, 0) / (double)n;
	scale = sum_of(x, n, square_less, q->what == RMS_NORM ? 0 : mean);
	switch (q->what) {
	case VARIANCE:
		*y = scale / fmax((double)n - q->p, 0);
		return;
	case NORM:
		*y = norm_of(x, n, q->p);
		return;
	case LOG_SUM_EXP:
		*y = isinf(most) && n
			     ? most
			     : log(sum_of(x, n, exp_less, most)) + most;
		return;
	case ARG_MAX:
	case ARG_MIN:
		*y = (double)place(x, n, q->what == ARG_MIN);
		return;
	default:
		break;
	}
	scale = 1 / sqrt(scale / (double)n + 1e-5);
	exps = sum_of(x, n, exp_less, most);
	for (int64_t i = 0; i < n; i++) {
		double w = q->weight ? q->weight[i] : 1;
		double b = q->bias ? q->bias[i] : 0;

		y[i] = q->what == SOFTMAX          ? exp(x[i] - most) / exps
		       : q->what == LOG_SOFTMAX    ? x[i] - most - log(exps)
		       : q->what == CUMULATIVE_SUM ? (sum += x[i])
		       : q->what == RMS_NORM       ? x[i] * scale * w
					     : (x[i] - mean) * scale * w + b;
	}
}

/* The row's dimensions lie between outer and inner ones. */
static double *plain_result(const struct problem *q,
	const struct tarn_layout *l, const double *x, int64_t *ret_n)
{
	bool folded = q->what >= VARIANCE;
	int first = q->dim, last = q->dim + q->n_dims;
	int64_t outer = 1, n = 1, inner = 1, m;
	double *y, *row, *to;

	for (int i = 0; i < l->ndim; i++)
		*(i < first ? &outer : i < last ? &n : &inner) *= l->shape[i];
	m = folded ? 1 : n;
	*ret_n = outer * m * inner;
	y = calloc((size_t)*ret_n + 1, sizeof(*y));
	row = calloc((size_t)n + 1, sizeof(*row));
	to = calloc((size_t)n + 1, sizeof(*to));
	for (int64_t i = 0; i < outer * inner; i++) {
		int64_t o = i / inner, k = i % inner;

		for (int64_t j = 0; j < n; j++)
			row[j] = x[(o * n + j) * inner + k];
		plainly(q, row, n, to);
		for (int64_t j = 0; j < m; j++)
			y[(o * m + j) * inner + k] = to[j];
	}
	free(row);
	free(to);
	return y;
}

/* ---- by the library ---------------------------------------------------------- */

static int call(const struct problem *q, const tarn_tensor *x,
	const tarn_tensor *weight, const tarn_tensor *bias, tarn_tensor **out)
{
	int dims[TARN_NDIM_MAX];

	for (int i = 0; i < q->n_dims; i++)
		dims[i] = q->dim + i - (i % 2 ? q->ndim : 0);
	switch (q->what) {
	case SOFTMAX:
		return tarn_softmax(x, q->dim, out);
	case LOG_SOFTMAX:
		return tarn_log_softmax(x, q->dim, out);
	case CUMULATIVE_SUM:
		return tarn_cumulative_sum(x, q->dim, out);
	case LAYER_NORM:
		return tarn_layer_norm(x, q->n_dims, weight, bias, 1e-5, out);
	case RMS_NORM:
		return tarn_rms_norm(x, q->n_dims, weight, 1e-5, out);
	case VARIANCE:
		return tarn_variance(
			x, q->n_dims, dims, q->p, false, q->flags, out);
	case NORM:
		return tarn_norm(x, q->n_dims, dims, q->p, q->flags, out);
	case LOG_SUM_EXP:
		return tarn_log_sum_exp(x, q->n_dims, dims, q->flags, out);
	default:
		return tarn_arg_reduce(
			q->what == ARG_MIN ? TARN_AMIN : TARN_AMAX, x,
			q->n_dims == q->ndim ? TARN_ALL_DIMS : q->dim, q->flags,
			out);
	}
}

static void choose(struct random_state *r, struct problem *q)
{
	static const double powers[] = {
		0, 1, 2, 3, 0.5, -1, INFINITY, -INFINITY};

	q->dim = (int)random_below(r, q->ndim);
	q->n_dims = 1;
	if (q->what >= LAYER_NORM && q->what <= LOG_SUM_EXP)
		q->n_dims += (int)random_below(r, q->ndim - q->dim);
	if (q->what == LAYER_NORM || q->what == RMS_NORM)
		q->dim = q->ndim - q->n_dims;
	if (q->what >= ARG_MAX && !random_below(r, 3)) {
		q->dim = 0;
		q->n_dims = q->ndim;
	}
	q->flags = random_below(r, 2) ? TARN_KEEP_DIMS : 0;
	q->p = q->what == NORM ? powers[random_below(r, 8)]
			       : (double)random_below(r, 2);
}

/* ---- cases ------------------------------------------------------------------ */

static bool is_empty(const struct tarn_layout *l)
{
	return !tarn_layout_numel(l);
}

static bool try_case(const struct problem *q, tarn_tensor *x,
	const tarn_tensor *weight, const tarn_tensor *bias)
{
	const struct tarn_layout *l = tarn_tensor_layout(x);
	double *numbers = tensor_numbers(x), *wanted;
	tarn_tensor *one = NULL, *two = NULL, *here = x;
	int64_t n;
	bool good;

	wanted = plain_result(q, l, numbers, &n);
	must(tarn_ops_set_threads(1));
	must(call(q, x, weight, bias, &one));
	must(tarn_ops_set_threads(2));
	must(call(q, x, weight, bias, &two));
	good = tensor_agrees(one, n, wanted,
		tolerance(l->dtype) *
			(q->what == CUMULATIVE_SUM || q->what == NORM ? 4 : 1));
	if (!tensors_same_bits(one, two)) {
		diag("two threads give other bits");
		good = false;
	}
	if (q->what < VARIANCE && tarn_tensor_layout(one)->dtype == l->dtype) {
		must(call(q, x, weight, bias, &here));
		if (!tensors_same_bits(one, x)) {
			diag("in place it has other bits");
			good = false;
		}
	}
	tarn_tensor_unref(one);
	tarn_tensor_unref(two);
	free(numbers);
	free(wanted);
	return good;
}

static bool one_case(uint64_t seed, enum what what)
{
	struct random_state r = {seed};
	struct problem q = {.what = what};
	enum tarn_dtype dtype = floats[random_below(&r, 5)];
	bool special = !random_below(&r, 5), good = true;
	tarn_tensor *x, *w = NULL, *b = NULL;
	int64_t shape[TARN_NDIM_MAX];

	if (what >= ARG_MAX)
		dtype = all[random_below(&r, 13)];
	else if (what == CUMULATIVE_SUM && random_below(&r, 2))
		dtype = all[random_below(&r, 9)];
	do
		q.ndim = random_shape(&r, 4, shape);
	while (!q.ndim);
	choose(&r, &q);
	x = random_tensor(
		&r, dtype, q.ndim, shape, special && tolerance(dtype) > 0);
	if (what == LAYER_NORM || what == RMS_NORM) {
		w = random_tensor(&r, dtype, q.n_dims, shape + q.dim, false);
		q.weight = tensor_numbers(w);
	}
	if (what == LAYER_NORM) {
		b = random_tensor(&r, TARN_F32, q.n_dims, shape + q.dim, false);
		q.bias = tensor_numbers(b);
	}
	if (!is_empty(tarn_tensor_layout(x)) || what < NORM)
		good = try_case(&q, x, w, b);
	if (!good)
		diag("%s, seed %llu: %s, dimension %d and %d more, p %g",
			names[what], (unsigned long long)seed,
			tarn_dtype_name(dtype), q.dim, q.n_dims - 1, q.p);
	free((void *)q.weight);
	free((void *)q.bias);
	tarn_tensor_unref(x);
	tarn_tensor_unref(w);
	tarn_tensor_unref(b);
	return good;
}

static void random_cases(void)
{
	for (enum what what = 0; what < WHATS; what++) {
		unsigned n = test_cases(250), good = 0;

		for (unsigned i = 0; i < n && good == i; i++)
			good += one_case(1000 * what + i, what);
		is_int(n, good, "%s of random tensors is that of plain loops",
			names[what]);
	}
}

/* ---- corners ------------------------------------------------------------------ */

static void long_rows(void)
{
	struct random_state r = {7};
	struct problem q = {.n_dims = 1, .ndim = 1, .p = 2};
	int64_t n = 300001;
	tarn_tensor *x = random_tensor(&r, TARN_F32, 1, &n, false);

	for (q.what = 0; q.what < WHATS; q.what++)
		ok(q.what == LAYER_NORM || q.what == RMS_NORM ||
				try_case(&q, x, NULL, NULL),
			"%s of one row of %lld elements", names[q.what],
			(long long)n);
	tarn_tensor_unref(x);
}

static void corners(void)
{
	int64_t two = 2, none = 0;
	const double low[] = {-INFINITY, -INFINITY}, nans[] = {NAN, NAN};
	const double far[] = {1e9, 1e9 + 64};
	tarn_tensor *x = tensor_of(TARN_F32, 1, &two, low), *y = NULL;
	tarn_tensor *f = tensor_of(TARN_F32, 1, &two, far), *v = NULL;
	tarn_tensor *e = tensor_of(TARN_F32, 1, &none, low), *s = NULL;

	must(tarn_softmax(x, 0, &y));
	ok(tensor_agrees(y, 2, nans, 0), "softmax of -inf alone is NaN");
	must(tarn_variance(f, 0, NULL, 0, false, 0, &v));
	ok(tensor_agrees(v, 1, (const double[]) {1024}, 0),
		"the variance of what is far from 0 is exact");
	must(tarn_log_sum_exp(e, 0, NULL, 0, &s));
	ok(tensor_agrees(s, 1, low, 0), "log_sum_exp of nothing is -inf");
	v = tarn_tensor_unref(v);
	must(tarn_variance(e, 0, NULL, 1, true, 0, &v));
	ok(tensor_agrees(v, 1, nans, 0),
		"the standard deviation of nothing is NaN");
	tarn_tensor_unref(x);
	tarn_tensor_unref(y);
	tarn_tensor_unref(f);
	tarn_tensor_unref(v);
	tarn_tensor_unref(e);
	tarn_tensor_unref(s);
}

static void refused(void)
{
	int64_t shape[2] = {2, 3}, none = 0;
	tarn_tensor *x, *i, *e, *w, *locked, *out = NULL;

	must(tarn_tensor_ones(TARN_F32, 2, shape, &x));
	must(tarn_tensor_ones(TARN_I32, 2, shape, &i));
	must(tarn_tensor_ones(TARN_F32, 1, &none, &e));
	must(tarn_tensor_ones(TARN_F32, 1, shape, &w));
	locked = tensor_read_only(x);
	is_int(-EROFS, tarn_softmax(x, 1, &locked),
		"softmax into a read-only tensor is refused");
	has_str("softmax: the destination is read-only", tarn_error_message(),
		"the sentence names the operation");
	is_int(-EINVAL, tarn_softmax(i, 1, &out), "softmax of I32 is refused");
	is_str("softmax: of I32; cast the tensor to F32, for example",
		tarn_error_message(), "the sentence says what would work");
	is_int(-EINVAL, tarn_log_softmax(x, 2, &out),
		"a dimension that is not there is refused");
	is_str("log_softmax: there is no dimension 2 of 2",
		tarn_error_message(), "the sentence names the dimension");
	is_int(-EINVAL, tarn_layer_norm(x, 1, w, NULL, 0, &out),
		"a weight of another shape is refused");
	is_str("layer_norm: the weight is [2], and the last 1 dimensions of "
	       "the tensor are [3]",
		tarn_error_message(), "the sentence has both shapes");
	is_int(-EINVAL, tarn_rms_norm(x, 3, NULL, 0, &out),
		"more dimensions than there are are refused");
	is_int(-EINVAL, tarn_arg_reduce(TARN_AMAX, e, 0, 0, &out),
		"there is no largest of no elements");
	is_int(-EINVAL, tarn_norm(e, 0, NULL, INFINITY, 0, &out),
		"there is no largest magnitude of no elements");
	is_int(-EINVAL, tarn_variance(x, 0, NULL, 0, false, 6, &out),
		"unknown flags are refused");
	ok(!out, "a refused call makes no tensor");
	tarn_tensor_unref(x);
	tarn_tensor_unref(i);
	tarn_tensor_unref(e);
	tarn_tensor_unref(w);
	tarn_tensor_unref(locked);
}

int main(void)
{
	random_cases();
	long_rows();
	corners();
	refused();
	return done(WHATS + WHATS + 4 + 13);
}
