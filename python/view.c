// SPDX-License-Identifier: MIT
/*
 * Views that change the order or the choice of dimensions and elements:
 * permute, transpose, flip, slices by name, windows. Each is one operation of
 * <tarn/layout.h>.
 */
#include "python/module.h"

static PyObject *permute(
	PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
	int dims[TARN_NDIM_MAX];
	struct tarn_layout layout;
	int n = dims_arguments("permute", args, n_args, dims);

	if (n < 0)
		return NULL;
	return tensor_view(self,
		tarn_layout_permute(layout_of(self), n, dims, &layout),
		&layout);
}

static PyObject *transpose(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"dim0", "dim1", NULL};
	struct tarn_layout layout;
	int64_t dims[2];

	if (named_numbers(
		    "transpose", names, 2, 3, args, n_args, keywords, dims) < 0)
		return NULL;
	return tensor_view(self,
		tarn_layout_transpose(
			layout_of(self), (int)dims[0], (int)dims[1], &layout),
		&layout);
}

PyObject *tensor_transposed(PyObject *self, void *closure)
{
	const struct tarn_layout *l = layout_of(self);
	struct tarn_layout layout;
	int dims[TARN_NDIM_MAX];

	for (int i = 0; i < l->ndim; i++)
		dims[i] = l->ndim - 1 - i;
	return tensor_view(
		self, tarn_layout_permute(l, l->ndim, dims, &layout), &layout);
}

static PyObject *flip(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
	struct tarn_layout layout = *layout_of(self);
	int dims[TARN_NDIM_MAX];
	int n = dims_arguments("flip", args, n_args, dims), r = 0;

	if (n < 0)
		return NULL;
	for (int i = 0; r >= 0 && i < n; i++)
		r = tarn_layout_flip(&layout, dims[i], &layout);
	return tensor_view(self, r, &layout);
}

static PyObject *narrow(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"dim", "start", "length", NULL};
	struct tarn_layout layout;
	int64_t a[3];

	if (named_numbers("narrow", names, 3, 1, args, n_args, keywords, a) < 0)
		return NULL;
	return tensor_view(self,
		tarn_layout_narrow(
			layout_of(self), (int)a[0], a[1], a[2], &layout),
		&layout);
}

static PyObject *select_index(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"dim", "index", NULL};
	struct tarn_layout layout;
	int64_t a[2];

	if (named_numbers("select", names, 2, 1, args, n_args, keywords, a) < 0)
		return NULL;
	return tensor_view(self,
		tarn_layout_select(layout_of(self), (int)a[0], a[1], &layout),
		&layout);
}

static PyObject *skip(PyObject *self, PyObject *const *args, Py_ssize_t n_args,
	PyObject *keywords)
{
	static const char *const names[] = {"dim", "step", NULL};
	struct tarn_layout layout;
	int64_t a[2];

	if (named_numbers("skip", names, 2, 1, args, n_args, keywords, a) < 0)
		return NULL;
	return tensor_view(self,
		tarn_layout_skip(layout_of(self), (int)a[0], a[1], &layout),
		&layout);
}

static PyObject *diagonal(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"offset", "dim1", "dim2", NULL};
	struct tarn_layout layout;
	int64_t a[3] = {0, 0, 1};

	if (named_numbers("diagonal", names, 0, 6, args, n_args, keywords, a) <
		0)
		return NULL;
	return tensor_view(self,
		tarn_layout_diagonal(
			layout_of(self), a[0], (int)a[1], (int)a[2], &layout),
		&layout);
}

static PyObject *unfold(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"dim", "size", "step", NULL};
	struct tarn_layout layout;
	int64_t a[3] = {0, 0, 1};

	if (named_numbers("unfold", names, 2, 1, args, n_args, keywords, a) < 0)
		return NULL;
	return tensor_view(self,
		tarn_layout_unfold(
			layout_of(self), (int)a[0], a[1], a[2], &layout),
		&layout);
}

PyMethodDef view_methods[] = {
	{"permute", EXPORT(permute), FAST,
		"permute($self, /, *dims)\n--\n\n"
		"Dimension i of the view is dims[i]."},
	{"transpose", EXPORT(transpose), FAST_KEYWORDS,
		"transpose($self, /, dim0, dim1)\n--\n\n"
		"Both dimensions, exchanged."},
	{"flip", EXPORT(flip), FAST,
		"flip($self, /, *dims)\n--\n\n"
		"These dimensions, backwards."},
	{"narrow", EXPORT(narrow), FAST_KEYWORDS,
		"narrow($self, /, dim, start, length)\n--\n\n"
		"length elements of dim from start on; all must exist."},
	{"select", EXPORT(select_index), FAST_KEYWORDS,
		"select($self, /, dim, index)\n--\n\n"
		"One index of a dimension, which disappears. Always a Tensor."},
	{"skip", EXPORT(skip), FAST_KEYWORDS,
		"skip($self, /, dim, step)\n--\n\n"
		"Every step-th element of dim."},
	{"diagonal", EXPORT(diagonal), FAST_KEYWORDS,
		"diagonal($self, /, offset=0, dim1=0, dim2=1)\n--\n\n"
		"Both dimensions become their diagonal, the last dimension."},
	{"unfold", EXPORT(unfold), FAST_KEYWORDS,
		"unfold($self, /, dim, size, step=1)\n--\n\n"
		"Windows of size elements, step apart; the last dimension is\n"
		"in the window."},
	{0},
};
