// SPDX-License-Identifier: MIT
/* Operations from element to element, and the operators of Tensor. */
#include <errno.h>

#include "python/ops/methods.h"
#include "python/ops/products.h"

/* ---- one operand ------------------------------------------------------------ */

static PyObject *unary(
	const char *name, int op, PyObject *object, PyObject *out)
{
	PyObject *x = tensor_argument(name, object), *result;
	tarn_tensor *to;
	int r;

	if (!x || out_argument(name, out, &to) < 0) {
		Py_XDECREF(x);
		return NULL;
	}
	WITHOUT_GIL(tensor_of(x),
		r = tarn_unary((enum tarn_unary_op)op, tensor_of(x), &to));
	result = result_object(name, r, out, to);
	Py_DECREF(x);
	return result;
}

PyObject *unary_operator(int op, PyObject *a)
{
	return unary("", op, a, NULL);
}

static PyObject *unary_core(const char *name, int op, PyObject *x,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"out", NULL};
	PyObject *out = NULL;

	if ((n_args || keywords) && lent->named_arguments(name, names, 0, args,
					    n_args, keywords, &out) < 0)
		return NULL;
	return unary(name, op, x, out);
}

#define UNARY(X)                                                               \
	X(neg, TARN_NEG, "-x.")                                                \
	X(abs, TARN_ABS, "The magnitude.")                                     \
	X(sign, TARN_SIGN, "-1, 0 or 1.")                                      \
	X(square, TARN_SQUARE, "x * x.")                                       \
	X(relu, TARN_RELU, "max(x, 0).")                                       \
	X(floor, TARN_FLOOR, "Rounded down.")                                  \
	X(ceil, TARN_CEIL, "Rounded up.")                                      \
	X(trunc, TARN_TRUNC, "Rounded towards 0.")                             \
	X(round, TARN_ROUND, "Rounded to the nearest, halves to even.")        \
	X(sqrt, TARN_SQRT, "The square root.")                                 \
	X(rsqrt, TARN_RSQRT, "1 / sqrt(x).")                                   \
	X(reciprocal, TARN_RECIPROCAL, "1 / x.")                               \
	X(exp, TARN_EXP, "e to the power of x.")                               \
	X(exp2, TARN_EXP2, "2 to the power of x.")                             \
	X(expm1, TARN_EXPM1, "exp(x) - 1, exact near 0.")                      \
	X(log, TARN_LOG, "The natural logarithm.")                             \
	X(log2, TARN_LOG2, "The logarithm to base 2.")                         \
	X(log10, TARN_LOG10, "The logarithm to base 10.")                      \
	X(log1p, TARN_LOG1P, "log(1 + x), exact near 0.")                      \
	X(sin, TARN_SIN, "The sine.")                                          \
	X(cos, TARN_COS, "The cosine.")                                        \
	X(tan, TARN_TAN, "The tangent.")                                       \
	X(asin, TARN_ASIN, "The inverse of the sine.")                         \
	X(acos, TARN_ACOS, "The inverse of the cosine.")                       \
	X(atan, TARN_ATAN, "The inverse of the tangent.")                      \
	X(sinh, TARN_SINH, "The hyperbolic sine.")                             \
	X(cosh, TARN_COSH, "The hyperbolic cosine.")                           \
	X(tanh, TARN_TANH, "The hyperbolic tangent.")                          \
	X(asinh, TARN_ASINH, "The inverse of the hyperbolic sine.")            \
	X(acosh, TARN_ACOSH, "The inverse of the hyperbolic cosine.")          \
	X(atanh, TARN_ATANH, "The inverse of the hyperbolic tangent.")         \
	X(erf, TARN_ERF, "The error function.")                                \
	X(sigmoid, TARN_SIGMOID, "1 / (1 + exp(-x)).")                         \
	X(gelu, TARN_GELU, "x * (1 + erf(x / sqrt(2))) / 2.")                  \
	X(gelu_tanh, TARN_GELU_TANH, "gelu's approximation by tanh.")          \
	X(silu, TARN_SILU, "x * sigmoid(x).")                                  \
	X(bitwise_not, TARN_BIT_NOT, "~x; of BOOL the other one.")             \
	X(logical_not, TARN_NOT, "BOOL: is it 0?")                             \
	X(isnan, TARN_IS_NAN, "BOOL: is it NaN?")                              \
	X(isinf, TARN_IS_INF, "BOOL: is it infinite?")                         \
	X(isfinite, TARN_IS_FINITE, "BOOL: is it neither infinite nor NaN?")   \
	X(signbit, TARN_SIGN_BIT, "BOOL: is the sign bit set?")

#define DEFINE(name, op, text) FUNCTION_AND_METHOD(unary_core, name, op)
UNARY(DEFINE)
#undef DEFINE

PyMethodDef unary_functions[] = {
#define ENTRY(name, op, text)                                                  \
	FUNCTION_ENTRY(name, #name "(x, /, out=None)\n--\n\n" text)
	UNARY(ENTRY)
#undef ENTRY
		{0}};
PyMethodDef unary_methods[] = {
#define ENTRY(name, op, text)                                                  \
	METHOD_ENTRY(name, #name "($self, /, out=None)\n--\n\n" text)
	UNARY(ENTRY)
#undef ENTRY
		{0}};

/* ---- two operands ------------------------------------------------------------ */

static PyObject *compute_binary(const char *name, int op,
	const struct operand *a, const struct operand *b, PyObject *out)
{
	const tarn_tensor *some = a->operand.tensor ?: b->operand.tensor;
	const tarn_tensor *other = b->operand.tensor;
	tarn_tensor *to;
	int r;

	if (out_argument(name, out, &to) < 0)
		return NULL;
	if (!some)
		r = tarn_binary(
			(enum tarn_binary_op)op, a->operand, b->operand, &to);
	else
		WITHOUT_GIL(other && is_long(other) ? other : some,
			r = tarn_binary((enum tarn_binary_op)op, a->operand,
				b->operand, &to));
	return result_object(name, r, out, to);
}

/* Py_NotImplemented where one is no operand. */
static PyObject *binary(
	const char *name, int op, PyObject *a, PyObject *b, PyObject *out)
{
	struct operand x, y;
	PyObject *result = NULL;
	int r = operand_from(a, &x);

	if (r <= 0) {
		if (r < 0)
			return NULL;
		Py_RETURN_NOTIMPLEMENTED;
	}
	r = operand_from(b, &y);
	if (r > 0)
		result = compute_binary(name, op, &x, &y, out);
	operand_drop(&x);
	operand_drop(&y);
	if (r != 0)
		return result;
	Py_RETURN_NOTIMPLEMENTED;
}

PyObject *binary_operator(int op, PyObject *a, PyObject *b, PyObject *out)
{
	if (op == OPERATOR_MATMUL)
		return matmul_operator(a, b, out);
	return binary("", op, a, b, out);
}

static PyObject *binary_core(const char *name, int op, PyObject *x,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"y", "out", NULL};
	PyObject *given[2], *result;

	if (lent->named_arguments(
		    name, names, 1, args, n_args, keywords, given) < 0)
		return NULL;
	result = binary(name, op, x, given[0], given[1]);
	if (result != Py_NotImplemented)
		return result;
	Py_DECREF(result);
	PyErr_Format(PyExc_TypeError,
		"%s: tensors, arrays or numbers are wanted, not %R and %R",
		name, x, given[0]);
	return NULL;
}

#define BINARY(X)                                                              \
	X(add, TARN_ADD, "x + y.")                                             \
	X(sub, TARN_SUB, "x - y.")                                             \
	X(mul, TARN_MUL, "x * y.")                                             \
	X(div, TARN_DIV, "x / y, in floats.")                                  \
	X(floor_divide, TARN_FLOOR_DIV, "x // y: rounded down.")               \
	X(remainder, TARN_REMAINDER, "x % y, with the sign of y.")             \
	X(fmod, TARN_FMOD, "The remainder with the sign of x.")                \
	X(pow, TARN_POW, "x ** y.")                                            \
	X(minimum, TARN_MIN, "The smaller one; NaN if one is NaN.")            \
	X(maximum, TARN_MAX, "The larger one; NaN if one is NaN.")             \
	X(atan2, TARN_ATAN2, "The angle of the point (y, x).")                 \
	X(hypot, TARN_HYPOT, "sqrt(x * x + y * y).")                           \
	X(copysign, TARN_COPY_SIGN, "x with the sign of y.")                   \
	X(nextafter, TARN_NEXT_AFTER, "The next number after x towards y.")    \
	X(logaddexp, TARN_LOG_ADD_EXP, "log(exp(x) + exp(y)).")                \
	X(bitwise_and, TARN_BIT_AND, "x & y.")                                 \
	X(bitwise_or, TARN_BIT_OR, "x | y.")                                   \
	X(bitwise_xor, TARN_BIT_XOR, "x ^ y.")                                 \
	X(bitwise_left_shift, TARN_SHIFT_LEFT, "x << y.")                      \
	X(bitwise_right_shift, TARN_SHIFT_RIGHT, "x >> y.")                    \
	X(eq, TARN_EQ, "BOOL: x == y.")                                        \
	X(ne, TARN_NE, "BOOL: x != y.")                                        \
	X(lt, TARN_LT, "BOOL: x < y.")                                         \
	X(le, TARN_LE, "BOOL: x <= y.")                                        \
	X(gt, TARN_GT, "BOOL: x > y.")                                         \
	X(ge, TARN_GE, "BOOL: x >= y.")                                        \
	X(logical_and, TARN_AND, "BOOL: both are not 0.")                      \
	X(logical_or, TARN_OR, "BOOL: one is not 0.")                          \
	X(logical_xor, TARN_XOR, "BOOL: one is not 0, and the other is.")

#define DEFINE(name, op, text) FUNCTION_AND_METHOD(binary_core, name, op)
BINARY(DEFINE)
#undef DEFINE

PyMethodDef binary_functions[] = {
#define ENTRY(name, op, text)                                                  \
	FUNCTION_ENTRY(name, #name "(x, /, y, out=None)\n--\n\n" text)
	BINARY(ENTRY)
#undef ENTRY
		{0}};
PyMethodDef binary_methods[] = {
#define ENTRY(name, op, text)                                                  \
	METHOD_ENTRY(name, #name "($self, /, y, out=None)\n--\n\n" text)
	BINARY(ENTRY)
#undef ENTRY
		{0}};

/* ---- three operands ------------------------------------------------------------ */

/* n operands; those that are missing or None stay away where some may. 0 or
 * -1. */
static int open_operands(const char *name, PyObject *const *objects, int n,
	bool may_miss, struct operand *ret)
{
	int r = 1;

	for (int i = 0; i < n; i++)
		ret[i] = (struct operand) {0};
	for (int i = 0; i < n && r > 0; i++) {
		if (may_miss && (!objects[i] || objects[i] == Py_None))
			continue;
		r = operand_from(objects[i], &ret[i]);
		if (r == 0)
			PyErr_Format(PyExc_TypeError,
				"%s: a tensor, an array or a number is "
				"wanted, not %R",
				name, objects[i]);
	}
	return r > 0 ? 0 : -1;
}

static PyObject *where_core(const char *name, int op, PyObject *object,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"x", "y", "out", NULL};
	PyObject *given[3], *condition, *result = NULL;
	struct operand o[2];
	tarn_tensor *to;
	int r;

	if (lent->named_arguments(
		    name, names, 2, args, n_args, keywords, given) < 0 ||
		out_argument(name, given[2], &to) < 0)
		return NULL;
	condition = tensor_argument(name, object);
	if (!condition)
		return NULL;
	if (open_operands(name, given, 2, false, o) >= 0) {
		WITHOUT_GIL(tensor_of(condition),
			r = tarn_where(tensor_of(condition), o[0].operand,
				o[1].operand, &to));
		result = result_object(name, r, given[2], to);
	}
	operand_drop(&o[0]);
	operand_drop(&o[1]);
	Py_DECREF(condition);
	return result;
}

static PyObject *clamp_core(const char *name, int op, PyObject *object,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"min", "max", "out", NULL};
	PyObject *given[3], *x, *result = NULL;
	struct operand o[2];
	tarn_tensor *to;
	int r;

	if (lent->named_arguments(
		    name, names, 0, args, n_args, keywords, given) < 0 ||
		out_argument(name, given[2], &to) < 0)
		return NULL;
	x = tensor_argument(name, object);
	if (!x)
		return NULL;
	if (open_operands(name, given, 2, true, o) >= 0) {
		bool low = given[0] && given[0] != Py_None;
		bool high = given[1] && given[1] != Py_None;

		WITHOUT_GIL(tensor_of(x),
			r = tarn_clamp(tensor_of(x), low ? &o[0].operand : NULL,
				high ? &o[1].operand : NULL, &to));
		result = result_object(name, r, given[2], to);
	}
	operand_drop(&o[0]);
	operand_drop(&o[1]);
	Py_DECREF(x);
	return result;
}

FUNCTION_AND_METHOD(where_core, where, 0)
FUNCTION_AND_METHOD(clamp_core, clamp, 0)

PyMethodDef choice_functions[] = {FUNCTION_ENTRY(where,
	"where(condition, /, x, y, out=None)\n--\n\n"
	"x where the condition (BOOL) is true, else y.") FUNCTION_ENTRY(clamp,
	"clamp(x, /, min=None, max=None, out=None)\n"
	"--\n\nNo less than min and no more than max.") {0}};
PyMethodDef choice_methods[] = {METHOD_ENTRY(where,
	"where($self, /, x, y, out=None)\n--\n\n"
	"x where this (BOOL) is true, else y.") METHOD_ENTRY(clamp,
	"clamp($self, /, min=None, max=None, out=None)\n"
	"--\n\nNo less than min and no more than max.") {0}};
