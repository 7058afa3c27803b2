/* SPDX-License-Identifier: MIT */
/*
 * The operations on one type, a line each. Included once for each type, by
 * kernels_all.h, with
 *
 *	TYPE    its name
 *	T       itself, and UNSIGNED: what wraps around in vectors of it
 *	WIDE    for integers: unsigned, and no shorter than int, so that what
 *		wraps around is defined
 *	IS_BOOL, IS_INT, IS_SIGNED, IS_FLOAT
 *	M(f)    for floats: the function f of <math.h> for it
 *
 * x and y are the operands. The loops are the compiler's to turn into vectors;
 * it may assume that no iteration depends on another, also where dst is a
 * source.
 */

/* Functions whose vectors and single values differ in the last bit: all
 * elements go by the vectors, so that an element does not depend on where its
 * run ends. */
#if IS_FLOAT
MATH(SQRT, M(sqrt)(x))
MATH(RSQRT, 1 / M(sqrt)(x))
MATH(RECIPROCAL, 1 / x)
MATH(EXP, M(exp)(x))
MATH(EXP2, M(exp2)(x))
MATH(EXPM1, M(expm1)(x))
MATH(LOG, M(log)(x))
MATH(LOG2, M(log2)(x))
MATH(LOG10, M(log10)(x))
MATH(LOG1P, M(log1p)(x))
MATH(SIN, M(sin)(x))
MATH(COS, M(cos)(x))
MATH(TAN, M(tan)(x))
MATH(ASIN, M(asin)(x))
MATH(ACOS, M(acos)(x))
MATH(ATAN, M(atan)(x))
MATH(SINH, M(sinh)(x))
MATH(COSH, M(cosh)(x))
MATH(TANH, M(tanh)(x))
MATH(ASINH, M(asinh)(x))
MATH(ACOSH, M(acosh)(x))
MATH(ATANH, M(atanh)(x))
MATH(ERF, M(erf)(x))
MATH(SIGMOID, 1 / (1 + M(exp)(-x)))
MATH(GELU, x *(T)0.5 * (1 + M(erf)(x * (T)0.70710678118654752440)))
MATH(GELU_TANH, x *(T)0.5 * (1 + M(tanh)((T)0.79788456080286535588 *
					 (x + (T)0.044715 * x * x * x))))
MATH(SILU, x / (1 + M(exp)(-x)))
UNARY(FLOOR, T, M(floor)(x))
UNARY(CEIL, T, M(ceil)(x))
UNARY(TRUNC, T, M(trunc)(x))
UNARY(ROUND, T, M(rint)(x))
UNARY(NEG, T, -x)
UNARY(ABS, T, M(fabs)(x))
UNARY(SIGN, T, x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x) /* NaN stays */
UNARY(SQUARE, T, x *x)
UNARY(RELU, T, x < 0 ? 0 : x)
UNARY(IS_NAN, uint8_t, x != x)
UNARY(IS_INF, uint8_t, M(fabs)(x) > LARGEST)
UNARY(IS_FINITE, uint8_t, M(fabs)(x) <= LARGEST)
UNARY(SIGN_BIT, uint8_t, __builtin_signbit(x) != 0)
BINARY(ADD, T, x + y)
BINARY(SUB, T, x - y)
BINARY(MUL, T, x *y)
BINARY(DIV, T, x / y)
BINARY(MIN, T, x < y || x != x ? x : y)
BINARY(MAX, T, x > y || x != x ? x : y)
BINARY(FLOOR_DIV, T, PASTE(floor_div, TYPE)(x, y))
BINARY(REMAINDER, T, PASTE(remainder, TYPE)(x, y))
BINARY(FMOD, T, M(fmod)(x, y))
BINARY(POW, T, M(pow)(x, y))
BINARY(ATAN2, T, M(atan2)(x, y))
BINARY(HYPOT, T, M(hypot)(x, y))
BINARY(COPY_SIGN, T, M(copysign)(x, y))
BINARY(NEXT_AFTER, T, M(nextafter)(x, y))
BINARY(LOG_ADD_EXP, T, PASTE(log_add_exp, TYPE)(x, y))
#elif IS_BOOL
UNARY(ABS, T, x)
UNARY(SIGN, T, x)
UNARY(SQUARE, T, x)
UNARY(RELU, T, x)
UNARY(FLOOR, T, x)
UNARY(CEIL, T, x)
UNARY(TRUNC, T, x)
UNARY(ROUND, T, x)
UNARY(BIT_NOT, T, !x)
BINARY(ADD, T, x | y)
BINARY(MUL, T, x &y)
BINARY(MIN, T, x &y)
BINARY(MAX, T, x | y)
BINARY(POW, T, x | !y)
#else
#if IS_SIGNED
UNARY(ABS, T, x < 0 ? -(WIDE)x : (WIDE)x)
UNARY(SIGN, T, (x > 0) - (x < 0))
UNARY(RELU, T, x < 0 ? 0 : x)
UNARY(SIGN_BIT, uint8_t, x < 0)
#else
UNARY(ABS, T, x)
UNARY(SIGN, T, x != 0)
UNARY(RELU, T, x)
UNARY(SIGN_BIT, uint8_t, x && false)
#endif
UNARY(NEG, T, -(WIDE)x)
UNARY(SQUARE, T, (WIDE)x *(WIDE)x)
UNARY(FLOOR, T, x)
UNARY(CEIL, T, x)
UNARY(TRUNC, T, x)
UNARY(ROUND, T, x)
UNARY(BIT_NOT, T, ~(WIDE)x)
BINARY(ADD, T, (WIDE)x + (WIDE)y)
BINARY(SUB, T, (WIDE)x - (WIDE)y)
BINARY(MUL, T, (WIDE)x *(WIDE)y)
BINARY(MIN, T, x < y ? x : y)
BINARY(MAX, T, x > y ? x : y)
BINARY(FLOOR_DIV, T, PASTE(floor_div, TYPE)(x, y))
BINARY(REMAINDER, T, PASTE(remainder, TYPE)(x, y))
BINARY(FMOD, T, PASTE(fmod, TYPE)(x, y))
BINARY(POW, T, PASTE(power, TYPE)(x, y))
BINARY(SHIFT_LEFT, T, (WIDE)y < BITS ? (WIDE)x << (WIDE)y : 0)
BINARY(SHIFT_RIGHT, T, x >> ((WIDE)y < BITS ? (WIDE)y : BITS - 1) SHIFTED_OUT)
#endif
#if !IS_FLOAT
BINARY(BIT_AND, T, x &y)
BINARY(BIT_OR, T, x | y)
BINARY(BIT_XOR, T, x ^ y)
UNARY(IS_NAN, uint8_t, x && false)
UNARY(IS_INF, uint8_t, x && false)
UNARY(IS_FINITE, uint8_t, x || true)
#endif
/* The upper bound wins over the lower one, and NaN over both. */
#if IS_FLOAT
CLAMP(x != x ? x : z != z || y > z ? z : y != y || x < y ? y : x > z ? z : x)
#else
CLAMP(y > z ? z : x < y ? y : x > z ? z : x)
#endif
#if IS_FLOAT
FOLD(ADD, x + y, x + y)
FOLD(MUL, x *y, x *y)
#elif IS_BOOL
FOLD(ADD, x | y, x | y)
FOLD(MUL, x &y, x &y)
#else
FOLD(ADD, (WIDE)x + (WIDE)y, (LINES)((WRAPS)x + (WRAPS)y))
FOLD(MUL, (WIDE)x *(WIDE)y, (LINES)((WRAPS)x *(WRAPS)y))
#endif
FOLD(MIN, x < y || x != x ? x : y, CHOOSE((x < y) | (x != x), x, y))
FOLD(MAX, x > y || x != x ? x : y, CHOOSE((x > y) | (x != x), x, y))
UNARY(NOT, uint8_t, x == 0)
BINARY(EQ, uint8_t, x == y)
BINARY(NE, uint8_t, x != y)
BINARY(LT, uint8_t, x < y)
BINARY(LE, uint8_t, x <= y)
BINARY(GT, uint8_t, x > y)
BINARY(GE, uint8_t, x >= y)
BINARY(AND, uint8_t, (x != 0) & (y != 0))
BINARY(OR, uint8_t, (x != 0) | (y != 0))
BINARY(XOR, uint8_t, (x != 0) ^ (y != 0))
