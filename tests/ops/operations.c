// SPDX-License-Identifier: MIT
#include "tests/ops/operations.h"

#include "tests/ops/tensors.h"

/* What the operations work on. */
static struct {
	tarn_tensor *x, *y;          /* F32 [3, 4], positive */
	tarn_tensor *i, *j;          /* I32 [3, 4], small and positive */
	tarn_tensor *mask;           /* BOOL [3, 4] */
	tarn_tensor *row;            /* F32 [4] */
	tarn_tensor *index;          /* I64 [2] */
	tarn_tensor *places;         /* I64 [3, 4] */
	tarn_tensor *image, *kernel; /* F32 [1, 2, 6, 6], [3, 2, 3, 3] */
} on;

static int unary(int op, tarn_tensor **out)
{
	return tarn_unary(
		(enum tarn_unary_op)op, op == TARN_BIT_NOT ? on.i : on.x, out);
}

static int binary(int op, tarn_tensor **out)
{
	bool bits = op >= TARN_BIT_AND && op <= TARN_SHIFT_RIGHT;

	return tarn_binary((enum tarn_binary_op)op, tarn_of(bits ? on.i : on.x),
		tarn_of(bits ? on.j : on.y), out);
}

static int where(int op, tarn_tensor **out)
{
	return tarn_where(on.mask, tarn_of(on.x), tarn_float(op), out);
}

static int clamp(int op, tarn_tensor **out)
{
	struct tarn_operand low = tarn_float(2), high = tarn_float(3);

	return tarn_clamp(
		on.x, op == 1 ? NULL : &low, op == 2 ? NULL : &high, out);
}

static int cast(int op, tarn_tensor **out)
{
	return tarn_cast(on.x, op ? TARN_I32 : TARN_BF16, out);
}

static int reduce(int op, tarn_tensor **out)
{
	static const int dims[] = {1};

	return tarn_reduce(
		(enum tarn_reduce_op)op, on.x, 1, dims, TARN_KEEP_DIMS, out);
}

static int variance(int op, tarn_tensor **out)
{
	return tarn_variance(on.x, 1, (int[]) {0}, 1, op, 0, out);
}

static int norm(int op, tarn_tensor **out)
{
	return tarn_norm(on.x, 1, (int[]) {0}, op, 0, out);
}

static int log_sum_exp(int op, tarn_tensor **out)
{
	(void)op;
	return tarn_log_sum_exp(on.x, 1, (int[]) {0}, 0, out);
}

static int arg_reduce(int op, tarn_tensor **out)
{
	return tarn_arg_reduce(
		op ? TARN_AMAX : TARN_AMIN, on.x, 1, TARN_KEEP_DIMS, out);
}

#define ALONG(fn)                                                              \
	static int fn(int op, tarn_tensor **out)                               \
	{                                                                      \
		return tarn_##fn(on.x, op, out);                               \
	}
ALONG(softmax)
ALONG(log_softmax)
ALONG(cumulative_sum)
ALONG(cumulative_product)

static int layer_norm(int op, tarn_tensor **out)
{
	return tarn_layer_norm(on.x, 1, op ? on.row : NULL, on.row, 1e-5, out);
}

static int rms_norm(int op, tarn_tensor **out)
{
	return tarn_rms_norm(on.x, 1, op ? on.row : NULL, 1e-5, out);
}

static int index_select(int op, tarn_tensor **out)
{
	return tarn_index_select(on.x, op, on.index, out);
}

static int take(int op, tarn_tensor **out)
{
	(void)op;
	return tarn_take(on.x, on.places, out);
}

static int take_along(int op, tarn_tensor **out)
{
	return tarn_take_along(on.x, op, on.places, out);
}

static int masked_select(int op, tarn_tensor **out)
{
	(void)op;
	return tarn_masked_select(on.x, on.mask, out);
}

static int nonzero(int op, tarn_tensor **out)
{
	(void)op;
	return tarn_nonzero(on.mask, out);
}

static int cat(int op, tarn_tensor **out)
{
	return tarn_cat((const tarn_tensor *[]) {on.x, on.y}, 2, op, out);
}

static int stack(int op, tarn_tensor **out)
{
	return tarn_stack((const tarn_tensor *[]) {on.x, on.y}, 2, op, out);
}

static int pad(int op, tarn_tensor **out)
{
	const int64_t pads[2][2] = {{1, 2}, {0, 3}};

	return tarn_pad(
		on.x, 2, pads, (enum tarn_pad_mode)op, tarn_int(7), out);
}

static int roll(int op, tarn_tensor **out)
{
	(void)op;
	return tarn_roll(on.x, 2, (int64_t[]) {1, -1}, (int[]) {0, 1}, out);
}

static int triangle(int op, tarn_tensor **out)
{
	return tarn_triangle((enum tarn_triangle)op, on.x, 0, out);
}

static int sort(int op, tarn_tensor **out)
{
	return tarn_sort(on.x, 1, false, op ? NULL : out, op ? out : NULL);
}

static int top(int op, tarn_tensor **out)
{
	return tarn_top(on.x, 2, 1, true, op ? NULL : out, op ? out : NULL);
}

static int matmul(int op, tarn_tensor **out)
{
	tarn_tensor *t = NULL;
	int r = tarn_tensor_transpose(op ? on.i : on.y, 0, 1, &t);

	if (r >= 0)
		r = tarn_matmul(op ? on.j : on.x, t, out);
	tarn_tensor_unref(t);
	return r;
}

static int linear(int op, tarn_tensor **out)
{
	return op ? tarn_linear(on.x, on.y, NULL, out)
		  : tarn_linear(on.y, on.x, NULL, out);
}

static int attention(int op, tarn_tensor **out)
{
	struct tarn_attention_options options = {
		.flags = op ? TARN_ATTENTION_CAUSAL : TARN_ATTENTION_SCALED};

	return tarn_attention(on.x, on.y, on.x, &options, out);
}

static int conv(int op, tarn_tensor **out)
{
	(void)op;
	return tarn_conv(on.image, on.kernel, NULL, NULL, out);
}

static int pool(int op, tarn_tensor **out)
{
	struct tarn_pool_options options = {.kernel = {2, 3}};

	return tarn_pool((enum tarn_pool_kind)op, on.image, &options, out);
}

static const int64_t random_extents[] = {3, 4};

static int random_uniform(int op, tarn_tensor **out)
{
	return tarn_random_uniform(
		1, (uint64_t)op, 0, 1, TARN_F32, 2, random_extents, out);
}

static int random_normal(int op, tarn_tensor **out)
{
	return tarn_random_normal(
		1, (uint64_t)op, 0, 1, TARN_F32, 2, random_extents, out);
}

static int random_int(int op, tarn_tensor **out)
{
	return tarn_random_int(
		1, (uint64_t)op, -5, 5, TARN_I16, 2, random_extents, out);
}

/* These write parts of a tensor that is there. */
static int index_put(int op, tarn_tensor **out)
{
	return tarn_index_put(*out, op, on.index, tarn_float(2.5));
}

static int put_along(int op, tarn_tensor **out)
{
	return tarn_put_along(*out, op, on.places, tarn_of(on.y));
}

static int masked_fill(int op, tarn_tensor **out)
{
	return tarn_masked_fill(*out, on.mask, tarn_int(op));
}

static int masked_put(int op, tarn_tensor **out)
{
	(void)op;
	return tarn_masked_put(*out, on.mask, tarn_of(on.x));
}

#define LINE(fn, ops, writes)                                                  \
	{                                                                      \
		"tarn_" #fn, fn, ops, writes                                   \
	}
const struct operation operations[] = {
	LINE(unary, TARN_UNARY_OPS, false),
	LINE(binary, TARN_BINARY_OPS, false),
	LINE(where, 2, false),
	LINE(clamp, 3, false),
	LINE(cast, 2, false),
	LINE(reduce, TARN_REDUCE_OPS, false),
	LINE(variance, 2, false),
	LINE(norm, 3, false),
	LINE(log_sum_exp, 1, false),
	LINE(arg_reduce, 2, false),
	LINE(softmax, 2, false),
	LINE(log_softmax, 2, false),
	LINE(cumulative_sum, 2, false),
	LINE(cumulative_product, 2, false),
	LINE(layer_norm, 2, false),
	LINE(rms_norm, 2, false),
	LINE(index_select, 2, false),
	LINE(index_put, 2, true),
	LINE(take, 1, false),
	LINE(take_along, 2, false),
	LINE(put_along, 2, true),
	LINE(masked_select, 1, false),
	LINE(masked_fill, 2, true),
	LINE(masked_put, 1, true),
	LINE(nonzero, 1, false),
	LINE(cat, 2, false),
	LINE(stack, 3, false),
	LINE(pad, TARN_PAD_CIRCULAR + 1, false),
	LINE(roll, 1, false),
	LINE(triangle, 2, false),
	LINE(sort, 2, false),
	LINE(top, 2, false),
	LINE(matmul, 2, false),
	LINE(linear, 2, false),
	LINE(attention, 2, false),
	LINE(conv, 1, false),
	LINE(pool, 2, false),
	LINE(random_uniform, 2, false),
	LINE(random_normal, 2, false),
	LINE(random_int, 2, false),
};
const size_t operations_count = sizeof(operations) / sizeof(operations[0]);

/* ---- operands ----------------------------------------------------------- */

const tarn_tensor *operations_before(void)
{
	return on.y;
}

void operations_begin(void)
{
	static const int64_t one[] = {4}, two[] = {3, 4}, few[] = {2};
	static const int64_t four[] = {1, 2, 6, 6}, kernel[] = {3, 2, 3, 3};
	static const double places[] = {0, 1, 2, 0, 1, 1, 2, 2, 0, 2, 1, 0};
	static const double index[] = {2, 0};
	tarn_tensor *line;

	must(tarn_tensor_arange(TARN_F32, 1, 13, 1, &line));
	must(tarn_tensor_view(line, 2, two, &on.x));
	tarn_tensor_unref(line);
	must(tarn_tensor_full(TARN_F32, 2, two, 2.5, &on.y));
	on.i = NULL;
	must(tarn_cast(on.x, TARN_I32, &on.i));
	must(tarn_tensor_full(TARN_I32, 2, two, 3, &on.j));
	on.mask = NULL;
	must(tarn_binary(TARN_GT, tarn_of(on.x), tarn_int(4), &on.mask));
	must(tarn_tensor_full(TARN_F32, 1, one, 0.5, &on.row));
	on.index = tensor_of(TARN_I64, 1, few, index);
	on.places = tensor_of(TARN_I64, 2, two, places);
	on.image = on.kernel = NULL;
	must(tarn_random_normal(1, 0, 0, 1, TARN_F32, 4, four, &on.image));
	must(tarn_random_normal(2, 0, 0, 1, TARN_F32, 4, kernel, &on.kernel));
}

void operations_end(void)
{
	tarn_tensor *const all[] = {on.x, on.y, on.i, on.j, on.mask, on.row,
		on.index, on.places, on.image, on.kernel};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		tarn_tensor_unref(all[i]);
}
