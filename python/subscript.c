// SPDX-License-Identifier: MIT
/*
 * t[...]: integers, slices, ... and None become layout operations one by one,
 * straight from the objects that Python passes: no text between. Integers for
 * all dimensions are an element, a number; anything else is a view, but for keys
 * with lists and masks, which tarn._select has.
 */
#include "python/device.h"
#include "python/module.h"

static Py_ssize_t key_length(PyObject *key)
{
	return PyTuple_Check(key) ? PyTuple_Size(key) : 1;
}

static PyObject *key_item(PyObject *key, Py_ssize_t i)
{
	return PyTuple_Check(key) ? PyTuple_GetItem(key, i) : key;
}

static bool is_array(PyObject *item)
{
	PyObject *ndim = PyObject_GetAttrString(item, "ndim");
	long n = ndim && PyLong_Check(ndim) ? PyLong_AsLong(ndim) : 0;

	Py_XDECREF(ndim);
	PyErr_Clear();
	return n > 0;
}

static bool is_index(PyObject *item)
{
	/* An array of one element is an index in numpy's eyes, one of several
	 * is not, though both have the method. */
	return PyLong_Check(item) ||
	       (PyIndex_Check(item) && !is_tensor(item) && !is_array(item));
}

static int refuse_item(PyObject *item)
{
	PyErr_Format(PyExc_IndexError,
		"index: integers, slices, ... and None make views, lists of "
		"integers and masks pick elements; %R does neither",
		item);
	return -1;
}

/* A list of indices, or a mask: it picks elements, which no view can. */
static bool picks(PyObject *item)
{
	return PyList_Check(item) || is_tensor(item) || is_array(item);
}

static bool key_picks(PyObject *key)
{
	Py_ssize_t n = key_length(key);

	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *item = key_item(key, i);

		/* The common ones first. */
		if (PyLong_Check(item) || PySlice_Check(item) ||
			item == Py_None || item == Py_Ellipsis)
			continue;
		if (picks(item))
			return true;
	}
	return false;
}

/* read(t, key) or write(t, key, value) of tarn._select. */
static PyObject *pick(PyObject *self, PyObject *key, PyObject *value)
{
	PyObject *module = PyImport_ImportModule("tarn._select"), *result;

	if (!module)
		return NULL;
	result = value ? PyObject_CallMethod(
				 module, "write", "OOO", self, key, value)
		       : PyObject_CallMethod(module, "read", "OO", self, key);
	Py_DECREF(module);
	return result;
}

/* How many dimensions the key speaks of, and whether it has an ellipsis. */
static int count_dims(
	PyObject *self, PyObject *key, Py_ssize_t n, int *ret_skipped)
{
	const struct tarn_layout *l = layout_of(self);
	int dims = 0, dots = 0;

	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *item = key_item(key, i);

		if (item == Py_Ellipsis)
			dots++;
		else if (item != Py_None)
			dims++;
	}
	if (dots > 1 || dims > l->ndim) {
		PyErr_Format(PyExc_IndexError,
			dots > 1 ? "index: more than one ..."
				 : "index: %d of them for %d dimensions",
			dims, l->ndim);
		return -1;
	}
	*ret_skipped = l->ndim - dims;
	return 0;
}

static int apply_slice(struct tarn_layout *layout, int dim, PyObject *slice)
{
	Py_ssize_t start, stop, step;
	int r;

	/* A missing index comes as the far end, which slice clamps. */
	if (PySlice_Unpack(slice, &start, &stop, &step) < 0)
		return -1;
	r = tarn_layout_slice(layout, dim, start, stop, step, layout);
	if (r < 0)
		raise_view(r);
	return r;
}

static int apply_index(struct tarn_layout *layout, int dim, PyObject *item)
{
	int64_t index;
	int r;

	if (!is_index(item) || PyBool_Check(item))
		return refuse_item(item);
	if (int_argument(item, &index) < 0)
		return -1;
	r = tarn_layout_select(layout, dim, index, layout);
	if (r < 0)
		raise_view_as("", r);
	return r;
}

static int apply_new_dim(struct tarn_layout *layout, int dim)
{
	int r = tarn_layout_unsqueeze(layout, dim, layout);

	if (r < 0)
		raise_view(r);
	return r;
}

/* The view's layout. 0 or negative with an exception. */
static int apply_key(PyObject *self, PyObject *key, struct tarn_layout *layout)
{
	Py_ssize_t n = key_length(key);
	int dim = 0, skipped, r = 0;

	if (count_dims(self, key, n, &skipped) < 0)
		return -1;
	*layout = *layout_of(self);
	for (Py_ssize_t i = 0; r >= 0 && i < n; i++) {
		PyObject *item = key_item(key, i);

		if (PySlice_Check(item))
			r = apply_slice(layout, dim++, item);
		else if (item == Py_None)
			r = apply_new_dim(layout, dim++);
		else if (item == Py_Ellipsis)
			dim += skipped;
		else
			r = apply_index(layout, dim, item);
	}
	return r;
}

/* 1: the key is an integer for each dimension; 0: it is not. */
static int element_key(PyObject *self, PyObject *key, int64_t *index)
{
	int ndim = layout_of(self)->ndim;

	if (key_length(key) != ndim)
		return 0;
	for (int i = 0; i < ndim; i++) {
		PyObject *item = key_item(key, i);

		if (!is_index(item) || PyBool_Check(item))
			return 0;
		if (int_argument(item, &index[i]) < 0)
			return -1;
	}
	return 1;
}

PyObject *tensor_subscript(PyObject *self, PyObject *key)
{
	int64_t index[TARN_NDIM_MAX];
	struct tarn_layout layout;
	int r = element_key(self, key, index);

	if (r < 0)
		return NULL;
	if (r > 0)
		return element_get(tensor_of(self), index);
	if (key_picks(key))
		return pick(self, key, NULL);
	if (apply_key(self, key, &layout) < 0)
		return NULL;
	return tensor_view(self, 0, &layout);
}

/* ---- writing ------------------------------------------------------- */

/* A number everywhere: a tensor of rank 0, repeated. */
static int fill_view(tarn_tensor *view, PyObject *value)
{
	tarn_tensor *one;
	int r = new_tensor(tarn_tensor_layout(view)->dtype, 0, NULL, &one);

	if (r < 0) {
		raise_view(r);
		return -1;
	}
	r = element_set(one, NULL, value);
	if (r >= 0)
		r = copy_tensor(view, one);
	tarn_tensor_unref(one);
	return r;
}

PyObject *tensor_source(PyObject *value, int dtype)
{
	if (PyList_Check(value) || PyTuple_Check(value))
		return tensor_from_lists(value, dtype);
	return tensor_from_object(value);
}

/* numpy and PyTorch look away from dimensions of 1 in front that are too many.
 * Takes the reference over. */
static PyObject *without_ones(PyObject *source, int ndim)
{
	const struct tarn_layout *l = source ? layout_of(source) : NULL;
	struct tarn_layout layout;
	PyObject *view;
	int r = 0;

	if (!l || l->ndim <= ndim)
		return source;
	layout = *l;
	while (r >= 0 && layout.ndim > ndim && layout.shape[0] == 1)
		r = tarn_layout_squeeze_dim(&layout, 0, &layout);
	view = tensor_view(source, r, &layout);
	Py_DECREF(source);
	return view;
}

static int copy_object(tarn_tensor *view, PyObject *value)
{
	const struct tarn_layout *l = tarn_tensor_layout(view);
	PyObject *source =
		without_ones(tensor_source(value, l->dtype), l->ndim);
	int r;

	if (!source)
		return -1;
	r = copy_tensor_safely(view, tensor_of(source));
	Py_DECREF(source);
	return r;
}

int tensor_assign_subscript(PyObject *self, PyObject *key, PyObject *value)
{
	int64_t index[TARN_NDIM_MAX];
	struct tarn_layout layout;
	PyObject *view;
	int r;

	if (!value) {
		PyErr_SetString(PyExc_TypeError,
			"elements of a tensor cannot be deleted");
		return -1;
	}
	r = element_key(self, key, index);
	if (r < 0)
		return r;
	/* An element on a device is written by a copy alone. */
	if (r > 0 && !place_of(tensor_of(self)).on_device)
		return element_set(tensor_of(self), index, value);
	if (key_picks(key)) {
		view = pick(self, key, value);
		Py_XDECREF(view);
		return view ? 0 : -1;
	}
	if (apply_key(self, key, &layout) < 0)
		return -1;
	view = tensor_view(self, 0, &layout);
	if (!view)
		return -1;
	r = is_number(value) ? fill_view(tensor_of(view), value)
			     : copy_object(tensor_of(view), value);
	Py_DECREF(view);
	return r;
}

/* ---- iterating ----------------------------------------------------- */

PyObject *tensor_item_at(PyObject *self, Py_ssize_t i)
{
	const struct tarn_layout *l = layout_of(self);
	struct tarn_layout layout;
	int64_t index = i;

	if (l->ndim == 1)
		return element_get(tensor_of(self), &index);
	return tensor_view(
		self, tarn_layout_select(l, 0, index, &layout), &layout);
}

PyObject *tensor_iterate(PyObject *self)
{
	if (layout_of(self)->ndim > 0)
		return PySeqIter_New(self);
	PyErr_SetString(
		PyExc_TypeError, "a tensor of rank 0 cannot be iterated over");
	return NULL;
}
