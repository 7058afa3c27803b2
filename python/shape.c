// SPDX-License-Identifier: MIT
/*
 * Views of another shape: reshape, split, merge, expand, rearrange, bitcast.
 * Where strides forbid a view, some of them make a copy, as numpy and PyTorch
 * do (reshape, flatten, rearrange); the others refuse.
 */
#include "python/module.h"

#include <stdio.h>
#include <string.h>

/* Takes what reshape and its like return: 1 is a copy in C order, to which
 * layout belongs. */
static PyObject *view_or_copy(
	PyObject *self, int r, const struct tarn_layout *layout)
{
	tarn_tensor *copy, *view = NULL;

	if (r <= 0)
		return tensor_view(self, r, layout);
	copy = copy_as(tensor_of(self), layout->dtype);
	if (!copy)
		return NULL;
	r = tarn_tensor_with_layout(copy, layout, &view);
	tarn_tensor_unref(copy);
	return tensor_wrap_result(r, &view);
}

static PyObject *reshape(
	PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
	int64_t shape[TARN_NDIM_MAX];
	struct tarn_layout layout;
	int n = shape_arguments("reshape", args, n_args, shape);

	if (n < 0)
		return NULL;
	return view_or_copy(self,
		tarn_layout_reshape(layout_of(self), n, shape, &layout),
		&layout);
}

static PyObject *view(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
	int64_t shape[TARN_NDIM_MAX];
	struct tarn_layout layout;
	int n = shape_arguments("view", args, n_args, shape);

	if (n < 0)
		return NULL;
	return tensor_view(self,
		tarn_layout_view(layout_of(self), n, shape, &layout), &layout);
}

static PyObject *flatten(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"start_dim", "end_dim", NULL};
	struct tarn_layout layout;
	int64_t a[2] = {0, -1};

	if (named_numbers("flatten", names, 0, 3, args, n_args, keywords, a) <
		0)
		return NULL;
	return view_or_copy(self,
		tarn_layout_flatten(
			layout_of(self), (int)a[0], (int)a[1], &layout),
		&layout);
}

static PyObject *merge(PyObject *self, PyObject *const *args, Py_ssize_t n_args,
	PyObject *keywords)
{
	static const char *const names[] = {"first", "last", NULL};
	struct tarn_layout layout;
	int64_t a[2];

	if (named_numbers("merge", names, 2, 3, args, n_args, keywords, a) < 0)
		return NULL;
	return tensor_view(self,
		tarn_layout_merge(
			layout_of(self), (int)a[0], (int)a[1], &layout),
		&layout);
}

static PyObject *split(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
	int64_t sizes[TARN_NDIM_MAX];
	struct tarn_layout layout;
	int dim, n;

	if (n_args < 2) {
		PyErr_SetString(PyExc_TypeError,
			"split() takes a dimension and the sizes of its parts");
		return NULL;
	}
	if (dim_argument("split", args[0], &dim) < 0)
		return NULL;
	n = shape_arguments("split", args + 1, n_args - 1, sizes);
	if (n < 0)
		return NULL;
	return tensor_view(self,
		tarn_layout_split(layout_of(self), dim, n, sizes, &layout),
		&layout);
}

static PyObject *unsqueeze(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"dim", NULL};
	struct tarn_layout layout;
	int64_t dim;

	if (named_numbers(
		    "unsqueeze", names, 1, 1, args, n_args, keywords, &dim) < 0)
		return NULL;
	return tensor_view(self,
		tarn_layout_unsqueeze(layout_of(self), (int)dim, &layout),
		&layout);
}

static PyObject *squeeze(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"dim", NULL};
	struct tarn_layout layout;
	PyObject *given;
	int dim;

	if (named_arguments(
		    "squeeze", names, 0, args, n_args, keywords, &given) < 0)
		return NULL;
	if (!given || given == Py_None)
		return tensor_view(self,
			tarn_layout_squeeze(layout_of(self), &layout), &layout);
	if (dim_argument("squeeze", given, &dim) < 0)
		return NULL;
	return tensor_view(self,
		tarn_layout_squeeze_dim(layout_of(self), dim, &layout),
		&layout);
}

static PyObject *expand(
	PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
	int64_t shape[TARN_NDIM_MAX];
	struct tarn_layout layout;
	int n = shape_arguments("expand", args, n_args, shape);

	if (n < 0)
		return NULL;
	return tensor_view(self,
		tarn_layout_expand(layout_of(self), n, shape, &layout),
		&layout);
}

static PyObject *bitcast(PyObject *self, PyObject *object)
{
	struct tarn_layout layout;
	int dtype = dtype_argument(object);

	if (!dtype)
		return NULL;
	return tensor_view(self,
		tarn_layout_bitcast(layout_of(self), dtype, &layout), &layout);
}

/* ---- by text ------------------------------------------------------- */

static PyObject *eval_copy_text(PyObject *self, const char *text)
{
	tarn_tensor *result;
	int r;

	Py_BEGIN_ALLOW_THREADS
	r = tarn_tensor_eval_copy(tensor_of(self), text, &result);
	Py_END_ALLOW_THREADS
	return tensor_wrap_result(r, &result);
}

/* Appends ", h=2" to the text, and takes its reference over. */
static PyObject *add_size(PyObject *text, PyObject *name, PyObject *value)
{
	PyObject *longer;
	int64_t size;

	if (int_argument(value, &size) < 0) {
		Py_DECREF(text);
		return NULL;
	}
	longer = PyUnicode_FromFormat(
		"%U, %U=%lld", text, name, (long long)size);
	Py_DECREF(text);
	return longer;
}

static PyObject *rearrange(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	Py_ssize_t n = keywords ? PyTuple_Size(keywords) : 0;
	PyObject *text, *whole, *result = NULL;
	const char *expr;

	if (n_args != 1 || !PyUnicode_Check(args[0])) {
		PyErr_SetString(PyExc_TypeError, "rearrange() takes a pattern, "
						 "\"b h w -> b (h w)\", and "
						 "sizes by name");
		return NULL;
	}
	text = PyUnicode_FromFormat(".rearrange(\"%U\"", args[0]);
	for (Py_ssize_t i = 0; text && i < n; i++)
		text = add_size(
			text, PyTuple_GetItem(keywords, i), args[1 + i]);
	if (!text)
		return NULL;
	whole = PyUnicode_FromFormat("%U)", text);
	Py_DECREF(text);
	expr = whole ? PyUnicode_AsUTF8AndSize(whole, NULL) : NULL;
	if (expr)
		result = eval_copy_text(self, expr);
	Py_XDECREF(whole);
	return result;
}

/* NULL: TypeError. */
static const char *expression_argument(const char *name, PyObject *object)
{
	if (PyUnicode_Check(object))
		return PyUnicode_AsUTF8AndSize(object, NULL);
	PyErr_Format(PyExc_TypeError,
		"%s: an expression is wanted, \"[0:4]\", not %R", name, object);
	return NULL;
}

static PyObject *eval(PyObject *self, PyObject *object)
{
	const char *expr = expression_argument("eval", object);
	tarn_tensor *view;

	if (!expr)
		return NULL;
	return tensor_wrap_result(
		tarn_tensor_eval(tensor_of(self), expr, &view), &view);
}

static PyObject *eval_copy(PyObject *self, PyObject *object)
{
	const char *expr = expression_argument("eval_copy", object);

	return expr ? eval_copy_text(self, expr) : NULL;
}

/* ---- as PyTorch asks ------------------------------------------------- */

static PyObject *stride(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"dim", NULL};
	const struct tarn_layout *l = layout_of(self);
	PyObject *given;
	int dim;

	if (named_arguments(
		    "stride", names, 0, args, n_args, keywords, &given) < 0)
		return NULL;
	if (!given || given == Py_None)
		return numbers_tuple(l->ndim, l->stride, 1);
	if (dim_argument("stride", given, &dim) < 0)
		return NULL;
	if (dim < -l->ndim || dim >= l->ndim) {
		PyErr_Format(PyExc_IndexError,
			"stride: there is no dimension %d of %d", dim, l->ndim);
		return NULL;
	}
	return PyLong_FromLongLong(l->stride[dim < 0 ? dim + l->ndim : dim]);
}

static PyObject *storage_offset(PyObject *self, PyObject *none)
{
	return PyLong_FromLongLong(layout_of(self)->offset);
}

static PyObject *data_ptr(PyObject *self, PyObject *none)
{
	return PyLong_FromVoidPtr(tarn_tensor_data(tensor_of(self)));
}

static PyObject *storage(PyObject *self, PyObject *none)
{
	tarn_tensor *flat = NULL;

	return tensor_wrap_result(
		tarn_tensor_flat_storage(tensor_of(self), &flat), &flat);
}

static PyObject *transposed_matrix(PyObject *self, PyObject *none)
{
	int ndim = layout_of(self)->ndim;

	if (ndim > 2) {
		PyErr_Format(PyExc_ValueError,
			"t: of %d dimensions; transpose(a, b) swaps two of "
			"them",
			ndim);
		return NULL;
	}
	return tensor_transposed(self, NULL);
}

static PyObject *is_contiguous(PyObject *self, PyObject *none)
{
	return PyBool_FromLong(tarn_layout_is_contiguous(layout_of(self)));
}

PyMethodDef shape_methods[] = {
	{"stride", EXPORT(stride), FAST_KEYWORDS,
		"stride($self, /, dim=None)\n--\n\n"
		"strides, or that of one dimension, as PyTorch calls it."},
	{"storage_offset", storage_offset, METH_NOARGS,
		"storage_offset($self, /)\n--\n\n"
		"offset, as PyTorch calls it."},
	{"data_ptr", data_ptr, METH_NOARGS,
		"data_ptr($self, /)\n--\n\n"
		"The address of element (0, 0, ...); 0 where there is none: in "
		"a file,\nand on a device, for which there is "
		"device_pointer()."},
	{"storage", storage, METH_NOARGS,
		"storage($self, /)\n--\n\n"
		"The whole storage as a tensor of one dimension."},
	{"t", transposed_matrix, METH_NOARGS,
		"t($self, /)\n--\n\n"
		"T of a matrix or a vector, as PyTorch calls it."},
	{"is_contiguous", is_contiguous, METH_NOARGS,
		"is_contiguous($self, /)\n--\n\n"
		"Do the elements lie side by side, in C\norder?"},
	{"reshape", EXPORT(reshape), FAST,
		"reshape($self, /, *shape)\n--\n\n"
		"A view where one is possible, else a\ncopy. One size may be "
		"-1."},
	{"view", EXPORT(view), FAST,
		"view($self, /, *shape)\n--\n\n"
		"A view of that shape; ValueError where the\nstrides forbid "
		"it."},
	{"flatten", EXPORT(flatten), FAST_KEYWORDS,
		"flatten($self, /, start_dim=0, end_dim=-1)\n--\n\n"
		"These dimensions (the last included) as one, by reshape."},
	{"merge", EXPORT(merge), FAST_KEYWORDS,
		"merge($self, /, first, last)\n--\n\n"
		"These dimensions as one; ValueError where that needs a copy."},
	{"split", EXPORT(split), FAST,
		"split($self, dim, /, *sizes)\n--\n\n"
		"One dimension as several, one of which may be -1 (inferred)."},
	{"unsqueeze", EXPORT(unsqueeze), FAST_KEYWORDS,
		"unsqueeze($self, /, dim)\n--\n\n"
		"A new dimension of size 1 before dim."},
	{"squeeze", EXPORT(squeeze), FAST_KEYWORDS,
		"squeeze($self, /, dim=None)\n--\n\n"
		"Without dimensions of size 1, or without dim if it is one."},
	{"expand", EXPORT(expand), FAST,
		"expand($self, /, *shape)\n--\n\n"
		"Sizes of 1 are repeated; -1 leaves a\nsize as it is."},
	{"bitcast", bitcast, METH_O,
		"bitcast($self, dtype, /)\n--\n\n"
		"The same bytes as another dtype."},
	{"rearrange", EXPORT(rearrange), FAST_KEYWORDS,
		"rearrange($self, pattern, /, **sizes)\n--\n\n"
		"As einops has it: \"b (h w) c -> b c h w\", w=28. A copy "
		"only\n"
		"where no view is possible."},
	{"eval", eval, METH_O,
		"eval($self, expression, /)\n--\n\n"
		"The view that a chain of views as text describes,\n"
		"\"[0:4, ::2].permute(1, 0)\"; ValueError where the chain "
		"needs\na copy."},
	{"eval_copy", eval_copy, METH_O,
		"eval_copy($self, expression, /)\n--\n\n"
		"As eval, but copies where the chain needs it."},
	{0},
};
