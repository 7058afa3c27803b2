// SPDX-License-Identifier: MIT
/*
 * Scaled dot-product attention. A block of queries meets one block of keys after
 * the other: the products of both are a small matrix, of which the exponentials
 * are taken less the largest so far of each row; what was summed before is scaled
 * to that. So no more than such a matrix is in memory for each part of the work.
 *
 * Blocks depend on the shapes alone, and BLAS works in one thread: the bits are
 * the same for any number of threads.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include <tarn/copy.h>

#include "base/checked.h"
#include "lib/move/move.h"
#include "ops/kernels.h"
#include "ops/product.h"

#define OP "attention"
#define QUERIES 128 /* of a block, with KEYS keys: the scores are in L2 */
#define KEYS 512
#define TURNED 64    /* elements of a key that is turned */
#define PER_SCORE 24 /* multiplications in the time of an exponential */

enum { Q, K, V, MASK, OUT, OPERANDS };

struct attention {
	enum tarn_dtype dtype; /* F32 or F64 */
	int64_t size;
	double scale;
	bool causal;
	struct matrix q, k, v, out, mask; /* mask.at NULL: there is none */
	enum tarn_dtype mask_dtype;
	int n; /* dimensions of the stacks */
	int64_t extent[TARN_NDIM_MAX];
	int64_t stride[OPERANDS][TARN_NDIM_MAX]; /* in bytes */
	int64_t stacked, blocks;
};

/* A block's scores, and of each of its rows the largest and the sum. */
struct block {
	struct matrix q, out, scores;
	char *mask, *keys;
	double *largest, *sum;
};

/* ---- masks ---------------------------------------------------------------------- */

/* The mask of the scores, packed: BOOL as it is, else in their dtype. */
static void lift_mask(const struct attention *a, const char *from,
	const struct block *b, enum tarn_dtype dtype)
{
	struct tarn_layout there = {.dtype = (uint8_t)a->mask_dtype,
		.ndim = 2,
		.shape = {b->scores.rows, b->scores.cols},
		.stride = {a->mask.down, a->mask.right}};
	struct tarn_layout packed = there;
	struct move move;

	packed.dtype = (uint8_t)dtype;
	packed.stride[0] = b->scores.cols;
	packed.stride[1] = 1;
	/* It fails for C64 alone, which no mask is. */
	if (move_plan(&move, &packed, &there, NULL) < 0)
		__builtin_unreachable();
	move_run(&move, b->mask, from);
}

static void apply_mask(
	const struct attention *a, const char *from, const struct block *b)
{
	static const double low = -INFINITY;
	static const float low_float = -INFINITY;
	const void *src[3] = {b->mask, b->scores.at,
		a->size == 4 ? (const void *)&low_float : &low};
	size_t n = (size_t)(b->scores.rows * b->scores.cols);

	if (a->mask_dtype == TARN_BOOL) {
		lift_mask(a, from, b, TARN_BOOL);
		/* Most blocks have no padding. */
		if (!memchr(b->mask, 0, n))
			return;
		kernels()->where[a->size == 4 ? 2 : 3](n, b->scores.at, src, 4);
		return;
	}
	lift_mask(a, from, b, a->dtype);
	kernels()->binary[kernels_type(a->dtype)][TARN_ADD](
		n, b->scores.at, src, 0);
}

/* ---- rows of scores -------------------------------------------------------------- */

static double row_max(const struct attention *a, const char *x, int64_t n)
{
	fold_fn *fn = kernels()->fold[kernels_type(a->dtype)][FOLD_MAX];
	double ret;
	float single;

	if (a->size == 8) {
		fn((size_t)n, &ret, x);
		return ret;
	}
	fn((size_t)n, &single, x);
	return single;
}

static void scale_row(
	const struct attention *a, char *x, int64_t n, double factor)
{
	float single = (float)factor;
	const void *src[3] = {
		x, a->size == 4 ? (const void *)&single : &factor, NULL};

	kernels()->binary[kernels_type(a->dtype)][TARN_MUL](
		(size_t)n, x, src, 2);
}

/* Scores become their exponentials, less the largest of their row. What the
 * result has of earlier keys is scaled to that. */
static void soften(const struct attention *a, const struct block *b, bool first)
{
	const struct matrix *s = &b->scores;
	exp_fn *exponentials = kernels()->exp_less[a->size == 8];

	for (int64_t i = 0; i < s->rows; i++) {
		char *row = s->at + i * s->cols * a->size;
		double largest = row_max(a, row, s->cols), factor;
		double before = b->largest[i];

		if (before > largest || before != before)
			largest = before;
		b->largest[i] = largest;
		/* Where all is left out, exp(-inf) is 0 of any number. */
		if (largest == -INFINITY)
			largest = 0;
		factor = first ? 0 : exp(before - largest);
		b->sum[i] = b->sum[i] * factor +
			    exponentials((size_t)s->cols, row, largest);
		if (!first && factor != 1 && b->out.cols)
			scale_row(a, b->out.at + i * b->out.down * a->size,
				b->out.cols, factor);
	}
}

/* ---- blocks ----------------------------------------------------------------------- */

/* Query i sees the keys up to i. */
static void leave_out_later(const struct attention *a, const struct matrix *s,
	int64_t query, int64_t key)
{
	for (int64_t i = 0; i < s->rows; i++)
		for (int64_t j = MAX(query + i + 1 - key, (int64_t)0);
			j < s->cols; j++) {
			char *to = s->at + (i * s->cols + j) * a->size;

			if (a->size == 4)
				*(float *)to = -INFINITY;
			else
				*(double *)to = -INFINITY;
		}
}

static void finish(const struct attention *a, const struct block *b)
{
	for (int64_t i = 0; i < b->out.rows && b->out.cols; i++) {
		char *row = b->out.at + i * b->out.down * a->size;

		if (b->sum[i] == 0)
			memset(row, 0, (size_t)(b->out.cols * a->size));
		else
			scale_row(a, row, b->out.cols, 1 / b->sum[i]);
	}
}

/* Keys as columns. BLAS computes a small product without packing if no factor is
 * turned. */
static struct matrix turn_keys(const struct attention *a,
	const struct matrix *k, const struct block *b)
{
	struct matrix ret = matrix_turned(k);
	struct tarn_layout there = {.dtype = (uint8_t)a->dtype,
		.ndim = 2,
		.shape = {ret.rows, ret.cols},
		.stride = {ret.down, ret.right}};
	struct tarn_layout here = there;
	struct move move;

	if (ret.rows > TURNED)
		return ret;
	here.stride[0] = ret.cols;
	here.stride[1] = 1;
	/* It fails for C64 alone. */
	if (move_plan(&move, &here, &there, NULL) < 0)
		__builtin_unreachable();
	move_run(&move, b->keys, ret.at);
	return (struct matrix) {b->keys, ret.rows, ret.cols, ret.cols, 1};
}

/* at: where the stacks' operands are. */
static void run_keys(const struct attention *a, struct block *b,
	char *const at[OPERANDS], int64_t query)
{
	int64_t rows = b->q.rows, n = a->k.rows;

	if (a->causal)
		n = MIN(n, query + rows);
	for (int64_t i = 0; i < rows; i++) {
		b->largest[i] = -INFINITY;
		b->sum[i] = 0;
	}
	for (int64_t key = 0; key < n; key += KEYS) {
		int64_t cols = MIN(n - key, (int64_t)KEYS);
		struct matrix k =
			matrix_part(&a->k, a->size, key, cols, 0, a->k.cols);
		struct matrix v =
			matrix_part(&a->v, a->size, key, cols, 0, a->v.cols);

		k.at += at[K] - a->k.at;
		v.at += at[V] - a->v.at;
		k = turn_keys(a, &k, b);
		b->scores.cols = b->scores.down = cols;
		blas_product(a->dtype, a->scale, &b->q, &k, false, &b->scores);
		if (a->mask.at)
			apply_mask(a,
				at[MASK] +
					(query * a->mask.down +
						key * a->mask.right) *
						tarn_dtype_bits(a->mask_dtype) /
						8,
				b);
		if (a->causal && key + cols > query + 1)
			leave_out_later(a, &b->scores, query, key);
		soften(a, b, key == 0);
		blas_product(a->dtype, 1, &b->scores, &v, key > 0, &b->out);
	}
	finish(a, b);
}

static void run_block(const void *arg, int64_t number, char *scratch)
{
	const struct attention *a = arg;
	int64_t query = number % a->blocks * QUERIES,
		place = number / a->blocks;
	int64_t rows = MIN(a->q.rows - query, (int64_t)QUERIES);
	int64_t scores = MIN(a->q.rows, (int64_t)QUERIES) *
			 MIN(a->k.rows, (int64_t)KEYS) * a->size;
	char *at[OPERANDS] = {a->q.at, a->k.at, a->v.at, a->mask.at, a->out.at};
	struct block b = {
		.q = matrix_part(&a->q, a->size, query, rows, 0, a->q.cols),
		.out = matrix_part(
			&a->out, a->size, query, rows, 0, a->out.cols),
		.scores = {scratch + 2 * QUERIES * 8, rows, 0, 0, 1},
		.mask = scratch + 2 * QUERIES * 8 + scores,
		.keys = scratch + 2 * QUERIES * 8 +
			(a->mask.at ? 2 : 1) * scores,
		.largest = (double *)scratch,
		.sum = (double *)scratch + QUERIES};

	for (int i = a->n - 1; i >= 0; i--) {
		for (int j = 0; j < OPERANDS; j++)
			at[j] += place % a->extent[i] * a->stride[j][i];
		place /= a->extent[i];
	}
	b.q.at += at[Q] - a->q.at;
	b.out.at += at[OUT] - a->out.at;
	run_keys(a, &b, at, query);
}

static int run(struct attention *a)
{
	int64_t rows = MIN(a->q.rows, (int64_t)QUERIES);
	int64_t keys = MIN(a->k.rows, (int64_t)KEYS);
	int64_t scores = (a->mask.at ? 2 : 1) * rows * keys;
	int64_t turned = a->q.cols > TURNED ? 0 : keys * a->q.cols;
	struct parts parts = {.op = OP,
		.items = a->stacked * a->blocks,
		.cost = (double)rows * (double)a->k.rows *
			(double)(a->q.cols + a->v.cols + PER_SCORE),
		.scratch = 2 * QUERIES * 8 + (scores + turned) * a->size,
		.fn = run_block,
		.arg = a};

	return parts_run(&parts);
}

/* ---- shapes ------------------------------------------------------------------------ */

struct call {
	struct stack stack[MASK + 1];
	struct tarn_layout layout[OPERANDS]; /* with the same stacks in all */
	struct tarn_layout shape;            /* of the result */
	int64_t heads; /* of keys; 0: as many as queries */
	enum tarn_dtype dtype;
};

static void call_close(struct call *c)
{
	for (int i = 0; i <= MASK; i++)
		stack_close(&c->stack[i]);
}

static int check_shapes(const struct tarn_layout *q,
	const struct tarn_layout *k, const struct tarn_layout *v)
{
	bool fit = q->ndim > 1 && k->ndim > 1 && v->ndim > 1;

	fit = fit && q->shape[q->ndim - 1] == k->shape[k->ndim - 1] &&
	      k->shape[k->ndim - 2] == v->shape[v->ndim - 2];
	if (fit)
		return 0;
	return tarn_error_set(EINVAL,
		OP ": queries of %s, keys of %s and values of %s; they must be "
		   "[..., l, e], [..., s, e] and [..., s, ev]",
		shape_words(q->ndim, q->shape).text,
		shape_words(k->ndim, k->shape).text,
		shape_words(v->ndim, v->shape).text);
}

/* A dimension for the heads of a group is put behind that of the groups. */
static int split_heads(struct tarn_layout *l, int64_t heads)
{
	return tarn_layout_split(l, l->ndim - 3, 2,
		(int64_t[]) {heads, l->shape[l->ndim - 3] / heads}, l);
}

static int group_heads(struct call *c)
{
	struct tarn_layout *q = &c->layout[Q], *k = &c->layout[K],
			   *v = &c->layout[V];
	int ndim = MIN(MIN(q->ndim, k->ndim), v->ndim);
	int64_t n = ndim > 2 ? q->shape[q->ndim - 3] : 0, heads;
	int r;

	heads = ndim > 2 ? k->shape[k->ndim - 3] : 0;
	if (!heads || n % heads || v->shape[v->ndim - 3] != heads ||
		MAX(MAX(q->ndim, k->ndim), v->ndim) == TARN_NDIM_MAX)
		return tarn_error_set(EINVAL,
			OP ": queries of %s, keys of %s and values of %s; the "
			   "heads (dimension -3) of the first must be a "
			   "multiple of those of the others",
			shape_words(q->ndim, q->shape).text,
			shape_words(k->ndim, k->shape).text,
			shape_words(v->ndim, v->shape).text);
	c->heads = heads;
	r = split_heads(q, heads);
	if (r >= 0)
		r = tarn_layout_unsqueeze(k, -3, k);
	if (r >= 0)
		r = tarn_layout_unsqueeze(v, -3, v);
	return r;
}

static void result_shape(struct call *c)
{
	const struct tarn_layout *q = &c->layout[Q];
	struct tarn_layout *s = &c->shape;
	int stacks = q->ndim - 2;

	memcpy(s->shape, q->shape, sizeof(s->shape));
	if (c->heads) {
		s->shape[stacks - 2] *= s->shape[stacks - 1];
		stacks--;
	}
	s->shape[stacks] = q->shape[q->ndim - 2];
	s->shape[stacks + 1] = c->layout[V].shape[c->layout[V].ndim - 1];
	s->ndim = (uint8_t)(stacks + 2);
}

static int open_mask(struct call *c, const tarn_tensor *mask)
{
	struct tarn_layout *l = &c->layout[MASK];
	int64_t shape[TARN_NDIM_MAX];
	int r = source_open(OP, mask, &c->stack[MASK].source);

	if (r < 0)
		return r;
	*l = *tarn_tensor_layout(c->stack[MASK].source.tensor);
	if (dtype_kind(l->dtype) == KIND_INT)
		return tarn_error_set(EINVAL,
			OP ": a mask of %s; it must be BOOL, or floats that "
			   "are added",
			tarn_dtype_name(l->dtype));
	memcpy(shape, c->shape.shape, sizeof(shape));
	shape[c->shape.ndim - 1] = c->layout[K].shape[c->layout[K].ndim - 2];
	r = tarn_layout_expand(l, c->shape.ndim, shape, l);
	if (r < 0)
		return tarn_error_set(EINVAL,
			OP ": a mask of %s does not broadcast to the scores, "
			   "%s",
			shape_words(l->ndim, l->shape).text,
			shape_words(c->shape.ndim, shape).text);
	c->stack[MASK].at = tarn_tensor_data(c->stack[MASK].source.tensor);
	return c->heads ? split_heads(l, c->heads) : 0;
}

static int open_all(struct call *c, const tarn_tensor *const operands[3],
	const struct tarn_attention_options *options)
{
	int r = check_shapes(tarn_tensor_layout(operands[Q]),
		tarn_tensor_layout(operands[K]),
		tarn_tensor_layout(operands[V]));

	if (r >= 0)
		r = floats_meet(OP, operands, 3, &c->dtype);
	for (int i = 0; i < 3 && r >= 0; i++) {
		r = stack_open(OP, operands[i], dtype_computed(c->dtype),
			&c->stack[i]);
		c->layout[i] = c->stack[i].layout;
	}
	if (r >= 0 && options->flags & TARN_ATTENTION_GROUPED)
		r = group_heads(c);
	if (r >= 0)
		r = stacks_broadcast(OP, c->layout, 3);
	if (r < 0)
		return r;
	result_shape(c);
	return options->mask ? open_mask(c, options->mask) : 0;
}

/* ---- the operation --------------------------------------------------------------------- */

static void prepare(struct attention *a, const struct call *c,
	const struct tarn_attention_options *options)
{
	int stacks = c->layout[Q].ndim - 2;

	*a = (struct attention) {.dtype = dtype_computed(c->dtype),
		.q = stack_matrix(&c->layout[Q], c->stack[Q].at),
		.k = stack_matrix(&c->layout[K], c->stack[K].at),
		.v = stack_matrix(&c->layout[V], c->stack[V].at),
		.mask_dtype = c->layout[MASK].dtype,
		.causal = options->flags & TARN_ATTENTION_CAUSAL,
		.n = stacks,
		.stacked = 1};
	a->size = tarn_dtype_bits(a->dtype) / 8;
	a->scale = options->scale != 0 || options->flags & TARN_ATTENTION_SCALED
			   ? options->scale
			   : 1 / sqrt((double)a->q.cols);
	a->blocks = (a->q.rows + QUERIES - 1) / QUERIES;
	if (options->mask)
		a->mask = stack_matrix(&c->layout[MASK], c->stack[MASK].at);
	for (int i = 0; i < stacks; i++) {
		a->extent[i] = c->layout[Q].shape[i];
		a->stacked *= a->extent[i];
		for (int j = 0; j < OPERANDS; j++)
			a->stride[j][i] =
				c->layout[j].stride[i] *
				(j == MASK ? tarn_dtype_bits(a->mask_dtype) / 8
					   : a->size);
	}
}

static int attend(struct call *c, const struct tarn_attention_options *options,
	tarn_tensor *to)
{
	struct attention a;
	int r = 0;

	if (!tarn_layout_numel(tarn_tensor_layout(to)))
		return 0;
	c->layout[OUT] = *tarn_tensor_layout(to);
	if (c->heads)
		r = split_heads(&c->layout[OUT], c->heads);
	if (r < 0)
		return r;
	prepare(&a, c, options);
	a.out = stack_matrix(&c->layout[OUT], tarn_tensor_data(to));
	return run(&a);
}

static int check_options(const struct tarn_attention_options *options)
{
	int r = OPTIONS_CHECK("tarn_attention_options", options);

	if (r >= 0 && options->flags & ~(uint64_t)(TARN_ATTENTION_CAUSAL |
						   TARN_ATTENTION_GROUPED |
						   TARN_ATTENTION_SCALED))
		r = tarn_error_set(EINVAL, OP ": there are no flags 0x%llx",
			(unsigned long long)options->flags);
	return r;
}

int tarn_attention(const tarn_tensor *q, const tarn_tensor *k,
	const tarn_tensor *v, const struct tarn_attention_options *options,
	tarn_tensor **out)
{
	static const struct tarn_attention_options none;
	const tarn_tensor *const operands[] = {q, k, v};
	__attribute__((cleanup(call_close))) struct call c = {0};
	const struct stack *stacks[] = {
		&c.stack[Q], &c.stack[K], &c.stack[V], &c.stack[MASK]};
	_cleanup_tensor_ tarn_tensor *wide = NULL;
	struct result result;
	enum tarn_dtype computed;
	int r;

	options = options ?: &none;
	r = check_options(options);
	if (r >= 0)
		r = open_all(&c, operands, options);
	if (r >= 0)
		r = blas_ready(OP);
	if (r < 0)
		return r;
	computed = dtype_computed(c.dtype);
	if (computed == c.dtype)
		r = result_begin_stack(OP, computed, c.shape.ndim,
			c.shape.shape, true, stacks, options->mask ? 4 : 3, out,
			&result);
	else
		r = result_begin(
			OP, c.dtype, c.shape.ndim, c.shape.shape, out, &result);
	if (r >= 0 && computed != c.dtype)
		r = result_new(
			OP, computed, c.shape.ndim, c.shape.shape, &wide);
	if (r >= 0)
		r = attend(&c, options, wide ?: result.work);
	if (r >= 0 && wide)
		r = tarn_copy(result.work, wide, NULL, NULL);
	return result_end(&result, r);
}
