/* SPDX-License-Identifier: MIT */
/*
 * Operations on tensors: the library libtarnops, which needs a BLAS.
 *
 *	tarn_tensor *sum = NULL, *row = NULL;
 *
 *	r = tarn_add(a, b, &sum);                        makes a tensor
 *	if (r >= 0)
 *		r = tarn_mul(sum, w, &sum);              writes into it
 *	if (r >= 0)
 *		r = tarn_reduce(TARN_SUM, sum, 1, (int[]) {-1}, 0, &row);
 *
 * Every operation has a destination, out. *out NULL: the result is a new tensor
 * in C order, the caller's, and *out stays NULL after an error. Otherwise the
 * result is written there, and *out stays what it is: one of the operands (in
 * place), a view, a tensor that is published next, or a channel's slot. It must
 * have the result's shape, and a dtype to which the result's can be cast: of the
 * same kind or a later one (BOOL, integers, floats). A destination that overlaps
 * an operand is correct: where it has another layout, the operand is copied
 * first. One that cannot be written is -EROFS, and so that whose own elements
 * overlap (-EINVAL).
 *
 * Operands lie in memory, or in a file, from which they are read first; those
 * on a device are -ENOTSUP. Shapes broadcast by numpy's rule. Dimensions may be
 * negative: -1 is the last. Dtypes are BOOL, the integers, F16, BF16, F32 and
 * F64; C64 and the floats below 16 bits are -ENOTSUP, and must be cast first. F16
 * and BF16 are computed in F32 and rounded once. Integers wrap around.
 *
 * All functions may be called from any thread; a call uses several where there
 * is enough to do, see tarn_ops_set_threads. The same call gives the same bits
 * for any number of threads, products excepted, which are BLAS's: there for the
 * same number.
 *
 * Functions return 0 or -EINVAL (shapes or arguments do not fit), -ENOTSUP (a
 * dtype), -EROFS, -ENOMEM, errors of reading a file, or what is said beside
 * them. After an error the destination is as it was, but where its own memory
 * is an operand's, or there was no memory for the rest.
 */
#pragma once

#include <tarn/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- operands and dtypes --------------------------------------------- */

enum tarn_number_kind {
	TARN_NUMBER_BOOL = 1,
	TARN_NUMBER_INT = 2,
	TARN_NUMBER_FLOAT = 3,
};

/* A tensor, or a number, which takes the dtype of the tensors beside it where
 * their kind can hold it. */
struct tarn_operand {
	const tarn_tensor *tensor; /* NULL: a number */
	enum tarn_number_kind kind;
	union {
		int64_t i; /* of BOOL too */
		double f;
	};
};

static inline struct tarn_operand tarn_of(const tarn_tensor *tensor)
{
	struct tarn_operand operand;

	operand.tensor = tensor;
	operand.kind = TARN_NUMBER_BOOL;
	operand.i = 0;
	return operand;
}

static inline struct tarn_operand tarn_int(int64_t i)
{
	struct tarn_operand operand;

	operand.tensor = NULL;
	operand.kind = TARN_NUMBER_INT;
	operand.i = i;
	return operand;
}

static inline struct tarn_operand tarn_float(double f)
{
	struct tarn_operand operand;

	operand.tensor = NULL;
	operand.kind = TARN_NUMBER_FLOAT;
	operand.f = f;
	return operand;
}

/*
 * The dtype in which two tensors meet, as in PyTorch; for unsigned integers
 * beside signed ones as in the array API standard.
 *
 *	      BOOL U8   I8   U16  I16  U32  I32  U64  I64  F16  BF16 F32  F64
 *	BOOL  BOOL U8   I8   U16  I16  U32  I32  U64  I64  F16  BF16 F32  F64
 *	U8         U8   I16  U16  I16  U32  I32  U64  I64  F16  BF16 F32  F64
 *	I8              I8   I32  I16  I64  I32  -    I64  F16  BF16 F32  F64
 *	U16                  U16  I32  U32  I32  U64  I64  F16  BF16 F32  F64
 *	I16                       I16  I64  I32  -    I64  F16  BF16 F32  F64
 *	U32                            U32  I64  U64  I64  F16  BF16 F32  F64
 *	I32                                 I32  -    I64  F16  BF16 F32  F64
 *	U64                                      U64  -    F16  BF16 F32  F64
 *	I64                                           I64  F16  BF16 F32  F64
 *	F16                                                F16  F32  F32  F64
 *	BF16                                                    BF16 F32  F64
 *	F32                                                          F32  F64
 *	F64                                                               F64
 *
 * Tensors without dimensions, and numbers, raise the dtype of those that have
 * some only if their kind is later: F32 beside a number 2.5 stays F32, I32 beside
 * it becomes F32. -ENOTSUP: one has no arithmetic here, or "-".
 */
TARN_PUBLIC int tarn_promote(enum tarn_dtype a, enum tarn_dtype b,
	enum tarn_dtype *ret) TARN_NONNULL(3) TARN_MUST_CHECK;

/* The dtype in which n operands meet. */
TARN_PUBLIC int tarn_result_dtype(const struct tarn_operand *operands, size_t n,
	enum tarn_dtype *ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* ---- threads ----------------------------------------------------------- */

/* How many threads one call uses at most; n 0: as many as TARN_THREADS says,
 * else as the affinity mask and the cgroup leave this process. They are started
 * when they are first needed, once for a process, and again in its children. */
TARN_PUBLIC int tarn_ops_set_threads(int n) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_ops_threads(void);

/* ---- element by element ------------------------------------------------ */

enum tarn_unary_op {
	/* BOOL and integers stay what they are; NEG of BOOL is -EINVAL. */
	TARN_NEG,
	TARN_ABS,
	TARN_SIGN,
	TARN_SQUARE,
	TARN_RELU,
	TARN_FLOOR,
	TARN_CEIL,
	TARN_TRUNC,
	TARN_ROUND, /* to even */
	/* BOOL and integers become F32. */
	TARN_SQRT,
	TARN_RSQRT,
	TARN_RECIPROCAL,
	TARN_EXP,
	TARN_EXP2,
	TARN_EXPM1,
	TARN_LOG,
	TARN_LOG2,
	TARN_LOG10,
	TARN_LOG1P,
	TARN_SIN,
	TARN_COS,
	TARN_TAN,
	TARN_ASIN,
	TARN_ACOS,
	TARN_ATAN,
	TARN_SINH,
	TARN_COSH,
	TARN_TANH,
	TARN_ASINH,
	TARN_ACOSH,
	TARN_ATANH,
	TARN_ERF,
	TARN_SIGMOID,
	TARN_GELU,      /* x * (1 + erf(x / sqrt(2))) / 2 */
	TARN_GELU_TANH, /* its approximation by tanh */
	TARN_SILU,      /* x * sigmoid(x) */
	/* Of BOOL and integers alone. */
	TARN_BIT_NOT, /* of BOOL: the other one */
	/* The result is BOOL. */
	TARN_NOT,
	TARN_IS_NAN,
	TARN_IS_INF,
	TARN_IS_FINITE,
	TARN_SIGN_BIT,
	TARN_UNARY_OPS, /* how many there are */
};

TARN_PUBLIC int tarn_unary(enum tarn_unary_op op, const tarn_tensor *x,
	tarn_tensor **out) TARN_NONNULL(2, 3) TARN_MUST_CHECK;

enum tarn_binary_op {
	/* In the dtype in which both meet. BOOL: ADD and MAX are "or", MUL and
	 * MIN "and"; SUB is -EINVAL. MIN and MAX of a NaN are NaN. */
	TARN_ADD,
	TARN_SUB,
	TARN_MUL,
	TARN_MIN,
	TARN_MAX,
	/* Integers by 0: -EDOM. REMAINDER has the
	 * sign of b, FMOD that of a. */
	TARN_FLOOR_DIV,
	TARN_REMAINDER,
	TARN_FMOD,
	TARN_POW,
	/* BOOL and integers become F32. */
	TARN_DIV,
	TARN_ATAN2,
	TARN_HYPOT,
	TARN_COPY_SIGN,
	TARN_NEXT_AFTER,
	TARN_LOG_ADD_EXP,
	/* BOOL and integers alone; shifts of integers alone, by 0 to the bits
	 * of one less 1 (more: 0, or the sign). */
	TARN_BIT_AND,
	TARN_BIT_OR,
	TARN_BIT_XOR,
	TARN_SHIFT_LEFT,
	TARN_SHIFT_RIGHT,
	/* The result is BOOL. */
	TARN_EQ,
	TARN_NE,
	TARN_LT,
	TARN_LE,
	TARN_GT,
	TARN_GE,
	TARN_AND, /* both are not 0 */
	TARN_OR,
	TARN_XOR,
	TARN_BINARY_OPS, /* how many there are */
};

TARN_PUBLIC int tarn_binary(enum tarn_binary_op op, struct tarn_operand a,
	struct tarn_operand b, tarn_tensor **out)
	TARN_NONNULL(4) TARN_MUST_CHECK;

/* a where cond (BOOL) is true, else b. */
TARN_PUBLIC int tarn_where(const tarn_tensor *cond, struct tarn_operand a,
	struct tarn_operand b, tarn_tensor **out)
	TARN_NONNULL(1, 4) TARN_MUST_CHECK;

/* min(max(x, low), high); either may be NULL, not both. NaN if one is NaN. */
TARN_PUBLIC int tarn_clamp(const tarn_tensor *x,
	const struct tarn_operand *low, const struct tarn_operand *high,
	tarn_tensor **out) TARN_NONNULL(1, 4) TARN_MUST_CHECK;

/* The same values in another dtype, any of all, by the rules of tarn_copy. With
 * a destination, its dtype is what counts, and must be this one. */
TARN_PUBLIC int tarn_cast(const tarn_tensor *x, enum tarn_dtype dtype,
	tarn_tensor **out) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

#define TARN_UNARY_NAMED(name, op)                                             \
	static inline TARN_MUST_CHECK int name(                                \
		const tarn_tensor *x, tarn_tensor **out)                       \
	{                                                                      \
		return tarn_unary(op, x, out);                                 \
	}
#define TARN_BINARY_NAMED(name, op)                                            \
	static inline TARN_MUST_CHECK int name(const tarn_tensor *a,           \
		const tarn_tensor *b, tarn_tensor **out)                       \
	{                                                                      \
		return tarn_binary(op, tarn_of(a), tarn_of(b), out);           \
	}

TARN_UNARY_NAMED(tarn_neg, TARN_NEG)
TARN_UNARY_NAMED(tarn_abs, TARN_ABS)
TARN_UNARY_NAMED(tarn_relu, TARN_RELU)
TARN_UNARY_NAMED(tarn_sqrt, TARN_SQRT)
TARN_UNARY_NAMED(tarn_rsqrt, TARN_RSQRT)
TARN_UNARY_NAMED(tarn_exp, TARN_EXP)
TARN_UNARY_NAMED(tarn_log, TARN_LOG)
TARN_UNARY_NAMED(tarn_sin, TARN_SIN)
TARN_UNARY_NAMED(tarn_cos, TARN_COS)
TARN_UNARY_NAMED(tarn_tanh, TARN_TANH)
TARN_UNARY_NAMED(tarn_erf, TARN_ERF)
TARN_UNARY_NAMED(tarn_sigmoid, TARN_SIGMOID)
TARN_UNARY_NAMED(tarn_gelu, TARN_GELU)
TARN_UNARY_NAMED(tarn_gelu_tanh, TARN_GELU_TANH)
TARN_UNARY_NAMED(tarn_silu, TARN_SILU)
TARN_BINARY_NAMED(tarn_add, TARN_ADD)
TARN_BINARY_NAMED(tarn_sub, TARN_SUB)
TARN_BINARY_NAMED(tarn_mul, TARN_MUL)
TARN_BINARY_NAMED(tarn_div, TARN_DIV)
TARN_BINARY_NAMED(tarn_floor_div, TARN_FLOOR_DIV)
TARN_BINARY_NAMED(tarn_remainder, TARN_REMAINDER)
TARN_BINARY_NAMED(tarn_pow, TARN_POW)
TARN_BINARY_NAMED(tarn_min, TARN_MIN)
TARN_BINARY_NAMED(tarn_max, TARN_MAX)
TARN_BINARY_NAMED(tarn_eq, TARN_EQ)
TARN_BINARY_NAMED(tarn_ne, TARN_NE)
TARN_BINARY_NAMED(tarn_lt, TARN_LT)
TARN_BINARY_NAMED(tarn_le, TARN_LE)
TARN_BINARY_NAMED(tarn_gt, TARN_GT)
TARN_BINARY_NAMED(tarn_ge, TARN_GE)

/* ---- reductions ------------------------------------------------------ */

enum tarn_reduce_op {
	TARN_SUM,  /* BOOL and integers: in I64, U64 in U64 */
	TARN_PROD, /* the same */
	TARN_MEAN, /* of floats */
	/* Of no elements: -EINVAL. NaN is contagious. */
	TARN_AMIN,
	TARN_AMAX,
	/* BOOL, of any dtype: what is not 0 is true. */
	TARN_ANY,
	TARN_ALL,
	TARN_REDUCE_OPS,
};

/* The dimension stays, with the extent 1. */
#define TARN_KEEP_DIMS 1u

/*
 * Reduces over n_dims dimensions; n_dims 0: over all of them. Sums are pairwise:
 * their error grows with the logarithm of the number of elements. flags:
 * TARN_KEEP_DIMS.
 */
TARN_PUBLIC int tarn_reduce(enum tarn_reduce_op op, const tarn_tensor *x,
	int n_dims, const int *dims, unsigned flags, tarn_tensor **out)
	TARN_NONNULL(2, 6) TARN_MUST_CHECK;

/* The variance of floats: squares of the distances from the mean, summed and
 * divided by the number of elements less correction (NaN or infinite where that
 * is not positive). root: its square root. */
TARN_PUBLIC int tarn_variance(const tarn_tensor *x, int n_dims, const int *dims,
	double correction, bool root, unsigned flags, tarn_tensor **out)
	TARN_NONNULL(1, 7) TARN_MUST_CHECK;

/* The p-norm of floats: (sum of |x|^p)^(1/p); infinite p: the largest or
 * smallest |x|; 0: how many are not 0. -EINVAL: p is NaN; or it is negative or
 * infinite, and there are no elements. */
TARN_PUBLIC int tarn_norm(const tarn_tensor *x, int n_dims, const int *dims,
	double p, unsigned flags, tarn_tensor **out)
	TARN_NONNULL(1, 6) TARN_MUST_CHECK;

/* log of the sum of exp(x), of floats, without overflow. */
TARN_PUBLIC int tarn_log_sum_exp(const tarn_tensor *x, int n_dims,
	const int *dims, unsigned flags, tarn_tensor **out)
	TARN_NONNULL(1, 5) TARN_MUST_CHECK;

/* The index (I64) of the first smallest (op TARN_AMIN) or largest (TARN_AMAX)
 * element along dim, NaN before all; dim TARN_ALL_DIMS: in C order of all. */
#define TARN_ALL_DIMS INT32_MIN
TARN_PUBLIC int tarn_arg_reduce(enum tarn_reduce_op op, const tarn_tensor *x,
	int dim, unsigned flags, tarn_tensor **out)
	TARN_NONNULL(2, 5) TARN_MUST_CHECK;

/* ---- along a dimension ------------------------------------------------ */

/* exp(x) / sum of exp(x) along dim, and its logarithm, of floats. A row of -inf
 * alone is NaN, as one with a NaN or inf. */
TARN_PUBLIC int tarn_softmax(const tarn_tensor *x, int dim, tarn_tensor **out)
	TARN_NONNULL(1, 3) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_log_softmax(const tarn_tensor *x, int dim,
	tarn_tensor **out) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* Sums and products of the elements up to each; BOOL and integers in I64, U64 in
 * U64. */
TARN_PUBLIC int tarn_cumulative_sum(const tarn_tensor *x, int dim,
	tarn_tensor **out) TARN_NONNULL(1, 3) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_cumulative_product(const tarn_tensor *x, int dim,
	tarn_tensor **out) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* (x - mean) / sqrt(variance + epsilon) over the last n_dims dimensions, times
 * weight plus bias, which have the shape of those and may be NULL. */
TARN_PUBLIC int tarn_layer_norm(const tarn_tensor *x, int n_dims,
	const tarn_tensor *weight, const tarn_tensor *bias, double epsilon,
	tarn_tensor **out) TARN_NONNULL(1, 6) TARN_MUST_CHECK;

/* x / sqrt(mean of x^2 + epsilon) over the last n_dims dimensions, times weight,
 * which may be NULL. */
TARN_PUBLIC int tarn_rms_norm(const tarn_tensor *x, int n_dims,
	const tarn_tensor *weight, double epsilon, tarn_tensor **out)
	TARN_NONNULL(1, 5) TARN_MUST_CHECK;

/* ---- elements by their numbers ----------------------------------------- */

/*
 * Lists of numbers are of any integer dtype; negative ones count from the end,
 * and may repeat. All are checked before anything is written: -ERANGE names the
 * first that is none. What is written with the same number twice is the later
 * one. dst is checked as any destination; src is a number, which dst's dtype must
 * be able to hold, or a tensor, which is broadcast, and whose dtype is cast to
 * dst's where its kind is not a later one.
 */

/* Slices along dim; the index has any shape, which takes the place of dim: an
 * embedding is looked up by dim 0. Its reverse writes the slices. */
TARN_PUBLIC int tarn_index_select(const tarn_tensor *x, int dim,
	const tarn_tensor *index, tarn_tensor **out)
	TARN_NONNULL(1, 3, 4) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_index_put(tarn_tensor *dst, int dim,
	const tarn_tensor *index, struct tarn_operand src)
	TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* Elements by their numbers in C order of all. */
TARN_PUBLIC int tarn_take(const tarn_tensor *x, const tarn_tensor *index,
	tarn_tensor **out) TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

/* Elements by their numbers along dim, at the index's own place in all other
 * dimensions, where the index lies within the tensor: torch.gather, and
 * torch.scatter. */
TARN_PUBLIC int tarn_take_along(const tarn_tensor *x, int dim,
	const tarn_tensor *index, tarn_tensor **out)
	TARN_NONNULL(1, 3, 4) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_put_along(tarn_tensor *dst, int dim,
	const tarn_tensor *index, struct tarn_operand src)
	TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* The elements, in C order, at which a mask (BOOL, broadcast to x) is true: as
 * many as there are. */
TARN_PUBLIC int tarn_masked_select(const tarn_tensor *x,
	const tarn_tensor *mask, tarn_tensor **out)
	TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;
/* Writes there one value, or a tensor's that is broadcast to dst; or the
 * elements of a tensor one after the other, of which it may have more. */
TARN_PUBLIC int tarn_masked_fill(tarn_tensor *dst, const tarn_tensor *mask,
	struct tarn_operand value) TARN_NONNULL(1, 2) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_masked_put(tarn_tensor *dst, const tarn_tensor *mask,
	struct tarn_operand src) TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* The indices (I64, a row of ndim for each) of the elements that are not 0. */
TARN_PUBLIC int tarn_nonzero(const tarn_tensor *x, tarn_tensor **out)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* ---- elements in other places ------------------------------------------ */

/* n tensors one after the other along dim, or along a new one, in the dtype in
 * which they meet. */
TARN_PUBLIC int tarn_cat(const tarn_tensor *const *tensors, size_t n, int dim,
	tarn_tensor **out) TARN_NONNULL(1, 4) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_stack(const tarn_tensor *const *tensors, size_t n,
	int dim, tarn_tensor **out) TARN_NONNULL(1, 4) TARN_MUST_CHECK;

enum tarn_pad_mode {
	TARN_PAD_CONSTANT,  /* with value, a number */
	TARN_PAD_REFLECT,   /* mirrored, but for the element at the edge */
	TARN_PAD_REPLICATE, /* the element at the edge */
	TARN_PAD_CIRCULAR,  /* from the other end */
};

/* pads[i] elements before and behind those of the last n dimensions, in their
 * order. */
TARN_PUBLIC int tarn_pad(const tarn_tensor *x, int n,
	const int64_t (*pads)[2], enum tarn_pad_mode mode,
	struct tarn_operand value, tarn_tensor **out)
	TARN_NONNULL(1, 6) TARN_MUST_CHECK;

/* Each element is shifts[i] farther along dims[i]; what leaves the end enters at
 * the beginning. */
TARN_PUBLIC int tarn_roll(const tarn_tensor *x, int n, const int64_t *shifts,
	const int *dims, tarn_tensor **out)
	TARN_NONNULL(1, 5) TARN_MUST_CHECK;

enum tarn_triangle { TARN_LOWER, TARN_UPPER };

/* Of the matrices in the last two dimensions, what lies up to (from) the k-th
 * diagonal above the main one; the rest is 0. */
TARN_PUBLIC int tarn_triangle(enum tarn_triangle which, const tarn_tensor *x,
	int64_t k, tarn_tensor **out) TARN_NONNULL(2, 4) TARN_MUST_CHECK;

/* Sorted along dim, NaN as the largest, and the places (I64) that the elements
 * had; equal ones keep their order. Either out may be NULL. If the places fail,
 * the values may be written already. */
TARN_PUBLIC int tarn_sort(const tarn_tensor *x, int dim, bool descending,
	tarn_tensor **out_values, tarn_tensor **out_places)
	TARN_NONNULL(1) TARN_MUST_CHECK;
/* The k largest or smallest of them, sorted. */
TARN_PUBLIC int tarn_top(const tarn_tensor *x, int64_t k, int dim,
	bool largest, tarn_tensor **out_values, tarn_tensor **out_places)
	TARN_NONNULL(1) TARN_MUST_CHECK;

/* ---- products --------------------------------------------------------- */

/*
 * The product of two matrices, [..., m, k] and [..., k, n]: [..., m, n], as
 * torch.matmul. Dimensions before the last two broadcast. A vector as first
 * factor is a row, as second a column, and the result has no such dimension. k 0
 * gives zeros. The result's dtype is that in which both meet; BOOL is -EINVAL.
 *
 * Floats are BLAS's: operands are read as they lie where one of the last two
 * strides is 1 and the other leaves room for a row (transposed, parts of rows and
 * columns, stacks in any order and repeated), else they are packed first. A
 * destination of such a layout is written as it lies.
 */
TARN_PUBLIC int tarn_matmul(const tarn_tensor *a, const tarn_tensor *b,
	tarn_tensor **out) TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

/* x @ weight.T + bias: x is [..., inputs], weight [outputs, inputs] and bias
 * [outputs], or NULL. */
TARN_PUBLIC int tarn_linear(const tarn_tensor *x, const tarn_tensor *weight,
	const tarn_tensor *bias, tarn_tensor **out)
	TARN_NONNULL(1, 2, 4) TARN_MUST_CHECK;

/* Query i sees the keys 0 to i. */
#define TARN_ATTENTION_CAUSAL 1u
/* The queries have several times as many heads (dimension -3) as the keys and
 * values: as many as follow each other share one of those. */
#define TARN_ATTENTION_GROUPED 2u
/* scale is what it says, also 0: all keys that are seen weigh the same. */
#define TARN_ATTENTION_SCALED 4u

struct tarn_attention_options {
	/* Broadcasts to [..., l, s]; NULL: none. BOOL: keys that are true are
	 * seen. Floats are added to the scores. */
	const tarn_tensor *mask;
	double scale;	/* of the scores; 0: 1 / sqrt(e), without the flag */
	uint64_t flags; /* TARN_ATTENTION_... */
	uint64_t reserved[5]; /* 0 */
};

/*
 * softmax(q @ k.T * scale + mask) @ v: q is [..., l, e], k [..., s, e],
 * v [..., s, ev], and the result [..., l, ev]; dimensions before those broadcast.
 * As torch.nn.functional.scaled_dot_product_attention, but that a mask and
 * TARN_ATTENTION_CAUSAL may be given together. A query that sees no key, or only
 * scores of -inf, gives zeros. options may be NULL. The memory that it takes
 * beside the operands does not grow with l * s. The bits do not depend on the
 * number of threads. -EINVAL: the dtype in which all three meet is no float's.
 */
TARN_PUBLIC int tarn_attention(const tarn_tensor *q, const tarn_tensor *k,
	const tarn_tensor *v, const struct tarn_attention_options *options,
	tarn_tensor **out) TARN_NONNULL(1, 2, 3, 5) TARN_MUST_CHECK;

/* In the order of the dimensions in which windows move: [0] alone for one. */
struct tarn_conv_options {
	int64_t stride[2];   /* between windows; 0: 1 */
	int64_t padding[2];  /* zeros on both sides */
	int64_t dilation[2]; /* between a window's elements; 0: 1 */
	int64_t groups;	     /* of channels that do not mix; 0: 1 */
	uint64_t reserved[5]; /* 0 */
};

/*
 * Convolution (cross-correlation, as torch's conv1d and conv2d): x is [n, inputs,
 * length] or [n, inputs, height, width], weight [outputs, inputs / groups, ...]
 * with the extents of the kernel, bias [outputs], or NULL. Of floats. options may
 * be NULL. With padding, a padded copy of x is made; windows are read as they lie
 * or packed a tile at a time.
 */
TARN_PUBLIC int tarn_conv(const tarn_tensor *x, const tarn_tensor *weight,
	const tarn_tensor *bias, const struct tarn_conv_options *options,
	tarn_tensor **out) TARN_NONNULL(1, 2, 5) TARN_MUST_CHECK;

enum tarn_pool_kind {
	TARN_POOL_MAX = 0, /* NaN is contagious */
	TARN_POOL_MEAN = 1, /* of floats */
};

/* The last window may begin inside and end outside: there is one more, perhaps. */
#define TARN_POOL_CEIL 1u
/* Means are those of x's own elements; without it padding counts as zeros. */
#define TARN_POOL_NOT_PADDING 2u

struct tarn_pool_options {
	int64_t kernel[2];
	int64_t stride[2];   /* 0: the kernel's extent */
	int64_t padding[2];  /* at most half of the kernel */
	int64_t dilation[2]; /* 0: 1, as it must be for means */
	uint64_t flags;	     /* TARN_POOL_... */
	uint64_t reserved[5]; /* 0 */
};

/* The largest or the mean of each window of x, [n, channels, length] or
 * [n, channels, height, width]. Padding is never the largest; of a window with
 * nothing else that is the least value of the dtype. */
TARN_PUBLIC int tarn_pool(enum tarn_pool_kind kind, const tarn_tensor *x,
	const struct tarn_pool_options *options, tarn_tensor **out)
	TARN_NONNULL(2, 3, 4) TARN_MUST_CHECK;

/* ---- random numbers ------------------------------------------------------ */

/*
 * Element i in C order is a function of seed and position + i alone, by
 * Philox4x32-10: of a sequence that goes on at the next position, or of another
 * one, by another seed. Threads and strides do not matter; F64 and integers are
 * other numbers than F32. Processors may differ in the last bit of normal ones,
 * and of uniform ones but for those of 0 to 1.
 * dtype and shape are those of *out, if that is not NULL.
 */

/* From low on and below high, of floats; F16 and BF16 may be rounded to high. */
TARN_PUBLIC int tarn_random_uniform(uint64_t seed, uint64_t position,
	double low, double high, enum tarn_dtype dtype, int ndim,
	const int64_t *shape, tarn_tensor **out)
	TARN_NONNULL(8) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_random_normal(uint64_t seed, uint64_t position,
	double mean, double deviation, enum tarn_dtype dtype, int ndim,
	const int64_t *shape, tarn_tensor **out)
	TARN_NONNULL(8) TARN_MUST_CHECK;
/* From low to high, both included. */
TARN_PUBLIC int tarn_random_int(uint64_t seed, uint64_t position, int64_t low,
	int64_t high, enum tarn_dtype dtype, int ndim, const int64_t *shape,
	tarn_tensor **out) TARN_NONNULL(8) TARN_MUST_CHECK;

#ifdef __cplusplus
}
#endif
