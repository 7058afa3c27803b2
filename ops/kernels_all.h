/* SPDX-License-Identifier: MIT */
/*
 * All kernels for one generation of processors. kernels_type.h is walked twice
 * for each type: once its lines are functions, once they are entries of the
 * table. Included by kernels_c.c and its kin, with VARIANT.
 */
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "ops/kernels.h"

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)
#define EACH _Pragma("GCC ivdep") for (size_t i = 0; i < n; i++)
#define SPAN 16 /* elements: no vector is longer */
#define LINE 64 /* bytes of the cache's */

/* Elements of T: what comes so much later is asked for. The processor does that
 * by itself, but stops at the end of each page, and sees less of what comes where
 * much is computed in between. */
#define AHEAD(T) (2048 / sizeof(T))

/* ---- functions that have vectors ----------------------------------------- */

/* glibc's libmvec has them; its header says so to those alone that give up the
 * standard's arithmetic, which is not needed for it. */
#if defined(__x86_64__) && defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)
#define VECTORS(name)                                                          \
	__attribute__((__simd__("notinbranch"))) double name(double);          \
	__attribute__((__simd__("notinbranch"))) float name##f(float);
VECTORS(exp)
VECTORS(exp2)
VECTORS(expm1)
VECTORS(log)
VECTORS(log2)
VECTORS(log10)
VECTORS(log1p)
VECTORS(sin)
VECTORS(cos)
VECTORS(tan)
VECTORS(asin)
VECTORS(acos)
VECTORS(atan)
VECTORS(sinh)
VECTORS(cosh)
VECTORS(tanh)
VECTORS(asinh)
VECTORS(acosh)
VECTORS(atanh)
VECTORS(erf)
#endif

/* ---- what takes more than an expression ---------------------------------- */

/* Division that rounds down, and a remainder with the divisor's sign, as
 * Python's. The quotient of floats is that of the exact remainder, so that the
 * two agree. */
#define FLOAT_DIVISION(type, T, f)                                             \
	static inline T remainder_##type(T x, T y)                             \
	{                                                                      \
		T r = fmod##f(x, y);                                           \
                                                                               \
		return r != 0 && (r < 0) != (y < 0) ? r + y : r;               \
	}                                                                      \
	static inline T floor_div_##type(T x, T y)                             \
	{                                                                      \
		T q, whole, r;                                                 \
                                                                               \
		if (y == 0)                                                    \
			return x / y;                                          \
		r = fmod##f(x, y);                                             \
		q = (x - r) / y;                                               \
		if (r != 0 && (r < 0) != (y < 0))                              \
			q -= 1;                                                \
		if (q == 0)                                                    \
			return copysign##f(0, x / y);                          \
		whole = floor##f(q);                                           \
		return q - whole > (T)0.5 ? whole + 1 : whole;                 \
	}                                                                      \
	static inline T log_add_exp_##type(T x, T y)                           \
	{                                                                      \
		T high = x > y ? x : y, low = x > y ? y : x;                   \
                                                                               \
		return high == low ? high + (T)0.69314718055994530942          \
				   : high + log1p##f(exp##f(low - high));      \
	}
FLOAT_DIVISION(f32, float, f)
FLOAT_DIVISION(f64, double, )

/* Divisors of 0 were looked for; but others may write one meanwhile, and no
 * program may die of that. */
#define INT_DIVISION(type, T, WIDE, is_signed)                                 \
	static inline T floor_div_##type(T x, T y)                             \
	{                                                                      \
		if (!y)                                                        \
			return 0;                                              \
		if (is_signed && y == (T)-1)                                   \
			return (T) - (WIDE)x;                                  \
		return (T)(x / y - (x % y != 0 && (x < 0) != (y < 0)));        \
	}                                                                      \
	static inline T remainder_##type(T x, T y)                             \
	{                                                                      \
		T r = !y || (is_signed && y == (T)-1) ? 0 : (T)(x % y);        \
                                                                               \
		return r != 0 && (r < 0) != (y < 0) ? (T)(r + y) : r;          \
	}                                                                      \
	static inline T fmod_##type(T x, T y)                                  \
	{                                                                      \
		return !y || (is_signed && y == (T)-1) ? 0 : (T)(x % y);       \
	}                                                                      \
	static inline T power_##type(T x, T y)                                 \
	{                                                                      \
		WIDE base = (WIDE)x, p = 1;                                    \
                                                                               \
		if (y < 0)                                                     \
			return x == 1       ? (T)1                             \
			       : x == (T)-1 ? (T)(y & 1 ? x : (T)1)            \
					    : (T)0;                            \
		for (; y; y = (T)(y >> 1), base *= base)                       \
			if (y & 1)                                             \
				p *= base;                                     \
		return (T)p;                                                   \
	}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits"
INT_DIVISION(u8, uint8_t, uint32_t, 0)
INT_DIVISION(i8, int8_t, uint32_t, 1)
INT_DIVISION(u16, uint16_t, uint32_t, 0)
INT_DIVISION(i16, int16_t, uint32_t, 1)
INT_DIVISION(u32, uint32_t, uint32_t, 0)
INT_DIVISION(i32, int32_t, uint32_t, 1)
INT_DIVISION(u64, uint64_t, uint64_t, 0)
INT_DIVISION(i64, int64_t, uint64_t, 1)

/* ---- the functions -------------------------------------------------------- */

#define UNARY(op, R, ...)                                                      \
	static void PASTE(op, TYPE)(size_t n, void *dst,                       \
		const void *const src[3], unsigned steady)                     \
	{                                                                      \
		const T *a = src[0];                                           \
		R *d = dst;                                                    \
                                                                               \
		EACH                                                           \
		{                                                              \
			T x = a[steady ? 0 : i];                               \
			d[i] = (R)(__VA_ARGS__);                               \
		}                                                              \
	}

#define MATH(op, ...)                                                          \
	static inline void PASTE(PASTE(span, op), TYPE)(T * d, const T *a)     \
	{                                                                      \
		_Pragma("GCC ivdep") for (size_t i = 0; i < SPAN; i++)         \
		{                                                              \
			T x = a[i];                                            \
			d[i] = (T)(__VA_ARGS__);                               \
		}                                                              \
	}                                                                      \
	static void PASTE(op, TYPE)(size_t n, void *dst,                       \
		const void *const src[3], unsigned steady)                     \
	{                                                                      \
		const T *a = src[0];                                           \
		T *d = dst, in[SPAN], some[SPAN];                              \
		size_t i = 0;                                                  \
                                                                               \
		for (; !steady && i + SPAN <= n; i += SPAN) {                  \
			for (size_t j = 0; j < SPAN; j += LINE / sizeof(T))    \
				__builtin_prefetch(a + i + j + AHEAD(T));      \
			PASTE(PASTE(span, op), TYPE)(d + i, a + i);            \
		}                                                              \
		for (; i < n; i += SPAN) {                                     \
			size_t m = n - i < SPAN ? n - i : SPAN;                \
                                                                               \
			for (size_t j = 0; j < SPAN; j++)                      \
				in[j] = a[steady ? 0 : i + (j < m ? j : 0)];   \
			PASTE(PASTE(span, op), TYPE)(some, in);                \
			memcpy(d + i, some, m * sizeof(T));                    \
		}                                                              \
	}

#define BINARY(op, R, ...)                                                     \
	static void PASTE(op, TYPE)(size_t n, void *dst,                       \
		const void *const src[3], unsigned steady)                     \
	{                                                                      \
		const T *a = src[0], *b = src[1];                              \
		R *d = dst;                                                    \
                                                                               \
		if (!steady)                                                   \
			EACH                                                   \
			{                                                      \
				T x = a[i], y = b[i];                          \
				d[i] = (R)(__VA_ARGS__);                       \
			}                                                      \
		else if (steady == 1) {                                        \
			T x = a[0];                                            \
			EACH                                                   \
			{                                                      \
				T y = b[i];                                    \
				d[i] = (R)(__VA_ARGS__);                       \
			}                                                      \
		} else if (steady == 2) {                                      \
			T y = b[0];                                            \
			EACH                                                   \
			{                                                      \
				T x = a[i];                                    \
				d[i] = (R)(__VA_ARGS__);                       \
			}                                                      \
		} else {                                                       \
			T x = a[0], y = b[0];                                  \
			R v = (R)(__VA_ARGS__);                                \
			EACH d[i] = v;                                         \
		}                                                              \
	}
/* A NaN is neither less nor more: it stays. */
#define CLAMP(...)                                                             \
	static void PASTE(clamp, TYPE)(size_t n, void *dst,                    \
		const void *const src[3], unsigned steady)                     \
	{                                                                      \
		const T *a = src[0], *b = src[1], *c = src[2];                 \
		T *d = dst;                                                    \
                                                                               \
		if (steady == 6) {                                             \
			T y = b[0], z = c[0];                                  \
			EACH                                                   \
			{                                                      \
				T x = a[i];                                    \
				d[i] = __VA_ARGS__;                            \
			}                                                      \
			return;                                                \
		}                                                              \
		EACH                                                           \
		{                                                              \
			T x = a[steady & 1 ? 0 : i];                           \
			T y = b[steady & 2 ? 0 : i];                           \
			T z = c[steady & 4 ? 0 : i];                           \
			d[i] = __VA_ARGS__;                                    \
		}                                                              \
	}

/* Four vectors of a cache line each, on every processor: enough to keep the
 * units of the widest ones busy, and the same sums on all. */
#define CHOOSE(mask, a, b)                                                     \
	((LINES)(((CHOICE)(a) & (mask)) | ((CHOICE)(b) & ~(mask))))
#define FOLD(op, one, many)                                                    \
	static void PASTE(fold_##op, TYPE)(                                    \
		size_t n, void *dst, const void *src)                          \
	{                                                                      \
		typedef T LINES __attribute__((vector_size(LINE)));            \
		typedef UNSIGNED WRAPS __attribute__((vector_size(LINE)));     \
		typedef __typeof__((LINES) {0} < (LINES) {0}) CHOICE;          \
		enum { LANES = LINE / sizeof(T) };                             \
		const T *a = src;                                              \
		LINES sum[4];                                                  \
		T lane[LANES], v = a[0];                                       \
		size_t i = 1;                                                  \
                                                                               \
		(void)sizeof(WRAPS);                                           \
		(void)sizeof(CHOICE);                                          \
		if (n >= 4 * LANES) {                                          \
			memcpy(sum, a, sizeof(sum));                           \
			for (i = 4 * LANES; i + 4 * LANES <= n;                \
				i += 4 * LANES)                                \
				for (int j = 0; j < 4; j++) {                  \
					LINES x = sum[j], y;                   \
                                                                               \
					__builtin_prefetch(                    \
						a + i + j * LANES + AHEAD(T)); \
					memcpy(&y, a + i + j * LANES, LINE);   \
					sum[j] = many;                         \
				}                                              \
			for (int j = 2; j; j /= 2)                             \
				for (int l = 0; l < j; l++) {                  \
					LINES x = sum[l], y = sum[l + j];      \
                                                                               \
					sum[l] = many;                         \
				}                                              \
			memcpy(lane, sum, sizeof(lane));                       \
			for (int half = LANES / 2; half; half /= 2)            \
				for (int l = 0; l < half; l++) {               \
					T x = lane[l], y = lane[l + half];     \
                                                                               \
					lane[l] = (T)(one);                    \
				}                                              \
			v = lane[0];                                           \
		}                                                              \
		for (; i < n; i++) {                                           \
			T x = v, y = a[i];                                     \
                                                                               \
			v = (T)(one);                                          \
		}                                                              \
		*(T *)dst = v;                                                 \
	}
#include "ops/kernels_types.h"
#pragma GCC diagnostic pop

/* Short floats are computed in F32: what follows one of them is as far as their
 * own digits are apart. step: of the bits of F32; least: the smallest number, and
 * the distance of those below normal; most: the largest finite one. */
static inline float next_short(
	float x, float y, uint32_t step, float least, float normal, float most)
{
	bool outwards = (y > x) == (x > 0);
	uint32_t bits;

	if (x != x || y != y)
		return x + y;
	if (x == y)
		return y;
	if (isinf(x))
		return copysignf(most, x);
	if (fabsf(x) < normal || (fabsf(x) == normal && !outwards && x != 0))
		return copysignf(x + (y > x ? least : -least), x != 0 ? x : y);
	memcpy(&bits, &x, sizeof(bits));
	bits = outwards ? bits + step : bits - step;
	memcpy(&x, &bits, sizeof(bits));
	return fabsf(x) > most ? copysignf(INFINITY, x) : x;
}

#define T float
#define TYPE f16
BINARY(NEXT_AFTER, T,
	next_short(x, y, 1u << 13, 0x1p-24f, 0x1p-14f, 0x1.ffcp15f))
#undef TYPE
#define TYPE bf16
BINARY(NEXT_AFTER, T,
	next_short(x, y, 1u << 16, 0x1p-133f, 0x1p-126f, 0x1.fep127f))
#undef TYPE
#undef T
#undef UNARY
#undef MATH
#undef BINARY
#undef CLAMP
#undef FOLD

#define WHERE(name, T)                                                         \
	static void name(size_t n, void *dst, const void *const src[3],        \
		unsigned steady)                                               \
	{                                                                      \
		const uint8_t *c = src[0];                                     \
		const T *a = src[1], *b = src[2];                              \
		T *d = dst;                                                    \
                                                                               \
		if (!steady)                                                   \
			EACH d[i] = c[i] ? a[i] : b[i];                        \
		else                                                           \
			EACH d[i] = c[steady & 1 ? 0 : i]                      \
					    ? a[steady & 2 ? 0 : i]            \
					    : b[steady & 4 ? 0 : i];           \
	}
WHERE(where_1, uint8_t)
WHERE(where_2, uint16_t)
WHERE(where_4, uint32_t)
WHERE(where_8, uint64_t)

/* Strides that are known become shuffles of whole vectors. */
#define PICK(name, T)                                                          \
	static void name(                                                      \
		size_t n, void *dst, const void *src, ptrdiff_t stride)        \
	{                                                                      \
		const T *a = src;                                              \
		T *d = dst;                                                    \
                                                                               \
		if (stride == 2)                                               \
			EACH d[i] = a[2 * i];                                  \
		else if (stride == 3)                                          \
			EACH d[i] = a[3 * i];                                  \
		else if (stride == 4)                                          \
			EACH d[i] = a[4 * i];                                  \
		else if (stride == -1)                                         \
			EACH d[i] = *(a - i);                                  \
		else                                                           \
			EACH d[i] = a[(ptrdiff_t)i * stride];                  \
	}
PICK(pick_1, uint8_t)
PICK(pick_2, uint16_t)
PICK(pick_4, uint32_t)
PICK(pick_8, uint64_t)

/* ---- rows ----------------------------------------------------------------- */

#define TYPE f32
#define T float
#define M(name) name##f
#include "ops/kernels_rows.h"
#undef TYPE
#undef T
#undef M
#define TYPE f64
#define T double
#define M(name) name
#include "ops/kernels_rows.h"
#undef TYPE
#undef T
#undef M

#include "ops/kernels_dots.h"
#include "ops/kernels_random.h"

/* Signed ones wrap around as unsigned ones do. */
static void cumulative_sum_int(
	size_t n, void *dst, const void *src, const struct row_args *args)
{
	const uint64_t *a = src;
	uint64_t *d = dst, sum = 0;

	(void)args;
	for (size_t i = 0; i < n; i++)
		d[i] = sum += a[i];
}

static void cumulative_product_int(
	size_t n, void *dst, const void *src, const struct row_args *args)
{
	const uint64_t *a = src;
	uint64_t *d = dst, product = 1;

	(void)args;
	for (size_t i = 0; i < n; i++)
		d[i] = product *= a[i];
}

/* ---- the table ------------------------------------------------------------ */

#define UNARY(op, R, ...) .unary[PLACE][TARN_##op] = PASTE(op, TYPE),
#define MATH(op, ...) .unary[PLACE][TARN_##op] = PASTE(op, TYPE),
#define BINARY(op, R, ...) .binary[PLACE][TARN_##op] = PASTE(op, TYPE),
#define CLAMP(...) .clamp[PLACE] = PASTE(clamp, TYPE),
#define FOLD(op, ...) .fold[PLACE][FOLD_##op] = PASTE(fold_##op, TYPE),
#define ROWS_OF(type)                                                          \
	{                                                                      \
		softmax_##type, log_softmax_##type, cumulative_sum_##type,     \
			cumulative_product_##type, layer_norm_##type,          \
			rms_norm_##type                                        \
	}
#define ROWS_OF_INT                                                            \
	{                                                                      \
		[ROW_CUMULATIVE_SUM] = cumulative_sum_int,                     \
		[ROW_CUMULATIVE_PRODUCT] = cumulative_product_int              \
	}
#define CHUNKS_OF(type)                                                        \
	{                                                                      \
		moments_##type, powers_##type, exps_##type                     \
	}
#define NAME_(x) #x
#define NAME(x) NAME_(x)

const struct kernels PASTE(kernels, VARIANT) = {
	.name = NAME(VARIANT),
#include "ops/kernels_types.h"
	.next_after = {NEXT_AFTER_f16, NEXT_AFTER_bf16},
	.dots = dots,
	.pick = {pick_1, pick_2, pick_4, pick_8},
	.row = {[TYPE_I64] = ROWS_OF_INT,
		[TYPE_U64] = ROWS_OF_INT,
		[TYPE_F32] = ROWS_OF(f32),
		[TYPE_F64] = ROWS_OF(f64)},
	.chunk = {[TYPE_F32] = CHUNKS_OF(f32), [TYPE_F64] = CHUNKS_OF(f64)},
	.exp_less = {exp_less_f32, exp_less_f64},
	.random_words = philox,
	.random = {{uniform_f32, uniform_f64}, {normal_f32, normal_f64}},
	.where = {where_1, where_2, where_4, where_8},
};
