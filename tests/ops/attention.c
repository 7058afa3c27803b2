// SPDX-License-Identifier: MIT
/*
 * Attention is what the formula gives in double precision, for all layouts,
 * masks, groups of heads, and more queries and keys than a block has; and the
 * same bits for any number of threads.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/copy.h>

#include "tests/kit/tap.h"
#include "tests/ops/views.h"

#define CASES 2000

struct attention_case {
	tarn_tensor *q, *k, *v, *mask;
	struct tarn_attention_options options;
	int stacks; /* dimensions of the result before the last two */
	int64_t shape[TARN_NDIM_MAX];
	enum tarn_dtype dtype;
};

static void must(int r)
{
	if (r < 0)
		bail("%s", tarn_error_message());
}

/* ---- the formula ------------------------------------------------------------ */

/* Where the last two dimensions begin, in C order, at a place of the result's
 * stacks. groups: of heads that share one (dimension -3). */
static int64_t part_at(const struct attention_case *c, const tarn_tensor *t,
	int64_t place, int64_t groups)
{
	const struct tarn_layout *l = tarn_tensor_layout(t);
	int64_t at = 0, step = 1;

	for (int i = c->stacks - 1, j = l->ndim - 3; i >= 0 && j >= 0;
		i--, j--) {
		int64_t index = place % c->shape[i];

		if (i == c->stacks - 1)
			index /= groups;
		at += (l->shape[j] == 1 ? 0 : index) * step;
		step *= l->shape[j];
		place /= c->shape[i];
	}
	return at * (l->ndim > 1 ? l->shape[l->ndim - 2] : 1) *
	       l->shape[l->ndim - 1];
}

static double masked(const struct attention_case *c, const double *mask,
	double score, int64_t i, int64_t j)
{
	const struct tarn_layout *l;
	int64_t rows, cols;
	double value;

	if (c->options.flags & TARN_ATTENTION_CAUSAL && j > i)
		return -INFINITY;
	if (!mask)
		return score;
	l = tarn_tensor_layout(c->mask);
	rows = l->ndim > 1 ? l->shape[l->ndim - 2] : 1;
	cols = l->shape[l->ndim - 1];
	value = mask[(rows == 1 ? 0 : i) * cols + (cols == 1 ? 0 : j)];
	if (l->dtype == TARN_BOOL)
		return value != 0 ? score : -INFINITY;
	return score + value;
}

struct sizes {
	int64_t l, s, e, ev, groups, stacked;
	double scale;
};

/* One query: its row of the result. */
static void formula_row(const struct attention_case *c, const struct sizes *n,
	int64_t i, const double *q, const double *k, const double *v,
	const double *mask, double *out)
{
	double *p = malloc((size_t)n->s * 8 + 1), largest = -INFINITY, sum = 0;

	for (int64_t j = 0; j < n->s; j++) {
		p[j] = 0;
		for (int64_t t = 0; t < n->e; t++)
			p[j] += q[i * n->e + t] * k[j * n->e + t] * n->scale;
		p[j] = masked(c, mask, p[j], i, j);
		largest = fmax(largest, p[j]);
	}
	for (int64_t t = 0; t < n->ev; t++)
		out[t] = 0;
	for (int64_t j = 0; j < n->s && largest > -INFINITY; j++) {
		p[j] = exp(p[j] - largest);
		sum += p[j];
		for (int64_t t = 0; t < n->ev; t++)
			out[t] += p[j] * v[j * n->ev + t];
	}
	for (int64_t t = 0; t < n->ev && sum > 0; t++)
		out[t] /= sum;
	free(p);
}

static double *formula(const struct attention_case *c)
{
	const struct tarn_layout *k = tarn_tensor_layout(c->k);
	struct sizes n = {.l = c->shape[c->stacks],
		.ev = c->shape[c->stacks + 1],
		.s = k->shape[k->ndim - 2],
		.e = k->shape[k->ndim - 1],
		.groups = 1,
		.stacked = 1};
	double *q = view_values(c->q), *keys = view_values(c->k);
	double *v = view_values(c->v), *ret;
	double *mask = c->mask ? view_values(c->mask) : NULL;

	n.scale = c->options.scale != 0 ? c->options.scale
					: 1 / sqrt((double)n.e);
	if (c->options.flags & TARN_ATTENTION_GROUPED)
		n.groups = c->shape[c->stacks - 1] / k->shape[k->ndim - 3];
	for (int i = 0; i < c->stacks; i++)
		n.stacked *= c->shape[i];
	ret = calloc((size_t)(n.stacked * n.l * n.ev) + 1, 8);
	for (int64_t s = 0; s < n.stacked; s++)
		for (int64_t i = 0; i < n.l; i++)
			formula_row(c, &n, i, q + part_at(c, c->q, s, 1),
				keys + part_at(c, c->k, s, n.groups),
				v + part_at(c, c->v, s, n.groups),
				mask ? mask + part_at(c, c->mask, s, 1) : NULL,
				ret + (s * n.l + i) * n.ev);
	free(q);
	free(keys);
	free(v);
	free(mask);
	return ret;
}

/* ---- cases --------------------------------------------------------------------- */

static int64_t random_extent(bool large, int64_t most)
{
	if (large)
		return most / 2 + (int64_t)view_below((uint64_t)most / 2);
	return view_below(40) ? 1 + (int64_t)view_below(20) : 0;
}

static void random_mask(struct attention_case *c, int64_t s)
{
	int64_t shape[TARN_NDIM_MAX];
	int drop = (int)view_below((uint64_t)c->stacks + 1);
	int ndim = c->stacks + 2 - drop;
	enum tarn_dtype dtypes[] = {TARN_BOOL, TARN_F32, TARN_F16, TARN_F64};

	for (int i = 0; i < ndim; i++) {
		shape[i] = i == ndim - 1 ? s : c->shape[drop + i];
		if (!view_below(4))
			shape[i] = 1;
	}
	c->mask =
		view_random(dtypes[view_below(4)], ndim, shape, VIEW_REPEATED);
	c->options.mask = c->mask;
}

static void random_case(struct attention_case *c, bool large)
{
	static const enum tarn_dtype dtypes[] = {
		TARN_F32, TARN_F32, TARN_F32, TARN_F64, TARN_F16, TARN_BF16};
	enum tarn_dtype dtype = dtypes[view_below(6)];
	int64_t shape[3][TARN_NDIM_MAX],
		l = random_extent(large, 200), s = random_extent(large, 1200),
		e = random_extent(false, 0), ev = random_extent(false, 0);
	bool grouped = !view_below(3);

	*c = (struct attention_case) {.dtype = dtype};
	c->stacks = large ? 1 : (int)view_below(4);
	grouped &= c->stacks > 0;
	for (int i = 0; i < c->stacks; i++) {
		c->shape[i] = 1 + (int64_t)view_below(3);
		for (int t = 0; t < 3; t++)
			shape[t][i] = view_below(4) ? c->shape[i] : 1;
		if (shape[0][i] == 1 && shape[1][i] == 1 && shape[2][i] == 1)
			c->shape[i] = 1;
	}
	if (grouped) {
		int i = c->stacks - 1;

		shape[1][i] = shape[2][i] = 1 + (int64_t)view_below(3);
		c->shape[i] = shape[0][i] =
			shape[1][i] * (1 + (int64_t)view_below(3));
		c->options.flags |= TARN_ATTENTION_GROUPED;
	}
	for (int t = 0; t < 3; t++) {
		shape[t][c->stacks] = t ? s : l;
		shape[t][c->stacks + 1] = t == 2 ? ev : e;
	}
	c->shape[c->stacks] = l;
	c->shape[c->stacks + 1] = ev;
	c->q = view_random(dtype, c->stacks + 2, shape[0], VIEW_REPEATED);
	c->k = view_random(
		dtype, c->stacks + 2, shape[1], VIEW_REPEATED | VIEW_SKEW);
	c->v = view_random(dtype, c->stacks + 2, shape[2], VIEW_REPEATED);
	if (!view_below(3))
		c->options.flags |= TARN_ATTENTION_CAUSAL;
	if (!view_below(3))
		c->options.scale = 0.25;
	if (view_below(2))
		random_mask(c, s);
}

static void drop(struct attention_case *c)
{
	tarn_tensor_unref(c->q);
	tarn_tensor_unref(c->k);
	tarn_tensor_unref(c->v);
	tarn_tensor_unref(c->mask);
}

/* The largest difference; values are at most 2. */
static double differs(const tarn_tensor *t, const double *wanted)
{
	double *seen = view_values(t), most = 0;
	int64_t n = tarn_layout_numel(tarn_tensor_layout(t));

	for (int64_t i = 0; i < n; i++) {
		double d = fabs(seen[i] - wanted[i]);

		if (!(d <= most)) /* a NaN stays */
			most = isnan(most) ? most : d;
	}
	free(seen);
	return most;
}

static double error_of(enum tarn_dtype dtype)
{
	switch (dtype) {
	case TARN_F64:
		return 1e-13;
	case TARN_F32:
		return 4e-6;
	case TARN_F16:
		return 1.1e-3; /* half of the last place of 2 */
	default:
		return 8.1e-3;
	}
}

static void say(const struct attention_case *c, double difference)
{
	const tarn_tensor *all[] = {c->q, c->k, c->v, c->mask};
	char text[200];

	diag("%s; flags %d, scale %g, differs by %g", tarn_error_message(),
		(int)c->options.flags, c->options.scale, difference);
	for (int i = 0; i < 4; i++) {
		if (!all[i])
			continue;
		tarn_layout_format(
			tarn_tensor_layout(all[i]), text, sizeof(text));
		diag("%c: %s", "qkvm"[i], text);
	}
}

/* Into a new tensor, a view, or one of the operands. */
static bool judge(struct attention_case *c)
{
	double *wanted = formula(c), difference = NAN;
	tarn_tensor *to = NULL, *out;
	const struct tarn_layout *q = tarn_tensor_layout(c->q);
	bool fits = q->ndim == c->stacks + 2 && !tarn_layout_overlaps_itself(q);
	bool good;

	for (int i = 0; fits && i < q->ndim; i++)
		fits = q->shape[i] == c->shape[i];
	if (fits && view_below(2))
		to = tarn_tensor_ref(c->q);
	else if (view_below(2))
		to = view_random(c->dtype, c->stacks + 2, c->shape, VIEW_SKEW);
	out = to;
	good = tarn_attention(c->q, c->k, c->v, &c->options, &out) == 0;
	if (good) {
		difference = differs(out, wanted);
		good = difference <= error_of(c->dtype) && (!to || out == to) &&
		       tarn_tensor_layout(out)->dtype == c->dtype;
	}
	if (!good)
		say(c, difference);
	tarn_tensor_unref(out);
	free(wanted);
	return good;
}

static void test_random(uint64_t seed, unsigned n, bool large)
{
	unsigned wrong = 0;

	for (unsigned i = 0; i < n && wrong < 5; i++) {
		struct attention_case c;

		view_seed(seed + i);
		must(tarn_ops_set_threads(1 + (int)(i % 3)));
		random_case(&c, large);
		if (!judge(&c)) {
			wrong++;
			diag("that was seed %llu",
				(unsigned long long)(seed + i));
		}
		drop(&c);
	}
	is_int(0, wrong, "%u random attentions%s are what the formula gives", n,
		large ? " of several blocks" : "");
}

/* ---- bits, zeros ------------------------------------------------------------------ */

static tarn_tensor *attended(const struct attention_case *c)
{
	tarn_tensor *out = NULL;

	must(tarn_attention(c->q, c->k, c->v, &c->options, &out));
	return out;
}

static void test_threads(void)
{
	const int64_t q[] = {2, 8, 300, 64}, k[] = {2, 2, 700, 64};
	struct attention_case c = {.options.flags = TARN_ATTENTION_CAUSAL |
						    TARN_ATTENTION_GROUPED};
	tarn_tensor *one, *more;

	view_seed(7);
	c.q = view_random(TARN_F32, 4, q, 0);
	c.k = view_random(TARN_F32, 4, k, 0);
	c.v = view_random(TARN_F32, 4, k, 0);
	must(tarn_ops_set_threads(1));
	one = attended(&c);
	for (int n = 2; n < 5; n++) {
		must(tarn_ops_set_threads(n));
		more = attended(&c);
		is_mem(tarn_tensor_data(one), tarn_tensor_data(more),
			sizeof(float) * 2 * 8 * 300 * 64,
			"attention on %d threads has the bits of one thread's",
			n);
		tarn_tensor_unref(more);
	}
	tarn_tensor_unref(one);
	drop(&c);
}

/* A query that sees nothing. */
static void test_zeros(void)
{
	const int64_t shape[] = {3, 4}, one[] = {3, 1};
	struct attention_case c = {0};
	tarn_tensor *out;

	must(tarn_tensor_ones(TARN_F32, 2, shape, &c.q));
	must(tarn_tensor_ones(TARN_F32, 2, shape, &c.k));
	must(tarn_tensor_ones(TARN_F32, 2, shape, &c.v));
	must(tarn_tensor_zeros(TARN_BOOL, 2, one, &c.mask));
	*(uint8_t *)tarn_tensor_data(c.mask) = 1;
	c.options.mask = c.mask;
	out = attended(&c);
	is_mem((float[12]) {1, 1, 1, 1}, tarn_tensor_data(out), 48,
		"queries that a mask hides all keys from give zeros");
	tarn_tensor_unref(out);
	tarn_tensor_unref(c.mask);
	must(tarn_tensor_full(TARN_F32, 2, one, -INFINITY, &c.mask));
	c.options.mask = c.mask;
	out = attended(&c);
	is_mem((float[12]) {0}, tarn_tensor_data(out), 48,
		"queries whose scores are all -inf give zeros");
	tarn_tensor_unref(out);
	drop(&c);
}

/* ---- what is refused ---------------------------------------------------------------- */

static tarn_tensor *parsed(const char *spec)
{
	struct tarn_layout l;
	tarn_tensor *t;

	must(tarn_layout_parse(spec, &l));
	must(tarn_tensor_zeros(l.dtype, l.ndim, l.shape, &t));
	return t;
}

static void refused(int wanted, const char *part, const char *q, const char *k,
	const char *v, const char *mask, struct tarn_attention_options options)
{
	struct attention_case c = {.q = parsed(q),
		.k = parsed(k),
		.v = parsed(v),
		.mask = mask ? parsed(mask) : NULL,
		.options = options};
	tarn_tensor *out = NULL;

	c.options.mask = c.mask;
	is_int(wanted, tarn_attention(c.q, c.k, c.v, &c.options, &out),
		"refused: %s", part);
	has_str(part, tarn_error_message(), "the sentence says: %s", part);
	drop(&c);
}

static void test_refused(void)
{
	struct tarn_attention_options none = {0};

	refused(-EINVAL,
		"queries of [2, 3], keys of [4, 5] and values of [4, 6]; they "
		"must be [..., l, e], [..., s, e] and [..., s, ev]",
		"F32[2,3]", "F32[4,5]", "F32[4,6]", NULL, none);
	refused(-EINVAL, "attention: of I32; cast it to F32", "I32[2,3]",
		"I32[4,3]", "I32[4,3]", NULL, none);
	refused(-EINVAL,
		"a mask of [5] does not broadcast to the scores, [2, 4]",
		"F32[2,3]", "F32[4,3]", "F32[4,3]", "F32[5]", none);
	refused(-EINVAL, "a mask of I8; it must be BOOL", "F32[2,3]",
		"F32[4,3]", "F32[4,3]", "I8[4]", none);
	refused(-EINVAL,
		"the heads (dimension -3) of the first must be a multiple",
		"F32[5,2,3]", "F32[2,4,3]", "F32[2,4,3]", NULL,
		(struct tarn_attention_options) {
			.flags = TARN_ATTENTION_GROUPED});
	refused(-EINVAL, "extents before the last two must be the same, or 1",
		"F32[4,2,3]", "F32[2,4,3]", "F32[2,4,3]", NULL, none);
	refused(-EINVAL, "there are no flags 0x8", "F32[2,3]", "F32[4,3]",
		"F32[4,3]", NULL, (struct tarn_attention_options) {.flags = 8});
	refused(-EINVAL, "reserved", "F32[2,3]", "F32[4,3]", "F32[4,3]", NULL,
		(struct tarn_attention_options) {.reserved = {1}});
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 30000;

	test_random(seed, test_cases(CASES), false);
	test_random(seed + 5000, test_cases(CASES / 40), true);
	test_threads();
	test_zeros();
	test_refused();
	return done(23);
}
