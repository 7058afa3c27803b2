// SPDX-License-Identifier: MIT
/*
 * Products of matrices, and of stacks of them. Stacks that are one matrix in
 * memory (rows of all of them beside one second factor) are computed as one. What
 * remains is cut into parts for the pool: a part is several small products, or a
 * piece of the result of a large one. A second factor of BF16 or F16, like the
 * weights of a model, is made F32 block by block, which stay in the cache; where
 * the other has few rows, BF16 is read as it lies.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <tarn/copy.h>

#include "base/checked.h"
#include "lib/move/move.h"
#include "ops/product.h"
#include "ops/threads.h"

#define PER_READ 6 /* multiplications in the time of reading an element */
#define SIDE 512   /* of a piece: smaller ones are packed too often */
#define SPARE 3    /* pieces for a thread, of that size: others run too */

/* Elements of a block of the second factor that is made F32, which fits in the
 * cache of second level; and how long its columns are at most. BLAS packs the first
 * factor for each block: it gets wide ones. Those for few rows lie beside each
 * other in memory. */
#define BLOCK 131072
#define BLOCK_ROWS 1024
#define BLOCK_ROWS_FEW 8192

struct product {
	enum tarn_dtype dtype, b_dtype;
	int64_t size, b_size; /* bytes of an element */
	bool few;             /* without BLAS */
	bool b_half;          /* and the second factor is BF16, as it lies */
	atomic_bool no_memory;
	struct matrix a, b, c;
	const char *bias; /* a row that is added to all; NULL: none */
	int n;            /* dimensions of the stacks */
	int64_t extent[TARN_NDIM_MAX];
	int64_t stride[3][TARN_NDIM_MAX]; /* of a, b, c; 0: repeated */
	int64_t stacked;                  /* products */
	int64_t a_part;                   /* products of a part; else 1, of */
	int64_t down, right;              /* so many pieces of each */
};

/* ---- stacks that are one matrix ---------------------------------------------- */

static void drop_dims(struct product *p)
{
	int n = 0;

	p->stacked = 1;
	for (int i = 0; i < p->n; i++) {
		p->stacked *= p->extent[i];
		if (p->extent[i] == 1)
			continue;
		p->extent[n] = p->extent[i];
		for (int j = 0; j < 3; j++)
			p->stride[j][n] = p->stride[j][i];
		n++;
	}
	p->n = n;
}

/* Rows of the next matrix follow those of the one before. */
static bool joins(struct matrix *m, int64_t n, int64_t stride)
{
	struct matrix all = *m;

	if (m->rows == 1)
		all.down = stride;
	else if (stride != m->rows * m->down)
		return false;
	all.rows = m->rows * n;
	if (!matrix_fits(&all))
		return false;
	*m = all;
	return true;
}

/* b is the same for the innermost dimension of the stacks, and a's and c's are
 * one matrix. */
static bool join(struct product *p)
{
	int last = p->n - 1;
	struct matrix a = p->a, c = p->c;

	if (p->n < 1 || p->stride[1][last] ||
		!joins(&a, p->extent[last], p->stride[0][last]) ||
		!joins(&c, p->extent[last], p->stride[2][last]))
		return false;
	p->a = a;
	p->c = c;
	p->stacked /= p->extent[last];
	p->n = last;
	return true;
}

/* The same product, as b's and a's columns. */
static void turn(struct product *p)
{
	struct matrix a = matrix_turned(&p->a);

	p->a = matrix_turned(&p->b);
	p->b = a;
	p->c = matrix_turned(&p->c);
	for (int i = 0; i < p->n; i++) {
		int64_t stride = p->stride[0][i];

		p->stride[0][i] = p->stride[1][i];
		p->stride[1][i] = stride;
	}
}

static void join_all(struct product *p)
{
	drop_dims(p);
	if (!p->stacked)
		return;
	while (join(p))
		;
	if (p->bias)
		return;
	turn(p);
	while (join(p))
		;
	turn(p);
}

/* ---- parts --------------------------------------------------------------------- */

/* The time of one product, in multiplications. */
static double cost(const struct product *p)
{
	double m = (double)p->c.rows, n = (double)p->c.cols;
	double k = (double)p->a.cols;

	return m * n * k + PER_READ * (m * k + k * n + m * n);
}

/* The longer side of a piece is halved until there are enough. */
static void cut(struct product *p)
{
	double one = cost(p);
	int threads;

	p->down = p->right = p->a_part = 1;
	if (one < PARTS_PAY) {
		p->a_part = (int64_t)(PARTS_PAY / MAX(one, 1.0)) + 1;
		return;
	}
	threads = threads_count();
	for (;;) {
		int64_t pieces = p->down * p->right;
		int64_t rows = p->c.rows / p->down, cols = p->c.cols / p->right;
		int64_t side = MAX(rows, cols);

		if (side <= MATRIX_MAX &&
			(side < 64 || one / (double)pieces < 2 * PARTS_PAY ||
				p->stacked * pieces >=
					threads *
						(side >= 2 * SIDE ? SPARE : 1)))
			return;
		if (threads == 1 && side <= MATRIX_MAX)
			return;
		*(rows >= cols ? &p->down : &p->right) += 1;
	}
}

static void multiply_piece(const struct product *p, const struct matrix *a,
	const struct matrix *b, bool add, const struct matrix *c)
{
	if (p->few)
		blas_few(a, b, p->b_half, add, c);
	else
		blas_product(p->dtype, 1, a, b, add, c);
}

/* A block of the second factor in the product's dtype, with adjacent elements
 * where it has them. */
static struct matrix convert_block(
	const struct product *p, const struct matrix *b, char *scratch)
{
	struct matrix ret = {scratch, b->rows, b->cols, b->cols, 1};
	struct tarn_layout there = {.dtype = (uint8_t)p->b_dtype,
		.ndim = 2,
		.shape = {b->rows, b->cols},
		.stride = {b->down, b->right}};
	struct tarn_layout here = there;
	struct move move;

	if (b->right != 1) {
		ret.down = 1;
		ret.right = b->rows;
	}
	here.dtype = (uint8_t)p->dtype;
	here.stride[0] = ret.down;
	here.stride[1] = ret.right;
	/* It fails for C64 alone, which has no arithmetic. */
	if (move_plan(&move, &here, &there, NULL) < 0)
		__builtin_unreachable();
	move_run(&move, scratch, b->at);
	return ret;
}

static void multiply_blocks(const struct product *p, const struct matrix *a,
	const struct matrix *b, bool add, const struct matrix *c, char *scratch)
{
	int64_t most =
		MIN(b->rows, (int64_t)(p->few ? BLOCK_ROWS_FEW : BLOCK_ROWS));
	int64_t wide = BLOCK / most;

	for (int64_t row = 0; row < b->rows; row += most, add = true)
		for (int64_t col = 0; col < b->cols; col += wide) {
			int64_t rows = MIN(b->rows - row, most);
			int64_t cols = MIN(b->cols - col, wide);
			struct matrix x =
				matrix_part(a, p->size, 0, a->rows, row, rows);
			struct matrix y =
				matrix_part(b, p->b_size, row, rows, col, cols);
			struct matrix z =
				matrix_part(c, p->size, 0, c->rows, col, cols);

			y = convert_block(p, &y, scratch);
			multiply_piece(p, &x, &y, add, &z);
		}
}

/* One piece of the product at a place in the stacks. scratch: where the second
 * factor is converted; or NULL. */
static void run_piece(
	const struct product *p, int64_t at, int64_t piece, char *scratch)
{
	int64_t down = piece / p->right, right = piece % p->right;
	int64_t row = p->c.rows * down / p->down;
	int64_t rows = p->c.rows * (down + 1) / p->down - row;
	int64_t col = p->c.cols * right / p->right;
	int64_t cols = p->c.cols * (right + 1) / p->right - col;
	int64_t apart[3] = {0};
	struct matrix a, b, c;

	for (int i = p->n - 1; i >= 0; i--) {
		for (int j = 0; j < 3; j++)
			apart[j] += at % p->extent[i] * p->stride[j][i];
		at /= p->extent[i];
	}
	a = matrix_part(&p->a, p->size, row, rows, 0, p->a.cols);
	b = matrix_part(&p->b, p->b_size, 0, p->b.rows, col, cols);
	c = matrix_part(&p->c, p->size, row, rows, col, cols);
	a.at += apart[0] * p->size;
	b.at += apart[1] * p->b_size;
	c.at += apart[2] * p->size;
	if (p->bias)
		matrix_fill(&c, p->size, p->bias + col * p->size, 0, 1);
	if (scratch && b.rows)
		multiply_blocks(p, &a, &b, p->bias, &c, scratch);
	else
		multiply_piece(p, &a, &b, p->bias, &c);
}

static void run_part(void *arg, size_t number)
{
	struct product *p = arg;
	_cleanup_free_ char *scratch = NULL;
	int64_t pieces = p->down * p->right;
	int64_t first = (int64_t)number / pieces * p->a_part;
	int64_t end = MIN(first + p->a_part, p->stacked);

	if (p->b_dtype != p->dtype && !p->b_half) {
		scratch = malloc(sizeof(float) * BLOCK);
		if (!scratch) {
			/* Relaxed: the end of the job orders it. */
			atomic_store_explicit(
				&p->no_memory, true, memory_order_relaxed);
			return;
		}
	}
	for (; first < end; first++)
		run_piece(p, first, (int64_t)number % pieces, scratch);
}

/* Does BLAS keep to the calling thread by itself? OpenBLAS's limits. */
static bool is_small(const struct product *p)
{
	if (p->c.rows == 1 || p->c.cols == 1)
		return cost(p) < 9216;
	return (double)p->c.rows * (double)p->c.cols * (double)p->a.cols <=
	       262144;
}

static int product_run(struct product *p)
{
	join_all(p);
	if (!p->stacked || !p->c.rows || !p->c.cols)
		return 0;
	cut(p);
	p->few = p->dtype == TARN_F32 && blas_is_few(&p->a, &p->b, &p->c);
	p->b_half = p->few && p->b_dtype == TARN_BF16 && p->c.rows <= p->c.cols;
	if (p->a_part >= p->stacked && is_small(p)) {
		run_part(p, 0);
	} else {
		blas_enter();
		threads_run((size_t)((p->stacked + p->a_part - 1) / p->a_part *
				     p->down * p->right),
			run_part, p);
		blas_leave();
	}
	return p->no_memory ? tarn_error_set(ENOMEM,
				      "matmul: no memory to convert a factor")
			    : 0;
}

/* The layouts have the same stacks. */
static void product_init(struct product *p, enum tarn_dtype dtype,
	const struct tarn_layout layouts[3], char *const at[3])
{
	/* Field by field: clearing the rest is a part of the time of small ones. */
	p->dtype = dtype;
	p->b_dtype = layouts[1].dtype;
	p->size = tarn_dtype_bits(dtype) / 8;
	p->b_size = tarn_dtype_bits(p->b_dtype) / 8;
	atomic_init(&p->no_memory, false);
	p->a = stack_matrix(&layouts[0], at[0]);
	p->b = stack_matrix(&layouts[1], at[1]);
	p->c = stack_matrix(&layouts[2], at[2]);
	p->bias = NULL;
	p->n = layouts[0].ndim - 2;
	for (int i = 0; i < p->n; i++) {
		p->extent[i] = layouts[2].shape[i];
		for (int j = 0; j < 3; j++)
			p->stride[j][i] = layouts[j].stride[i];
	}
}

/* ---- matmul --------------------------------------------------------------------- */

/* A vector as a matrix: the first factor's is a row, the second's a column. */
static void as_matrix(struct tarn_layout *l, bool column)
{
	if (l->ndim > 1)
		return;
	l->ndim = 2;
	l->shape[1] = column ? 1 : l->shape[0];
	l->stride[1] = column ? 0 : l->stride[0];
	if (!column) {
		l->shape[0] = 1;
		l->stride[0] = 0;
	}
}

static int refuse_shapes(const char *op, const struct tarn_layout *a,
	const struct tarn_layout *b)
{
	if (!a->ndim || !b->ndim)
		return tarn_error_set(EINVAL,
			"%s: of %s and %s one has no dimensions; multiply with "
			"mul",
			op, shape_words(a->ndim, a->shape).text,
			shape_words(b->ndim, b->shape).text);
	return tarn_error_set(EINVAL,
		"%s: the shapes %s and %s do not fit: the last extent of the "
		"first, %lld, must be %s of the second, %lld",
		op, shape_words(a->ndim, a->shape).text,
		shape_words(b->ndim, b->shape).text,
		(long long)a->shape[a->ndim - 1],
		b->ndim > 1 ? "the last but one" : "that",
		(long long)b->shape[MAX(b->ndim - 2, 0)]);
}

static int choose_dtype(const char *op, const tarn_tensor *const *operands,
	size_t n, enum tarn_dtype *ret)
{
	int r = dtypes_meet(op, operands, n, ret);

	if (r >= 0 && *ret == TARN_BOOL)
		r = tarn_error_set(EINVAL,
			"%s: it is not for BOOL; cast one side to I64 or F32",
			op);
	return r;
}

/* Drops the dimensions that vectors got. */
static void result_shape(const struct tarn_layout *a,
	const struct tarn_layout *b, bool a_vector, bool b_vector,
	struct tarn_layout *ret)
{
	ret->ndim = 0;
	for (int i = 0; i < a->ndim - 2; i++)
		ret->shape[ret->ndim++] = a->shape[i];
	if (!a_vector)
		ret->shape[ret->ndim++] = a->shape[a->ndim - 2];
	if (!b_vector)
		ret->shape[ret->ndim++] = b->shape[b->ndim - 1];
}

static void add_vectors(struct tarn_layout *l, bool a_vector, bool b_vector)
{
	if (a_vector && b_vector) {
		l->ndim = 2;
		l->shape[0] = l->shape[1] = 1;
	} else if (b_vector) {
		l->shape[l->ndim++] = 1;
	} else if (a_vector) {
		l->shape[l->ndim] = l->shape[l->ndim - 1];
		l->stride[l->ndim] = l->stride[l->ndim - 1];
		l->shape[l->ndim++ - 1] = 1;
	}
}

/* The result's dtype is dtype; it is computed in that of the stacks. */
struct call {
	const char *op;
	enum tarn_dtype dtype;
	struct stack a, b, bias; /* bias: of at NULL, none */
	bool a_vector, b_vector;
};

static int multiply(struct call *c, tarn_tensor **out)
{
	const struct stack *operands[3] = {&c->a, &c->b, &c->bias};
	enum tarn_dtype computed = dtype_computed(c->dtype);
	struct tarn_layout l[3], shape;
	_cleanup_tensor_ tarn_tensor *wide = NULL;
	struct result result;
	struct product p;
	tarn_tensor *to;
	int r;

	l[0] = c->a.layout;
	l[1] = c->b.layout;
	as_matrix(&l[0], false);
	as_matrix(&l[1], true);
	r = stacks_broadcast(c->op, l, 2);
	if (r >= 0 && dtype_kind(computed) == KIND_FLOAT)
		r = blas_ready(c->op);
	if (r < 0)
		return r;
	result_shape(&l[0], &l[1], c->a_vector, c->b_vector, &shape);
	if (computed == c->dtype)
		r = result_begin_stack(c->op, computed, shape.ndim, shape.shape,
			false, operands, c->bias.at ? 3 : 2, out, &result);
	else
		r = result_begin(
			c->op, c->dtype, shape.ndim, shape.shape, out, &result);
	if (r >= 0 && computed != c->dtype)
		r = result_new(c->op, computed, shape.ndim, shape.shape, &wide);
	if (r < 0)
		return result_end(&result, r);
	to = wide ?: result.work;
	l[2] = *tarn_tensor_layout(to);
	add_vectors(&l[2], c->a_vector, c->b_vector);
	product_init(&p, computed, l,
		(char *[]) {c->a.at, c->b.at, tarn_tensor_data(to)});
	p.bias = c->bias.at;
	r = product_run(&p);
	if (r >= 0 && wide)
		r = tarn_copy(result.work, wide, NULL, NULL);
	return result_end(&result, r);
}

static void call_open(
	struct call *c, const char *op, bool a_vector, bool b_vector)
{
	c->op = op;
	c->a.source = c->b.source = c->bias.source = (struct source) {0};
	c->bias.at = NULL;
	c->a_vector = a_vector;
	c->b_vector = b_vector;
}

/* The second factor: half as wide floats are left to the product. */
static int open_second(struct call *c, const tarn_tensor *t)
{
	enum tarn_dtype dtype = tarn_tensor_layout(t)->dtype;
	enum tarn_dtype computed = dtype_computed(c->dtype);

	if (computed != TARN_F32 || (dtype != TARN_BF16 && dtype != TARN_F16))
		dtype = computed;
	return stack_open(c->op, t, dtype, &c->b);
}

static void call_close(struct call *c)
{
	stack_close(&c->a);
	stack_close(&c->b);
	stack_close(&c->bias);
}

int tarn_matmul(const tarn_tensor *a, const tarn_tensor *b, tarn_tensor **out)
{
	const struct tarn_layout *x = tarn_tensor_layout(a),
				 *y = tarn_tensor_layout(b);
	__attribute__((cleanup(call_close))) struct call c;
	enum tarn_dtype computed;
	int r;

	call_open(&c, "matmul", x->ndim == 1, y->ndim == 1);
	if (!x->ndim || !y->ndim ||
		x->shape[x->ndim - 1] != y->shape[MAX(y->ndim - 2, 0)])
		return refuse_shapes(c.op, x, y);
	r = choose_dtype(c.op, (const tarn_tensor *[]) {a, b}, 2, &c.dtype);
	if (r < 0)
		return r;
	computed = dtype_computed(c.dtype);
	r = stack_open(c.op, a, computed, &c.a);
	if (r >= 0)
		r = open_second(&c, b);
	return r < 0 ? r : multiply(&c, out);
}

/* ---- linear ---------------------------------------------------------------------- */

static int check_linear(const struct tarn_layout *x,
	const struct tarn_layout *w, const struct tarn_layout *bias)
{
	if (!x->ndim || w->ndim != 2 || x->shape[x->ndim - 1] != w->shape[1])
		return tarn_error_set(EINVAL,
			"linear: %s by a weight of %s; the weight must be "
			"[outputs, inputs], and the last extent of the other the "
			"inputs",
			shape_words(x->ndim, x->shape).text,
			shape_words(w->ndim, w->shape).text);
	if (bias && (bias->ndim != 1 || bias->shape[0] != w->shape[0]))
		return tarn_error_set(EINVAL,
			"linear: a bias of %s to a weight of %s; it must be "
			"[%lld]",
			shape_words(bias->ndim, bias->shape).text,
			shape_words(w->ndim, w->shape).text,
			(long long)w->shape[0]);
	return 0;
}

int tarn_linear(const tarn_tensor *x, const tarn_tensor *weight,
	const tarn_tensor *bias, tarn_tensor **out)
{
	const struct tarn_layout *l = tarn_tensor_layout(x);
	__attribute__((cleanup(call_close))) struct call c;
	enum tarn_dtype computed;
	int r;

	call_open(&c, "linear", l->ndim == 1, false);
	r = check_linear(l, tarn_tensor_layout(weight),
		bias ? tarn_tensor_layout(bias) : NULL);
	if (r >= 0)
		r = choose_dtype(c.op,
			(const tarn_tensor *[]) {x, weight, bias}, bias ? 3 : 2,
			&c.dtype);
	if (r < 0)
		return r;
	computed = dtype_computed(c.dtype);
	r = stack_open(c.op, x, computed, &c.a);
	if (r >= 0)
		r = open_second(&c, weight);
	if (r >= 0)
		r = tarn_layout_transpose(&c.b.layout, 0, 1, &c.b.layout);
	if (r >= 0 && bias)
		r = source_open_plain(c.op, bias, computed, &c.bias.source);
	if (r < 0)
		return r;
	c.bias.at = bias ? tarn_tensor_data(c.bias.source.tensor) : NULL;
	return multiply(&c, out);
}
