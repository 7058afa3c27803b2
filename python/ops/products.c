// SPDX-License-Identifier: MIT
/* Products: matrices, layers, attention, windows that move. */
#include "python/ops/products.h"

#include "python/ops/methods.h"

/* n tensors, of which those behind the first wanted ones may be missing, or None:
 * NULL. 0 or -1. */
static int open_tensors(const char *name, PyObject *const *objects, int n,
	int wanted, PyObject **ret)
{
	for (int i = 0; i < n; i++)
		ret[i] = NULL;
	for (int i = 0; i < n; i++) {
		if (i >= wanted && (!objects[i] || objects[i] == Py_None))
			continue;
		ret[i] = tensor_argument(name, objects[i]);
		if (!ret[i])
			return -1;
	}
	return 0;
}

static void drop_tensors(PyObject **objects, int n)
{
	for (int i = 0; i < n; i++)
		Py_XDECREF(objects[i]);
}

static const tarn_tensor *or_null(PyObject *object)
{
	return object ? tensor_of(object) : NULL;
}

/* Of the first two operands that with more elements: a vector's product with a
 * large matrix is long. */
static const tarn_tensor *larger(PyObject *const *t)
{
	const tarn_tensor *a = tensor_of(t[0]), *b = tensor_of(t[1]);

	return tarn_layout_numel(tarn_tensor_layout(a)) <
			       tarn_layout_numel(tarn_tensor_layout(b))
		       ? b
		       : a;
}

static int size_argument(
	const char *name, PyObject *object, int64_t ret[2], int64_t otherwise)
{
	int64_t given[TARN_NDIM_MAX];
	int n = object ? lent->shape_argument(name, object, given) : 0;

	if (n < 0)
		return -1;
	if (n > 2) {
		PyErr_Format(PyExc_ValueError, "%s: one or two numbers, not %d",
			name, n);
		return -1;
	}
	ret[0] = n > 0 ? given[0] : otherwise;
	ret[1] = n > 1 ? given[1] : ret[0];
	return 0;
}

static bool may_be_tensor(PyObject *object)
{
	return Py_TYPE(object) == lent->tensor_type || PyList_Check(object) ||
	       PyTuple_Check(object) ||
	       (!PyType_Check(object) && lent->shares_bytes(object));
}

/* ---- matrices ------------------------------------------------------------ */

PyObject *matmul_operator(PyObject *a, PyObject *b, PyObject *out)
{
	PyObject *const objects[2] = {a, b};
	PyObject *t[2], *result = NULL;
	tarn_tensor *to;
	int r;

	if (!may_be_tensor(a) || !may_be_tensor(b))
		Py_RETURN_NOTIMPLEMENTED;
	if (out_argument("matmul", out, &to) < 0)
		return NULL;
	if (open_tensors("matmul", objects, 2, 2, t) >= 0) {
		WITHOUT_GIL(larger(t),
			r = tarn_matmul(tensor_of(t[0]), tensor_of(t[1]), &to));
		result = result_object("matmul", r, out, to);
	}
	drop_tensors(t, 2);
	return result;
}

static PyObject *matmul_core(const char *name, int op, PyObject *x,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"y", "out", NULL};
	PyObject *given[2], *result;

	if (lent->named_arguments(
		    name, names, 1, args, n_args, keywords, given) < 0)
		return NULL;
	result = matmul_operator(x, given[0], given[1]);
	if (result != Py_NotImplemented)
		return result;
	Py_DECREF(result);
	PyErr_Format(PyExc_TypeError,
		"matmul: tensors or arrays are wanted, not %R and %R", x,
		given[0]);
	return NULL;
}

static PyObject *linear_core(const char *name, int op, PyObject *x,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"weight", "bias", "out", NULL};
	PyObject *given[3], *t[3], *result = NULL;
	tarn_tensor *to;
	int r;

	if (lent->named_arguments(
		    name, names, 1, args, n_args, keywords, given) < 0 ||
		out_argument(name, given[2], &to) < 0)
		return NULL;
	if (open_tensors(name, (PyObject *[]) {x, given[0], given[1]}, 3, 2,
		    t) >= 0) {
		WITHOUT_GIL(larger(t),
			r = tarn_linear(tensor_of(t[0]), tensor_of(t[1]),
				or_null(t[2]), &to));
		result = result_object(name, r, given[2], to);
	}
	drop_tensors(t, 3);
	return result;
}

/* ---- attention ------------------------------------------------------------ */

static int attention_options(const char *name, PyObject *const *given,
	struct tarn_attention_options *ret)
{
	bool causal, grouped;

	*ret = (struct tarn_attention_options) {0};
	if (lent->optional_flag(given[3], &causal) < 0 ||
		(given[4] && given[4] != Py_None &&
			lent->real_argument(name, given[4], &ret->scale) < 0) ||
		lent->optional_flag(given[5], &grouped) < 0)
		return -1;
	ret->flags =
		(given[4] && given[4] != Py_None ? TARN_ATTENTION_SCALED : 0) |
		(causal ? TARN_ATTENTION_CAUSAL : 0) |
		(grouped ? TARN_ATTENTION_GROUPED : 0);
	return 0;
}

static PyObject *attention_core(const char *name, int op, PyObject *q,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"key", "value", "attn_mask",
		"is_causal", "scale", "enable_gqa", "out", NULL};
	struct tarn_attention_options options;
	PyObject *given[7], *t[4], *result = NULL;
	tarn_tensor *to;
	int r;

	if (lent->named_arguments(
		    name, names, 2, args, n_args, keywords, given) < 0 ||
		attention_options(name, given, &options) < 0 ||
		out_argument(name, given[6], &to) < 0)
		return NULL;
	if (open_tensors(name, (PyObject *[]) {q, given[0], given[1], given[2]},
		    4, 3, t) >= 0) {
		options.mask = or_null(t[3]);
		WITHOUT_GIL(larger(t),
			r = tarn_attention(tensor_of(t[0]), tensor_of(t[1]),
				tensor_of(t[2]), &options, &to));
		result = result_object(name, r, given[6], to);
	}
	drop_tensors(t, 4);
	return result;
}

/* ---- windows -------------------------------------------------------------- */

static PyObject *conv_core(const char *name, int op, PyObject *x,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"weight", "bias", "stride",
		"padding", "dilation", "groups", "out", NULL};
	struct tarn_conv_options options = {.groups = 1};
	PyObject *given[7], *t[3], *result = NULL;
	tarn_tensor *to;
	int r;

	if (lent->named_arguments(
		    name, names, 1, args, n_args, keywords, given) < 0 ||
		size_argument(name, given[2], options.stride, 1) < 0 ||
		size_argument(name, given[3], options.padding, 0) < 0 ||
		size_argument(name, given[4], options.dilation, 1) < 0 ||
		(given[5] &&
			lent->int_argument(given[5], &options.groups) < 0) ||
		out_argument(name, given[6], &to) < 0)
		return NULL;
	if (open_tensors(name, (PyObject *[]) {x, given[0], given[1]}, 3, 2,
		    t) >= 0) {
		if (tarn_tensor_layout(tensor_of(t[0]))->ndim == 3)
			options.stride[1] = options.padding[1] =
				options.dilation[1] = 0;
		WITHOUT_GIL(larger(t),
			r = tarn_conv(tensor_of(t[0]), tensor_of(t[1]),
				or_null(t[2]), &options, &to));
		result = result_object(name, r, given[6], to);
	}
	drop_tensors(t, 3);
	return result;
}

static PyObject *pool_core(const char *name, int op, PyObject *x,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[2][8] = {
		{"kernel_size", "stride", "padding", "dilation", "ceil_mode",
			"out", NULL},
		{"kernel_size", "stride", "padding", "ceil_mode",
			"count_include_pad", "out", NULL}};
	struct tarn_pool_options options = {0};
	bool mean = op == TARN_POOL_MEAN, ceil, include = true;
	PyObject *given[6], *t, *result;
	tarn_tensor *to;
	int r;

	if (lent->named_arguments(
		    name, names[mean], 1, args, n_args, keywords, given) < 0 ||
		size_argument(name, given[0], options.kernel, 0) < 0 ||
		size_argument(name, given[1] == Py_None ? NULL : given[1],
			options.stride, 0) < 0 ||
		size_argument(name, given[2], options.padding, 0) < 0 ||
		(!mean && size_argument(name, given[3], options.dilation, 1) <
				  0) ||
		lent->optional_flag(given[mean ? 3 : 4], &ceil) < 0 ||
		(mean && given[4] &&
			lent->optional_flag(given[4], &include) < 0) ||
		out_argument(name, given[5], &to) < 0)
		return NULL;
	options.flags = (ceil ? TARN_POOL_CEIL : 0) |
			(include ? 0 : TARN_POOL_NOT_PADDING);
	t = tensor_argument(name, x);
	if (!t)
		return NULL;
	if (tarn_tensor_layout(tensor_of(t))->ndim == 3)
		options.kernel[1] = options.stride[1] = options.padding[1] =
			options.dilation[1] = 0;
	WITHOUT_GIL(tensor_of(t), r = tarn_pool((enum tarn_pool_kind)op,
					  tensor_of(t), &options, &to));
	result = result_object(name, r, given[5], to);
	Py_DECREF(t);
	return result;
}

/* ---- tables ------------------------------------------------------------------ */

FUNCTION_AND_METHOD(matmul_core, matmul, 0)
FUNCTION_AND_METHOD(linear_core, linear, 0)
FUNCTION_AND_METHOD(attention_core, attention, 0)
FUNCTION_AND_METHOD(conv_core, conv, 0)
FUNCTION_AND_METHOD(pool_core, max_pool, TARN_POOL_MAX)
FUNCTION_AND_METHOD(pool_core, avg_pool, TARN_POOL_MEAN)

#define PRODUCTS(X, first)                                                     \
	X(matmul, "matmul(" first ", /, y, out=None)\n--\n\nx @ y, as "        \
		  "PyTorch's.")                                                \
	X(linear, "linear(" first ", /, weight, bias=None, out=None)\n--\n\n"  \
		  "x @ weight.T + bias.")                                      \
	X(attention,                                                           \
		"attention(" first ", /, key, value, attn_mask=None, "         \
		"is_causal=False, scale=None, enable_gqa=False, out=None)"     \
		"\n--\n\nPyTorch's scaled_dot_product_attention, of this as "  \
		"the query.")                                                  \
	X(conv, "conv(" first ", /, weight, bias=None, stride=1, padding=0, "  \
		"dilation=1, groups=1, out=None)\n--\n\nPyTorch's conv1d or "  \
		"conv2d, by the number of dimensions.")                        \
	X(max_pool, "max_pool(" first ", /, kernel_size, stride=None, "        \
		    "padding=0, dilation=1, ceil_mode=False, out=None)\n--\n"  \
		    "\nThe largest of each window.")                           \
	X(avg_pool, "avg_pool(" first ", /, kernel_size, stride=None, "        \
		    "padding=0, ceil_mode=False, count_include_pad=True, "     \
		    "out=None)\n--\n\nThe mean of each window.")

PyMethodDef product_functions[] = {PRODUCTS(FUNCTION_ENTRY, "x") {0}};
PyMethodDef product_methods[] = {PRODUCTS(METHOD_ENTRY, "$self") {0}};
