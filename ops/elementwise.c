// SPDX-License-Identifier: MIT
/*
 * Operations from element to element. Each finds the dtype in which it is
 * computed and the shape of its result, opens the destination, and gives the
 * nest of loops to block.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <tarn/copy.h>

#include "base/checked.h"
#include "ops/block.h"
#include "ops/result.h"

#define SOURCES 3

/* One call: its operands, opened. */
struct call {
	const char *op;
	int n;
	struct source source[SOURCES];
	uint64_t value[SOURCES];  /* of numbers, in the dtype computed */
	struct tarn_layout shape; /* of the result */
	enum tarn_dtype computed[LOOPS_OPERANDS];
};

static void call_close(struct call *c)
{
	for (int i = 0; i < c->n; i++)
		source_close(&c->source[i]);
}

/* ---- shapes ---------------------------------------------------------------- */

static int refuse_shapes(const char *op, const struct tarn_layout *a,
	const struct tarn_layout *b)
{
	return tarn_error_set(EINVAL,
		"%s: the shapes %s and %s do not broadcast: extents must be "
		"the same, or 1",
		op, shape_words(a->ndim, a->shape).text,
		shape_words(b->ndim, b->shape).text);
}

static int broadcast(
	const char *op, struct tarn_layout *to, const struct tarn_layout *l)
{
	struct tarn_layout sum;

	if (l->ndim == to->ndim &&
		!memcmp(l->shape, to->shape, l->ndim * sizeof(l->shape[0])))
		return 0;
	sum = *to;
	if (l->ndim > to->ndim) {
		sum.ndim = l->ndim;
		for (int i = l->ndim - 1, j = to->ndim - 1; i >= 0; i--, j--)
			sum.shape[i] = j >= 0 ? to->shape[j] : 1;
	}
	for (int i = sum.ndim - 1, j = l->ndim - 1; j >= 0; i--, j--) {
		if (sum.shape[i] == 1)
			sum.shape[i] = l->shape[j];
		else if (l->shape[j] != 1 && l->shape[j] != sum.shape[i])
			return refuse_shapes(op, to, l);
	}
	*to = sum;
	return 0;
}

static int call_open(struct call *c, const char *op,
	const struct tarn_operand *operands, int n)
{
	int r = 0;

	*c = (struct call) {.op = op};
	for (int i = 0; i < n && r >= 0; i++, c->n++) {
		c->source[i] = (struct source) {0};
		if (!operands[i].tensor)
			continue;
		r = source_open(op, operands[i].tensor, &c->source[i]);
		if (r >= 0)
			r = broadcast(op, &c->shape,
				tarn_tensor_layout(operands[i].tensor));
	}
	if (r < 0)
		call_close(c);
	return r;
}

/* ---- running ---------------------------------------------------------------- */

/* An integer tensor without dimensions is a number beside others: it wraps around
 * in their dtype, as numbers do, where a copy of tensors would clamp. */
static void take_values(struct call *c, struct tarn_operand *operands)
{
	for (int i = 0; i < c->n; i++) {
		const tarn_tensor *t = c->source[i].tensor;
		const struct tarn_layout *l = t ? tarn_tensor_layout(t) : NULL;
		int64_t value = 0;

		if (!l || l->ndim || l->dtype == c->computed[i + 1] ||
			dtype_kind(l->dtype) != KIND_INT ||
			dtype_kind(c->computed[i + 1]) != KIND_INT)
			continue;
		if (l->dtype == TARN_U64)
			memcpy(&value, tarn_tensor_data(t), sizeof(value));
		else if (tarn_tensor_get_i64(t, NULL, &value) < 0)
			continue;
		source_close(&c->source[i]);
		c->source[i].tensor = NULL;
		operands[i] = tarn_int(value);
	}
}

/* computed: of the destination, then of the sources. */
static int call_run(struct call *c, const struct tarn_operand *operands,
	run_fn *kernel, enum tarn_dtype dtype, unsigned cost, tarn_tensor **out)
{
	struct result result;
	struct loops loops;
	int r = result_begin(
		c->op, dtype, c->shape.ndim, c->shape.shape, out, &result);

	for (int i = 0; i < c->n && r >= 0 && !result.made; i++)
		r = source_part(&c->source[i], result.work);
	if (r < 0)
		return result_end(&result, r);
	loops_begin(&loops, c->shape.ndim, c->shape.shape);
	loops_add(&loops, result.work);
	for (int i = 0; i < c->n; i++) {
		if (c->source[i].tensor) {
			loops_add(&loops, c->source[i].tensor);
			continue;
		}
		dtype_put(c->computed[i + 1], &operands[i], &c->value[i]);
		loops_add_value(&loops, c->computed[i + 1], &c->value[i]);
	}
	loops_tidy(&loops);
	block_run(&loops, kernel, c->computed, cost);
	return result_end(&result, 0);
}

static int refuse_dtype(const char *op, enum tarn_dtype dtype)
{
	return tarn_error_set(EINVAL, "%s: it is not for %s%s", op,
		tarn_dtype_name(dtype),
		dtype == TARN_BOOL ? "; use a logical operation, or cast" : "");
}

/* ---- one operand ------------------------------------------------------------ */

static const char *const unary_names[TARN_UNARY_OPS] = {[TARN_NEG] = "neg",
	[TARN_ABS] = "abs",
	[TARN_SIGN] = "sign",
	[TARN_SQUARE] = "square",
	[TARN_RELU] = "relu",
	[TARN_FLOOR] = "floor",
	[TARN_CEIL] = "ceil",
	[TARN_TRUNC] = "trunc",
	[TARN_ROUND] = "round",
	[TARN_SQRT] = "sqrt",
	[TARN_RSQRT] = "rsqrt",
	[TARN_RECIPROCAL] = "reciprocal",
	[TARN_EXP] = "exp",
	[TARN_EXP2] = "exp2",
	[TARN_EXPM1] = "expm1",
	[TARN_LOG] = "log",
	[TARN_LOG2] = "log2",
	[TARN_LOG10] = "log10",
	[TARN_LOG1P] = "log1p",
	[TARN_SIN] = "sin",
	[TARN_COS] = "cos",
	[TARN_TAN] = "tan",
	[TARN_ASIN] = "asin",
	[TARN_ACOS] = "acos",
	[TARN_ATAN] = "atan",
	[TARN_SINH] = "sinh",
	[TARN_COSH] = "cosh",
	[TARN_TANH] = "tanh",
	[TARN_ASINH] = "asinh",
	[TARN_ACOSH] = "acosh",
	[TARN_ATANH] = "atanh",
	[TARN_ERF] = "erf",
	[TARN_SIGMOID] = "sigmoid",
	[TARN_GELU] = "gelu",
	[TARN_GELU_TANH] = "gelu_tanh",
	[TARN_SILU] = "silu",
	[TARN_BIT_NOT] = "bit_not",
	[TARN_NOT] = "not",
	[TARN_IS_NAN] = "is_nan",
	[TARN_IS_INF] = "is_inf",
	[TARN_IS_FINITE] = "is_finite",
	[TARN_SIGN_BIT] = "sign_bit"};

static bool unary_is_float(enum tarn_unary_op op)
{
	return op >= TARN_SQRT && op <= TARN_SILU;
}

int tarn_unary(enum tarn_unary_op op, const tarn_tensor *x, tarn_tensor **out)
{
	struct tarn_operand operand = tarn_of(x);
	enum tarn_dtype dtype, computed;
	run_fn *kernel;
	struct call c;
	int r;

	if ((unsigned)op >= TARN_UNARY_OPS)
		return tarn_error_set(
			EINVAL, "there is no unary operation %d", (int)op);
	r = call_open(&c, unary_names[op], &operand, 1);
	if (r < 0)
		return r;
	dtype = tarn_tensor_layout(x)->dtype;
	if (unary_is_float(op))
		dtype = dtype_floating(dtype);
	computed = dtype_computed(dtype);
	kernel = kernels()->unary[kernels_type(computed)][op];
	c.computed[0] = op >= TARN_NOT ? TARN_BOOL : computed;
	c.computed[1] = computed;
	if (op >= TARN_NOT)
		dtype = TARN_BOOL;
	r = kernel ? call_run(&c, &operand, kernel, dtype,
			     unary_is_float(op) ? 8 : 1, out)
		   : refuse_dtype(c.op, dtype);
	call_close(&c);
	return r;
}

/* ---- two operands ------------------------------------------------------------ */

static const char *const binary_names[TARN_BINARY_OPS] = {[TARN_ADD] = "add",
	[TARN_SUB] = "sub",
	[TARN_MUL] = "mul",
	[TARN_MIN] = "min",
	[TARN_MAX] = "max",
	[TARN_FLOOR_DIV] = "floor_div",
	[TARN_REMAINDER] = "remainder",
	[TARN_FMOD] = "fmod",
	[TARN_POW] = "pow",
	[TARN_DIV] = "div",
	[TARN_ATAN2] = "atan2",
	[TARN_HYPOT] = "hypot",
	[TARN_COPY_SIGN] = "copy_sign",
	[TARN_NEXT_AFTER] = "next_after",
	[TARN_LOG_ADD_EXP] = "log_add_exp",
	[TARN_BIT_AND] = "bit_and",
	[TARN_BIT_OR] = "bit_or",
	[TARN_BIT_XOR] = "bit_xor",
	[TARN_SHIFT_LEFT] = "shift_left",
	[TARN_SHIFT_RIGHT] = "shift_right",
	[TARN_EQ] = "eq",
	[TARN_NE] = "ne",
	[TARN_LT] = "lt",
	[TARN_LE] = "le",
	[TARN_GT] = "gt",
	[TARN_GE] = "ge",
	[TARN_AND] = "and",
	[TARN_OR] = "or",
	[TARN_XOR] = "xor"};

static int has_zero(const tarn_tensor *t)
{
	tarn_tensor *zero = NULL, *any = NULL;
	uint8_t found = 0;
	int r = tarn_unary(TARN_NOT, t, &zero);

	if (r >= 0)
		r = tarn_reduce(TARN_ANY, zero, 0, NULL, 0, &any);
	if (r >= 0)
		found = *(const uint8_t *)tarn_tensor_data(any);
	tarn_tensor_unref(zero);
	tarn_tensor_unref(any);
	return r < 0 ? r : found;
}

/* Integers have no infinity: it is found out before anything is written. */
static int check_divisor(enum tarn_binary_op op, const struct call *c,
	const struct tarn_operand *b)
{
	int r;

	if (op < TARN_FLOOR_DIV || op > TARN_FMOD)
		return 0;
	if (dtype_kind(c->computed[1]) != KIND_INT)
		return 0;
	if (b->tensor) {
		r = has_zero(c->source[1].tensor);
	} else {
		/* As the kernel gets it: 256 is 0 in U8. */
		uint64_t value = 0;

		dtype_put(c->computed[1], b, &value);
		r = value == 0;
	}
	return r > 0 ? tarn_error_set(EDOM,
			       "%s: a divisor is 0, which integers cannot be "
			       "divided by; cast to F32 for infinities",
			       c->op)
		     : r;
}

static void choose_dtypes(struct call *c, enum tarn_binary_op op,
	enum tarn_dtype meet, enum tarn_dtype *ret)
{
	enum tarn_dtype dtype = meet, computed;

	if (op >= TARN_DIV && op <= TARN_LOG_ADD_EXP)
		dtype = dtype_floating(meet);
	else if (op >= TARN_FLOOR_DIV && op <= TARN_FMOD && meet == TARN_BOOL)
		dtype = TARN_U8;
	computed = dtype_computed(dtype);
	if (op >= TARN_EQ)
		dtype = TARN_BOOL;
	c->computed[0] = op >= TARN_EQ ? TARN_BOOL : computed;
	c->computed[1] = c->computed[2] = computed;
	*ret = dtype;
}

/* Powers that are another operation, which takes a tenth of the time: 0, and it;
 * or -1. */
static int plain_power(const struct tarn_operand *a,
	const struct tarn_operand *b, enum tarn_unary_op *ret)
{
	static const struct {
		double exponent;
		enum tarn_unary_op op;
	} powers[] = {{2, TARN_SQUARE}, {0.5, TARN_SQRT}, {-0.5, TARN_RSQRT},
		{-1, TARN_RECIPROCAL}};
	double exponent = b->kind == TARN_NUMBER_FLOAT ? b->f : (double)b->i;

	if (!a->tensor || b->tensor ||
		dtype_kind(tarn_tensor_layout(a->tensor)->dtype) != KIND_FLOAT)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(powers); i++) {
		if (powers[i].exponent != exponent)
			continue;
		*ret = powers[i].op;
		return 0;
	}
	return -1;
}

/* F16 and BF16 are computed in F32, whose next number is not theirs. */
static run_fn *binary_kernel(
	enum tarn_binary_op op, enum tarn_dtype computed, enum tarn_dtype dtype)
{
	if (op == TARN_NEXT_AFTER && dtype != computed)
		return kernels()->next_after[dtype == TARN_BF16];
	return kernels()->binary[kernels_type(computed)][op];
}

int tarn_binary(enum tarn_binary_op op, struct tarn_operand a,
	struct tarn_operand b, tarn_tensor **out)
{
	struct tarn_operand operands[2] = {a, b};
	enum tarn_unary_op plain;
	enum tarn_dtype meet, dtype;
	run_fn *kernel;
	struct call c;
	int r;

	if ((unsigned)op >= TARN_BINARY_OPS)
		return tarn_error_set(
			EINVAL, "there is no binary operation %d", (int)op);
	if (op == TARN_POW && plain_power(&a, &b, &plain) == 0)
		return tarn_unary(plain, a.tensor, out);
	r = call_open(&c, binary_names[op], operands, 2);
	if (r < 0)
		return r;
	r = tarn_result_dtype(operands, 2, &meet);
	if (r >= 0) {
		choose_dtypes(&c, op, meet, &dtype);
		take_values(&c, operands);
		r = check_divisor(op, &c, &operands[1]);
	}
	if (r >= 0) {
		kernel = binary_kernel(op, c.computed[1], dtype);
		r = kernel ? call_run(&c, operands, kernel, dtype,
				     op == TARN_POW ? 16 : 1, out)
			   : refuse_dtype(c.op, meet);
	}
	call_close(&c);
	return r;
}

/* ---- three operands ----------------------------------------------------------- */

int tarn_where(const tarn_tensor *cond, struct tarn_operand a,
	struct tarn_operand b, tarn_tensor **out)
{
	struct tarn_operand operands[3] = {tarn_of(cond), a, b};
	enum tarn_dtype dtype;
	struct call c;
	int r, size;

	if (tarn_tensor_layout(cond)->dtype != TARN_BOOL)
		return tarn_error_set(EINVAL,
			"where: the condition is %s, not BOOL; compare it with "
			"0",
			tarn_dtype_name(tarn_tensor_layout(cond)->dtype));
	r = tarn_result_dtype(operands + 1, 2, &dtype);
	if (r >= 0)
		r = call_open(&c, "where", operands, 3);
	if (r < 0)
		return r;
	/* Nothing is computed: but numbers are made in what is. */
	c.computed[0] = c.computed[2] = c.computed[3] =
		a.tensor && b.tensor ? dtype : dtype_computed(dtype);
	c.computed[1] = TARN_BOOL;
	take_values(&c, operands);
	size = tarn_dtype_bits(c.computed[0]) / 8;
	r = call_run(&c, operands,
		kernels()->where[__builtin_ctz((unsigned)size)], dtype, 1, out);
	call_close(&c);
	return r;
}

/* A bound beyond what the dtype holds bounds nothing; it must not wrap. */
static void bound(enum tarn_dtype dtype, struct tarn_operand *o)
{
	bool is_signed = dtype == TARN_I8 || dtype == TARN_I16 ||
			 dtype == TARN_I32 || dtype == TARN_I64;
	int bits = tarn_dtype_bits(dtype) - is_signed;
	int64_t most = bits >= 63 ? INT64_MAX : ((int64_t)1 << bits) - 1;
	int64_t least = is_signed ? -most - 1 : 0;

	if (o->tensor || o->kind == TARN_NUMBER_FLOAT ||
		dtype_kind(dtype) != KIND_INT)
		return;
	o->i = MIN(MAX(o->i, least), most);
}

int tarn_clamp(const tarn_tensor *x, const struct tarn_operand *low,
	const struct tarn_operand *high, tarn_tensor **out)
{
	struct tarn_operand operands[3] = {tarn_of(x)};
	enum tarn_dtype dtype;
	struct call c;
	int r;

	if (!low && !high)
		return tarn_error_set(EINVAL,
			"clamp: neither the least nor the largest is given");
	operands[1] = low ? *low : *high;
	operands[2] = high ? *high : *low;
	r = tarn_result_dtype(operands, 3, &dtype);
	if (r < 0)
		return r;
	bound(dtype, &operands[1]);
	bound(dtype, &operands[2]);
	if (!high)
		return tarn_binary(TARN_MAX, tarn_of(x), operands[1], out);
	if (!low)
		return tarn_binary(TARN_MIN, tarn_of(x), operands[2], out);
	r = call_open(&c, "clamp", operands, 3);
	if (r < 0)
		return r;
	for (int i = 0; i < LOOPS_OPERANDS; i++)
		c.computed[i] = dtype_computed(dtype);
	r = call_run(&c, operands,
		kernels()->clamp[kernels_type(c.computed[0])], dtype, 1, out);
	call_close(&c);
	return r;
}

int tarn_cast(const tarn_tensor *x, enum tarn_dtype dtype, tarn_tensor **out)
{
	const struct tarn_layout *l = tarn_tensor_layout(x);
	tarn_tensor *made = NULL;
	int r;

	if (*out && tarn_tensor_layout(*out)->dtype != dtype)
		return tarn_error_set(EINVAL,
			"cast: to %s, into a destination of %s",
			tarn_dtype_name(dtype) ?: "an invalid dtype",
			tarn_dtype_name(tarn_tensor_layout(*out)->dtype));
	if (*out)
		return tarn_copy(*out, x, NULL, NULL);
	r = tarn_tensor_empty(dtype, l->ndim, l->shape, &made);
	if (r >= 0)
		r = tarn_copy(made, x, NULL, NULL);
	if (r >= 0)
		*out = STEAL(made);
	tarn_tensor_unref(made);
	return r;
}

int tensor_fill(tarn_tensor *to, const struct tarn_operand *value)
{
	const struct tarn_layout *l = tarn_tensor_layout(to);
	uint64_t element = 0;
	int64_t one = 1;
	tarn_storage *storage = NULL;
	tarn_tensor *number = NULL, *all = NULL;
	enum tarn_dtype dtype = dtype_computed(l->dtype);
	struct tarn_layout layout;
	int r;

	dtype_put(dtype, value, &element);
	r = tarn_storage_borrow(
		&element, sizeof(element), 0, NULL, NULL, &storage);
	if (r >= 0)
		r = tarn_layout_contiguous(dtype, 0, &one, &layout);
	if (r >= 0)
		r = tarn_tensor_new(storage, 0, &layout, &number);
	if (r >= 0)
		r = tarn_tensor_expand(number, l->ndim, l->shape, &all);
	if (r >= 0)
		r = tarn_copy(to, all, NULL, NULL);
	tarn_tensor_unref(all);
	tarn_tensor_unref(number);
	tarn_storage_unref(storage);
	return r;
}
