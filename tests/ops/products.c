// SPDX-License-Identifier: MIT
/*
 * Products of matrices and stacks of them are those of a plain loop, whatever
 * the layouts of operands and destination are. Values are such that sums are
 * exact, so each result is compared bit by bit, and the memory around a
 * destination too.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kit/tap.h"
#include "tests/ops/views.h"

#define CASES 3000

static const enum tarn_dtype floats[] = {
	TARN_F32, TARN_F32, TARN_F64, TARN_F16, TARN_BF16};
static const enum tarn_dtype integers[] = {TARN_U8, TARN_I8, TARN_I16, TARN_U16,
	TARN_I32, TARN_U32, TARN_I64, TARN_U64, TARN_BOOL};

struct product_case {
	tarn_tensor *a, *b, *bias; /* bias: of linear, where it has one */
	bool linear;
	int ndim; /* of the result */
	int64_t shape[TARN_NDIM_MAX];
	enum tarn_dtype dtype;
};

static int64_t random_extent(void)
{
	static const int64_t extents[] = {1, 2, 3, 5, 8, 17, 33};

	if (!view_below(40))
		return 0;
	return view_below(60) ? extents[view_below(7)]
			      : 90 + (int64_t)view_below(60);
}

/* ---- the plain loop ---------------------------------------------------------- */

/* Where the matrix of a place in the result's stacks is, with ndim dimensions,
 * of which extents of 1 are repeated. */
static int64_t matrix_at(const struct tarn_layout *l, int n, int64_t place,
	const int64_t *stacks)
{
	int64_t at = 0, step = 1, size;

	if (l->ndim < 2)
		return 0;
	size = l->shape[l->ndim - 1] * l->shape[l->ndim - 2];
	for (int i = n - 1, j = l->ndim - 3; i >= 0 && j >= 0; i--, j--) {
		at += (l->shape[j] == 1 ? 0 : place % stacks[i]) * step;
		step *= l->shape[j];
		place /= stacks[i];
	}
	return at * size;
}

struct loop {
	int64_t m, n, k, stacked;
	int stacks; /* dimensions */
};

static struct loop loop_of(const struct product_case *c)
{
	const struct tarn_layout *a = tarn_tensor_layout(c->a),
				 *b = tarn_tensor_layout(c->b);
	struct loop l = {.m = a->ndim > 1 ? a->shape[a->ndim - 2] : 1,
		.n = b->ndim > 1 ? b->shape[b->ndim - 1] : 1,
		.k = a->shape[a->ndim - 1],
		.stacked = 1};

	if (c->linear)
		l.n = b->shape[0];
	l.stacks = c->ndim - (a->ndim > 1) - (b->ndim > 1);
	for (int i = 0; i < l.stacks; i++)
		l.stacked *= c->shape[i];
	return l;
}

/* In doubles, which hold it exactly. */
static double *float_loop(const struct product_case *c)
{
	struct loop l = loop_of(c);
	double *a = view_values(c->a), *b = view_values(c->b);
	double *bias = c->bias ? view_values(c->bias) : NULL;
	double *ret = calloc((size_t)(l.stacked * l.m * l.n) + 1, 8);
	int64_t down = c->linear ? 1 : l.n, right = c->linear ? l.k : 1;

	for (int64_t s = 0; s < l.stacked; s++) {
		const double *x = a + matrix_at(tarn_tensor_layout(c->a),
					      l.stacks, s, c->shape);
		const double *y =
			b + (c->linear ? 0
				       : matrix_at(tarn_tensor_layout(c->b),
						 l.stacks, s, c->shape));
		double *z = ret + s * l.m * l.n;

		for (int64_t i = 0; i < l.m; i++)
			for (int64_t j = 0; j < l.n; j++) {
				z[i * l.n + j] = bias ? bias[j] : 0;
				for (int64_t t = 0; t < l.k; t++)
					z[i * l.n + j] +=
						x[i * l.k + t] *
						y[t * down + j * right];
			}
	}
	free(a);
	free(b);
	free(bias);
	return ret;
}

/* Wraps. */
static int64_t *integer_loop(const struct product_case *c)
{
	struct loop l = loop_of(c);
	int64_t *a = view_integers(c->a), *b = view_integers(c->b);
	uint64_t *ret = calloc((size_t)(l.stacked * l.m * l.n) + 1, 8);

	for (int64_t s = 0; s < l.stacked; s++) {
		const int64_t *x = a + matrix_at(tarn_tensor_layout(c->a),
					       l.stacks, s, c->shape);
		const int64_t *y = b + matrix_at(tarn_tensor_layout(c->b),
					       l.stacks, s, c->shape);

		for (int64_t i = 0; i < l.m; i++)
			for (int64_t j = 0; j < l.n; j++)
				for (int64_t t = 0; t < l.k; t++)
					ret[(s * l.m + i) * l.n + j] +=
						(uint64_t)x[i * l.k + t] *
						(uint64_t)y[t * l.n + j];
	}
	free(a);
	free(b);
	return (int64_t *)ret;
}

/* ---- cases ------------------------------------------------------------------------ */

static enum tarn_dtype random_dtype(bool integer)
{
	return integer ? integers[view_below(8)] : floats[view_below(5)];
}

static void random_matmul(struct product_case *c, bool integer)
{
	static const int64_t few[] = {1, 2, 3};
	int ndim[2] = {1 + (int)view_below(5), 1 + (int)view_below(5)};
	int64_t shape[2][TARN_NDIM_MAX],
		m = random_extent(), n = random_extent(), k = random_extent();
	int stacks = (ndim[0] > ndim[1] ? ndim[0] : ndim[1]) - 2;
	unsigned flags = VIEW_REPEATED | VIEW_SKEW | VIEW_WIDE;

	for (int i = 0; i < stacks; i++) {
		int64_t extent = view_below(50) ? few[view_below(3)] : 0;

		c->shape[i] = 1;
		for (int s = 0; s < 2; s++) {
			int at = i - (stacks - (ndim[s] - 2));

			if (at < 0)
				continue;
			shape[s][at] = view_below(3) ? extent : 1;
			if (shape[s][at] != 1)
				c->shape[i] = extent;
		}
	}
	c->ndim = stacks > 0 ? stacks : 0;
	if (ndim[0] > 1) {
		shape[0][ndim[0] - 2] = m;
		c->shape[c->ndim++] = m;
	}
	shape[0][ndim[0] - 1] = k;
	shape[1][ndim[1] > 1 ? ndim[1] - 2 : 0] = k;
	if (ndim[1] > 1) {
		shape[1][ndim[1] - 1] = n;
		c->shape[c->ndim++] = n;
	}
	c->a = view_random(random_dtype(integer), ndim[0], shape[0], flags);
	c->b = view_random(random_dtype(integer), ndim[1], shape[1], flags);
}

static void random_linear(struct product_case *c)
{
	int64_t shape[TARN_NDIM_MAX],
		weight[2] = {random_extent(), random_extent()};
	int ndim = 1 + (int)view_below(4);

	c->linear = true;
	c->ndim = ndim;
	for (int i = 0; i < ndim; i++)
		c->shape[i] = shape[i] = i < ndim - 2
						 ? 1 + (int64_t)view_below(4)
						 : random_extent();
	shape[ndim - 1] = weight[1];
	c->shape[ndim - 1] = weight[0];
	c->a = view_random(
		random_dtype(false), ndim, shape, VIEW_REPEATED | VIEW_SKEW);
	c->b = view_random(
		random_dtype(false), 2, weight, VIEW_REPEATED | VIEW_SKEW);
	if (view_below(3))
		c->bias = view_random(random_dtype(false), 1, weight,
			VIEW_REPEATED | VIEW_SKEW);
}

/* Of the result's dtype and shape, or wider; or an operand, or a view of one. */
static tarn_tensor *random_destination(const struct product_case *c)
{
	tarn_tensor *to = NULL, *operand = view_below(2) ? c->a : c->b;
	const struct tarn_layout *l = tarn_tensor_layout(operand);
	enum tarn_dtype dtype = c->dtype;

	if (view_below(4) && l->dtype == dtype && c->ndim == 2 &&
		l->ndim == 2 && !tarn_layout_overlaps_itself(l)) {
		if (l->shape[0] == c->shape[0] && l->shape[1] == c->shape[1])
			return tarn_tensor_ref(operand);
		if (l->shape[1] == c->shape[0] && l->shape[0] == c->shape[1] &&
			tarn_tensor_transpose(operand, 0, 1, &to) >= 0)
			return to;
	}
	if (!view_below(5))
		dtype = TARN_F64;
	return view_below(3) ? view_random(dtype, c->ndim, c->shape, VIEW_SKEW)
			     : NULL;
}

static int run(const struct product_case *c, tarn_tensor **out)
{
	return c->linear ? tarn_linear(c->a, c->b, c->bias, out)
			 : tarn_matmul(c->a, c->b, out);
}

static int meet(const struct product_case *c, enum tarn_dtype *ret)
{
	int r = tarn_promote(tarn_tensor_layout(c->a)->dtype,
		tarn_tensor_layout(c->b)->dtype, ret);

	if (r >= 0 && c->bias)
		r = tarn_promote(*ret, tarn_tensor_layout(c->bias)->dtype, ret);
	return r;
}

/* The values are at most 9 * 9 * 149, and so a double's, where they do not wrap;
 * of those that do the lowest bits count. */
static bool integers_same(const tarn_tensor *t, const int64_t *wanted)
{
	const struct tarn_layout *l = tarn_tensor_layout(t);
	int64_t n = tarn_layout_numel(l), *seen = view_integers(t);
	uint64_t mask = UINT64_MAX >> (64 - tarn_dtype_bits(l->dtype));
	bool same = true;

	for (int64_t i = 0; i < n; i++)
		same &= !(((uint64_t)seen[i] ^ (uint64_t)wanted[i]) & mask);
	free(seen);
	return same;
}

static void say(
	const struct product_case *c, const tarn_tensor *to, const char *what)
{
	const tarn_tensor *all[] = {c->a, c->b, c->bias, to};
	char text[200];

	for (int i = 0; i < 4; i++) {
		if (!all[i])
			continue;
		tarn_layout_format(
			tarn_tensor_layout(all[i]), text, sizeof(text));
		diag("%s %s: %s", what,
			(const char *[]) {"first", "second", "bias", "to"}[i],
			text);
	}
}

static bool judge_floats(struct product_case *c)
{
	double *wanted = float_loop(c);
	tarn_tensor *exact = view_of(TARN_F64, c->ndim, c->shape, wanted);
	tarn_tensor *rounded = view_of(c->dtype, c->ndim, c->shape, wanted);
	tarn_tensor *to = random_destination(c), *seen = to;
	struct view_before before = {0};
	bool good;

	if (to)
		before = view_before(to);
	good = run(c, &seen) == 0 && (!to || seen == to);
	if (!good)
		diag("%s", tarn_error_message());
	else if (to)
		good = view_written(before, to, exact);
	else
		good = tarn_tensor_layout(seen)->dtype == c->dtype &&
		       tarn_tensor_equal(seen, rounded) == 1;
	if (!good)
		say(c, to, c->linear ? "linear" : "matmul");
	tarn_tensor_unref(seen);
	tarn_tensor_unref(exact);
	tarn_tensor_unref(rounded);
	free(wanted);
	return good;
}

static bool judge_integers(struct product_case *c)
{
	int64_t *wanted = integer_loop(c);
	tarn_tensor *seen = NULL;
	bool good = tarn_matmul(c->a, c->b, &seen) == 0;

	if (!good)
		diag("%s", tarn_error_message());
	else
		good = tarn_tensor_layout(seen)->dtype == c->dtype &&
		       integers_same(seen, wanted);
	if (!good)
		say(c, seen, "integers");
	tarn_tensor_unref(seen);
	free(wanted);
	return good;
}

static bool random_case(bool integer)
{
	struct product_case c = {0};
	bool good = true;

	if (!integer && !view_below(4))
		random_linear(&c);
	else
		random_matmul(&c, integer);
	if (meet(&c, &c.dtype) >= 0)
		good = integer ? judge_integers(&c) : judge_floats(&c);
	tarn_tensor_unref(c.a);
	tarn_tensor_unref(c.b);
	tarn_tensor_unref(c.bias);
	return good;
}

static void test_random(uint64_t seed, bool integer)
{
	unsigned n = test_cases(CASES), wrong = 0;

	for (unsigned i = 0; i < n && wrong < 5; i++) {
		view_seed(seed + i);
		if (tarn_ops_set_threads(1 + (int)(i % 3)) < 0)
			bail("%s", tarn_error_message());
		if (!random_case(integer)) {
			wrong++;
			diag("that was seed %llu",
				(unsigned long long)(seed + i));
		}
	}
	is_int(0, wrong, "%u random products of %s are those of a plain loop",
		n, integer ? "integers" : "floats");
}

/* ---- few rows, and long ones ---------------------------------------------------- */

/* Those go past BLAS; and a second factor of BF16 or F16 is made F32 in blocks. */
static bool long_case(void)
{
	int64_t k = 250 + (int64_t)view_below(1300);
	int64_t shape[] = {1 + (int64_t)view_below(40), k};
	int64_t weight[] = {1 + (int64_t)view_below(300), k};
	struct product_case c = {.linear = view_below(3),
		.ndim = 2,
		.shape = {shape[0], weight[0]}};
	bool good;

	if (!c.linear) {
		weight[1] = weight[0];
		weight[0] = k;
	}
	c.a = view_random(random_dtype(false), 2, shape, VIEW_SKEW);
	c.b = view_random(random_dtype(false), 2, weight, VIEW_SKEW);
	if (c.linear && view_below(2))
		c.bias = view_random(TARN_F32, 1, weight, 0);
	good = meet(&c, &c.dtype) >= 0 && judge_floats(&c);
	tarn_tensor_unref(c.a);
	tarn_tensor_unref(c.b);
	tarn_tensor_unref(c.bias);
	return good;
}

static void test_long(void)
{
	int wrong = 0, n = (int)test_cases(120);

	for (int i = 0; i < n; i++) {
		view_seed((uint64_t)i);
		if (tarn_ops_set_threads(1 + i % 3) < 0)
			bail("%s", tarn_error_message());
		if (!long_case()) {
			wrong++;
			diag("that was seed %d", i);
		}
	}
	is_int(0, wrong, "products of few long rows are those of a plain loop");
}

static tarn_tensor *fractions(int64_t rows, int64_t k, enum tarn_dtype dtype)
{
	int64_t shape[] = {rows, k};
	tarn_tensor *t = NULL;

	if (tarn_random_normal((uint64_t)k, 0, 0, 1, dtype, 2, shape, &t) < 0)
		bail("%s", tarn_error_message());
	return t;
}

/* Sums that are rounded: the same bits for any number of threads. */
static void test_threads(void)
{
	static const struct {
		int64_t m, n, k;
		enum tarn_dtype dtype;
	} of[] = {{32, 3000, 784, TARN_F32}, {5, 4000, 2100, TARN_BF16},
		{300, 20, 1500, TARN_F32}, {32, 600, 1030, TARN_F16}};

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		tarn_tensor *a = fractions(of[i].m, of[i].k, TARN_F32);
		tarn_tensor *b = fractions(of[i].n, of[i].k, of[i].dtype);
		tarn_tensor *seen[2] = {NULL, NULL};

		for (int j = 0; j < 2; j++)
			if (tarn_ops_set_threads(1 + 3 * j) < 0 ||
				tarn_linear(a, b, NULL, &seen[j]) < 0)
				bail("%s", tarn_error_message());
		is_int(1, tarn_tensor_equal(seen[0], seen[1]),
			"%lld rows by %lld of %lld %s have the same bits on "
			"four threads",
			(long long)of[i].m, (long long)of[i].n,
			(long long)of[i].k, tarn_dtype_name(of[i].dtype));
		for (int j = 0; j < 2; j++)
			tarn_tensor_unref(seen[j]);
		tarn_tensor_unref(a);
		tarn_tensor_unref(b);
	}
}

/* ---- large ones, that are cut ----------------------------------------------- */

static void test_cut(void)
{
	int64_t shape[] = {700, 640}, weight[] = {900, 640};
	struct product_case c = {.linear = true,
		.ndim = 2,
		.shape = {700, 900},
		.dtype = TARN_F32};

	for (int i = 0; i < 3; i++) {
		view_seed(1);
		c.a = view_random(TARN_F32, 2, shape, 0);
		c.b = view_random(TARN_F32, 2, weight, 0);
		c.bias = i ? view_random(TARN_F32, 1, weight, 0) : NULL;
		if (tarn_ops_set_threads(1 + i * 2) < 0)
			bail("%s", tarn_error_message());
		ok(judge_floats(&c), "a large product on %d threads is exact",
			1 + i * 2);
		tarn_tensor_unref(c.a);
		tarn_tensor_unref(c.b);
		tarn_tensor_unref(c.bias);
	}
}

/* ---- what is refused ------------------------------------------------------------ */

#define ZEROS(dtype, ...)                                                      \
	zeros(dtype, (int)(sizeof((int64_t[]) {0, ##__VA_ARGS__}) / 8 - 1),    \
		(int64_t[]) {0, ##__VA_ARGS__} + 1)

static tarn_tensor *zeros(enum tarn_dtype dtype, int ndim, const int64_t *shape)
{
	tarn_tensor *t;

	if (tarn_tensor_zeros(dtype, ndim, shape, &t) < 0)
		bail("%s", tarn_error_message());
	return t;
}

static void refused(int wanted, const char *part, tarn_tensor *a,
	tarn_tensor *b, tarn_tensor *to)
{
	tarn_tensor *out = to;

	is_int(wanted, tarn_matmul(a, b, &out), "refused: %s", part);
	has_str(part, tarn_error_message(), "the sentence says: %s", part);
	ok(out == to, "a refused product leaves the destination alone");
	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
	tarn_tensor_unref(to);
}

static void test_refused(void)
{
	float bytes[4] = {0};
	tarn_storage *lent;
	struct tarn_layout l;
	tarn_tensor *to;

	refused(-EINVAL,
		"matmul: the shapes [2, 3] and [4, 5] do not fit: the last "
		"extent of the first, 3, must be the last but one of the "
		"second, 4",
		ZEROS(TARN_F32, 2, 3), ZEROS(TARN_F32, 4, 5), NULL);
	refused(-EINVAL, "one has no dimensions; multiply with mul",
		ZEROS(TARN_F32), ZEROS(TARN_F32, 4), NULL);
	refused(-EINVAL, "extents before the last two must be the same, or 1",
		ZEROS(TARN_F32, 2, 3, 4), ZEROS(TARN_F32, 5, 4, 3), NULL);
	refused(-EINVAL, "it is not for BOOL; cast one side to I64 or F32",
		ZEROS(TARN_BOOL, 2, 3), ZEROS(TARN_BOOL, 3, 2), NULL);
	refused(-ENOTSUP, "C64", ZEROS(TARN_C64, 2, 3), ZEROS(TARN_F32, 3, 2),
		NULL);
	refused(-EINVAL, "the result is [2, 2], and the destination [2, 3]",
		ZEROS(TARN_F32, 2, 3), ZEROS(TARN_F32, 3, 2),
		ZEROS(TARN_F32, 2, 3));
	refused(-EINVAL, "the result is F32, which a destination of I32",
		ZEROS(TARN_F32, 2, 3), ZEROS(TARN_F32, 3, 2),
		ZEROS(TARN_I32, 2, 2));
	if (tarn_storage_borrow(bytes, sizeof(bytes), 0, NULL, NULL, &lent) <
			0 ||
		tarn_layout_contiguous(TARN_F32, 2, (int64_t[]) {2, 2}, &l) <
			0 ||
		tarn_tensor_new(lent, 0, &l, &to) < 0)
		bail("%s", tarn_error_message());
	refused(-EROFS, "the destination is read-only", ZEROS(TARN_F32, 2, 3),
		ZEROS(TARN_F32, 3, 2), to);
	tarn_storage_unref(lent);
}

static void linear_refused(
	const char *part, tarn_tensor *x, tarn_tensor *w, tarn_tensor *bias)
{
	tarn_tensor *out = NULL;

	is_int(-EINVAL, tarn_linear(x, w, bias, &out), "refused: %s", part);
	has_str(part, tarn_error_message(), "the sentence says: %s", part);
	tarn_tensor_unref(x);
	tarn_tensor_unref(w);
	tarn_tensor_unref(bias);
}

static void test_linear_refused(void)
{
	linear_refused("linear: [2, 3] by a weight of [3, 4]; the weight must "
		       "be [outputs, inputs]",
		ZEROS(TARN_F32, 2, 3), ZEROS(TARN_F32, 3, 4), NULL);
	linear_refused("a bias of [3] to a weight of [4, 3]; it must be [4]",
		ZEROS(TARN_F32, 2, 3), ZEROS(TARN_F32, 4, 3),
		ZEROS(TARN_F32, 3));
}

/* What was there does not shine through, be it NaN. */
static void test_nan_before(void)
{
	tarn_tensor *a = ZEROS(TARN_F32, 3, 0), *b = ZEROS(TARN_F32, 0, 3);
	tarn_tensor *v = ZEROS(TARN_F32, 4), *m = ZEROS(TARN_F32, 4, 3);
	tarn_tensor *to, *row;

	if (tarn_tensor_full(TARN_F32, 2, (int64_t[]) {3, 3}, 0.0 / 0.0, &to) <
			0 ||
		tarn_tensor_full(
			TARN_F32, 1, (int64_t[]) {3}, 0.0 / 0.0, &row) < 0)
		bail("%s", tarn_error_message());
	is_int(0, tarn_matmul(a, b, &to), "a sum over nothing is computed");
	is_mem((float[9]) {0}, tarn_tensor_data(to), 36,
		"a sum over nothing is 0, where a NaN was");
	is_int(0, tarn_matmul(v, m, &row), "a row by a matrix is computed");
	is_mem((float[3]) {0}, tarn_tensor_data(row), 12,
		"a row of zeros by a matrix is 0, where a NaN was");
	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
	tarn_tensor_unref(v);
	tarn_tensor_unref(m);
	tarn_tensor_unref(to);
	tarn_tensor_unref(row);
}

/* Neither the pool's threads nor BLAS's are a child's. */
static void test_fork(void)
{
	tarn_tensor *a, *b, *before = NULL, *after = NULL;
	int status = -1;
	pid_t child;

	view_seed(3);
	a = view_random(TARN_F32, 2, (int64_t[]) {400, 300}, 0);
	b = view_random(TARN_F32, 2, (int64_t[]) {300, 500}, 0);
	if (tarn_ops_set_threads(2) < 0 || tarn_matmul(a, b, &before) < 0)
		bail("%s", tarn_error_message());
	fflush(stdout);
	child = fork();
	if (child == 0)
		_exit(tarn_matmul(a, b, &after) == 0 &&
					tarn_tensor_equal(before, after) == 1
				? 0
				: 1);
	waitpid(child, &status, 0);
	is_int(0, status, "a child of fork() multiplies as its parent did");
	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
	tarn_tensor_unref(before);
}

/* An operand that lies in a file is read. */
static void test_file(void)
{
	const float values[] = {1, 2, 3, 4, 5, 6}, wanted[] = {5, 11, 17};
	char path[4096];
	FILE *file;
	tarn_storage *storage;
	tarn_tensor *weight, *x, *out = NULL;
	struct tarn_layout l;

	snprintf(path, sizeof(path), "%s/weight", test_tmpdir());
	file = fopen(path, "w+");
	if (!file || fwrite(values, 4, 6, file) != 6 || fflush(file) != 0)
		bail("%s cannot be written", path);
	if (tarn_storage_from_fd(fileno(file), 0, 24, &storage) < 0 ||
		tarn_layout_contiguous(TARN_F32, 2, (int64_t[]) {3, 2}, &l) <
			0 ||
		tarn_tensor_new(storage, 0, &l, &weight) < 0 ||
		tarn_tensor_arange(TARN_F32, 1, 3, 1, &x) < 0)
		bail("%s", tarn_error_message());
	is_int(0, tarn_linear(x, weight, NULL, &out),
		"a weight in a file is multiplied");
	is_mem(wanted, tarn_tensor_data(out), 12,
		"a weight in a file gives what it gives in memory");
	tarn_tensor_unref(out);
	tarn_tensor_unref(x);
	tarn_tensor_unref(weight);
	tarn_storage_unref(storage);
	fclose(file);
	unlink(path);
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 20000;

	test_random(seed, false);
	test_random(seed, true);
	test_long();
	test_threads();
	test_cut();
	test_refused();
	test_linear_refused();
	test_nan_before();
	test_file();
	test_fork();
	return done(45);
}
