// SPDX-License-Identifier: MIT
/*
 * The bytes of other objects as tensors: the buffer protocol, and numpy's
 * __array_interface__. The tensor's storage keeps the object until its last
 * view is gone, in any thread.
 */
#include "python/module.h"

#include <stdlib.h>
#include <string.h>

/* In any thread, with or without the GIL. After the interpreter has gone there
 * is nothing left to give back to. */
static void release_owner(void *arg)
{
	PyGILState_STATE state;

	if (!Py_IsInitialized())
		return;
	state = PyGILState_Ensure();
	Py_DECREF((PyObject *)arg);
	PyGILState_Release(state);
}

/* Bytes to elements; strides of dimensions without a second element mean
 * nothing. 0, or -1: they fall between elements. */
static int element_strides(int ndim, const int64_t *shape,
	const int64_t *strides, int64_t size, int64_t *ret)
{
	for (int i = 0; i < ndim; i++) {
		if (strides[i] % size != 0 && shape[i] > 1)
			return -1;
		ret[i] = shape[i] > 1 ? strides[i] / size : 0;
	}
	return 0;
}

/* data is the element at (0, 0, ...); where strides are negative the storage
 * begins before it. */
static int borrow(PyObject *owner, char *data, struct tarn_layout *layout,
	bool writable, tarn_tensor **ret)
{
	int64_t size = tarn_dtype_bits(layout->dtype) / 8, first, count;
	tarn_storage *storage;
	int r;

	tarn_layout_bounds(layout, &first, &count);
	if (count == 0)
		first = 0;
	layout->offset = -first;
	r = tarn_storage_borrow(data + first * size, (uint64_t)(count * size),
		writable ? TARN_BORROW_WRITABLE : 0, release_owner, owner,
		&storage);
	if (r < 0)
		return r;
	Py_INCREF(owner);
	r = tarn_tensor_new(storage, 0, layout, ret);
	tarn_storage_unref(storage);
	return r;
}

PyObject *borrow_memory(PyObject *owner, void *data, int dtype, int ndim,
	const int64_t *shape, const int64_t *strides, bool writable)
{
	int64_t steps[TARN_NDIM_MAX];
	struct tarn_layout layout;
	tarn_tensor *tensor = NULL;
	int r;

	if (!strides) {
		r = tarn_layout_contiguous(dtype, ndim, shape, &layout);
	} else if (ndim <= TARN_NDIM_MAX &&
		   element_strides(ndim, shape, strides,
			   tarn_dtype_bits(dtype) / 8, steps) < 0) {
		PyErr_SetString(PyExc_ValueError,
			"strides are no multiples of the element's size; make "
			"the array contiguous first");
		return NULL;
	} else {
		r = tarn_layout_strided(dtype, ndim, shape, steps, 0, &layout);
	}
	if (r >= 0)
		r = borrow(owner, data, &layout, writable, &tensor);
	return tensor_wrap_result(r, &tensor);
}

/* ---- the buffer protocol ------------------------------------------- */

#define CAPSULE "tarn.buffer"

/* A Py_buffer in a capsule, so that it can be owned. */
static void drop_buffer(PyObject *capsule)
{
	Py_buffer *view = PyCapsule_GetPointer(capsule, CAPSULE);

	PyBuffer_Release(view);
	free(view);
}

static PyObject *hold_buffer(PyObject *object, Py_buffer **ret)
{
	Py_buffer *view = malloc(sizeof(*view));
	PyObject *capsule;

	if (!view) {
		PyErr_NoMemory();
		return NULL;
	}
	if (PyObject_GetBuffer(object, view, PyBUF_FULL) < 0) {
		PyErr_Clear();
		if (PyObject_GetBuffer(object, view, PyBUF_FULL_RO) < 0) {
			free(view);
			return NULL;
		}
	}
	capsule = PyCapsule_New(view, CAPSULE, drop_buffer);
	if (!capsule) {
		PyBuffer_Release(view);
		free(view);
		return NULL;
	}
	*ret = view;
	return capsule;
}

static PyObject *over_buffer(PyObject *owner, const Py_buffer *view)
{
	int dtype = dtype_from_format(view->format, view->itemsize);
	int64_t shape[TARN_NDIM_MAX], strides[TARN_NDIM_MAX];

	if (!dtype || view->suboffsets) {
		PyErr_Format(PyExc_ValueError,
			"a buffer of format \"%s\" is none of tarn's dtypes",
			view->format ? view->format : "B");
		return NULL;
	}
	if (view->ndim > TARN_NDIM_MAX) {
		PyErr_Format(PyExc_ValueError,
			"a buffer of %d dimensions; tensors have at most %d",
			view->ndim, TARN_NDIM_MAX);
		return NULL;
	}
	for (int i = 0; i < view->ndim; i++) {
		shape[i] = view->shape ? view->shape[i]
				       : view->len / view->itemsize;
		strides[i] = view->strides ? view->strides[i] : 0;
	}
	return borrow_memory(owner, view->buf, dtype, view->ndim, shape,
		view->strides ? strides : NULL, !view->readonly);
}

static PyObject *from_buffer(PyObject *object)
{
	Py_buffer *view;
	PyObject *owner = hold_buffer(object, &view), *tensor;

	if (!owner)
		return NULL;
	tensor = over_buffer(owner, view);
	Py_DECREF(owner);
	return tensor;
}

/* ---- __array_interface__ ------------------------------------------- */

static int numbers_of(PyObject *dict, const char *key, int64_t *ret)
{
	PyObject *tuple = PyDict_GetItemString(dict, key);

	if (!tuple || tuple == Py_None)
		return -2;
	return shape_argument("__array_interface__", tuple, ret);
}

/* data: (address, read-only). 0 or -1. */
static int address_of(PyObject *dict, void **ret, bool *ret_readonly)
{
	PyObject *data = PyDict_GetItemString(dict, "data");
	int readonly;

	if (!data || !PyTuple_Check(data) || PyTuple_Size(data) != 2) {
		PyErr_SetString(PyExc_ValueError,
			"__array_interface__ has no address in \"data\"");
		return -1;
	}
	*ret = PyLong_AsVoidPtr(PyTuple_GetItem(data, 0));
	readonly = PyObject_IsTrue(PyTuple_GetItem(data, 1));
	*ret_readonly = readonly;
	return PyErr_Occurred() || readonly < 0 ? -1 : 0;
}

static PyObject *over_interface(PyObject *owner, PyObject *dict)
{
	int64_t shape[TARN_NDIM_MAX], strides[TARN_NDIM_MAX];
	PyObject *typestr = PyDict_Check(dict)
				    ? PyDict_GetItemString(dict, "typestr")
				    : NULL;
	int ndim, n_strides, dtype;
	bool readonly;
	void *data;

	if (!typestr) {
		PyErr_SetString(PyExc_ValueError,
			"__array_interface__ has no \"typestr\"");
		return NULL;
	}
	dtype = dtype_argument(typestr);
	if (!dtype || address_of(dict, &data, &readonly) < 0)
		return NULL;
	ndim = numbers_of(dict, "shape", shape);
	n_strides = numbers_of(dict, "strides", strides);
	if (ndim < 0 || (n_strides != -2 && n_strides != ndim)) {
		if (!PyErr_Occurred())
			PyErr_SetString(PyExc_ValueError,
				"__array_interface__: shape and strides do not "
				"belong together");
		return NULL;
	}
	return borrow_memory(owner, data, dtype, ndim, shape,
		n_strides < 0 ? NULL : strides, !readonly);
}

static PyObject *from_interface(PyObject *object)
{
	PyObject *dict = PyObject_GetAttrString(object, "__array_interface__");
	PyObject *tensor, *owner;

	if (!dict) {
		if (!PyErr_ExceptionMatches(PyExc_AttributeError))
			return NULL;
		PyErr_Clear();
		return PyErr_Format(PyExc_TypeError,
			"a %R is no tensor, and shares no bytes that could be "
			"one (tarn.tensor takes numbers and lists of them)",
			(PyObject *)Py_TYPE(object));
	}
	/* An object in the dict may keep the bytes. */
	owner = PyTuple_Pack(2, object, dict);
	tensor = owner ? over_interface(owner, dict) : NULL;
	Py_XDECREF(owner);
	Py_DECREF(dict);
	return tensor;
}

/* ---- any of them --------------------------------------------------- */

static bool has_attribute(PyObject *object, const char *name)
{
	PyObject *value = PyObject_GetAttrString(object, name);

	PyErr_Clear();
	Py_XDECREF(value);
	return value;
}

bool shares_bytes(PyObject *object)
{
	if (PyObject_CheckBuffer(object) && !PyUnicode_Check(object))
		return true;
	return has_attribute(object, "__array_interface__") ||
	       has_attribute(object, "__dlpack__");
}

PyObject *tensor_from_object(PyObject *object)
{
	PyObject *helpers, *tensor;

	if (is_tensor(object)) {
		Py_INCREF(object);
		return object;
	}
	/* Python code asks objects with dtypes that no buffer can express. */
	helpers = PyImport_ImportModule("tarn._conversions");
	if (!helpers)
		return NULL;
	tensor = PyObject_CallMethod(helpers, "to_tensor", "O", object);
	Py_DECREF(helpers);
	if (tensor && !is_tensor(tensor)) {
		Py_DECREF(tensor);
		PyErr_SetString(PyExc_TypeError, "that is no tensor");
		return NULL;
	}
	return tensor;
}

static PyObject *borrow_object(PyObject *module, PyObject *object)
{
	if (is_tensor(object)) {
		Py_INCREF(object);
		return object;
	}
	if (PyObject_CheckBuffer(object))
		return from_buffer(object);
	return from_interface(object);
}

PyMethodDef borrow_functions[] = {
	{"_borrow", borrow_object, METH_O,
		"A tensor over the bytes of a buffer or __array_interface__."},
	{0},
};
