// SPDX-License-Identifier: MIT
/*
 * Packing PyTorch's tensors. They have no buffers, and DLPack hands over less
 * dtypes than they have at twice the price: their attributes are asked.
 */
#include "python/pack.h"

#include <stdatomic.h>

/* The names of what is asked, made once: a look-up compares addresses. */
enum name {
	IS_CPU,
	LAYOUT,
	DTYPE,
	SHAPE,
	IS_NEG,
	IS_CONJ,
	IS_CONTIGUOUS,
	STRIDE,
	DATA_PTR,
	RESOLVE_NEG,
	RESOLVE_CONJ,
	ELEMENT_SIZE,
	DETACH,
	NAMES
};

static _Atomic(PyObject *) names[NAMES];

/* Interned, so that two threads that make one get the same. */
static PyObject *name_of(enum name n)
{
	static const char *const texts[NAMES] = {"is_cpu", "layout", "dtype",
		"shape", "is_neg", "is_conj", "is_contiguous", "stride",
		"data_ptr", "resolve_neg", "resolve_conj", "element_size",
		"detach"};
	/* Pairs with the store below. */
	PyObject *name = atomic_load_explicit(&names[n], memory_order_acquire);

	if (name)
		return name;
	name = PyUnicode_InternFromString(texts[n]);
	atomic_store_explicit(&names[n], name, memory_order_release);
	return name;
}

static PyObject *attribute(PyObject *tensor, enum name n)
{
	PyObject *name = name_of(n);

	return name ? PyObject_GetAttr(tensor, name) : NULL;
}

static PyObject *call(PyObject *tensor, enum name n)
{
	PyObject *name = name_of(n);

	return name ? PyObject_CallMethodObjArgs(tensor, name, NULL) : NULL;
}

/* A reference is taken over. 1, 0 or -1. */
static int truth(PyObject *object)
{
	int r = object ? PyObject_IsTrue(object) : -1;

	Py_XDECREF(object);
	return r;
}

/* The number of its dtype, 0: none of ours, or not plain memory; or -1. */
static int dtype_of(PyObject *tensor, const struct torch_face *torch)
{
	PyObject *layout = attribute(tensor, LAYOUT), *dtype, *number;
	int r = truth(attribute(tensor, IS_CPU));

	if (!layout || r < 0)
		r = -1;
	else if (layout != torch->strided)
		r = 0;
	Py_XDECREF(layout);
	if (r <= 0)
		return r;
	dtype = attribute(tensor, DTYPE);
	if (!dtype)
		return -1;
	number = PyDict_GetItemWithError(torch->numbers, dtype); /* borrowed */
	Py_DECREF(dtype);
	if (!number)
		return PyErr_Occurred() ? -1 : 0;
	return (int)PyLong_AsLong(number);
}

/* A tuple's numbers; a reference is taken over. Their count, or -1. */
static int numbers_of(PyObject *tuple, int64_t *ret)
{
	Py_ssize_t n = tuple ? PyTuple_Size(tuple) : -1;

	for (Py_ssize_t i = 0; i < n && n <= TARN_NDIM_MAX; i++) {
		ret[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
		if (ret[i] == -1 && PyErr_Occurred())
			n = -1;
	}
	Py_XDECREF(tuple);
	return (int)n;
}

static int address_of(PyObject *tensor, const unsigned char **ret)
{
	PyObject *number = call(tensor, DATA_PTR);

	if (!number)
		return -1;
	*ret = PyLong_AsVoidPtr(number);
	Py_DECREF(number);
	return PyErr_Occurred() ? -1 : 0;
}

static void c_strides(struct pack_layout *a)
{
	int64_t step = 1;

	for (int i = a->ndim; i-- > 0;) {
		a->strides[i] = step;
		step *= a->shape[i] ? a->shape[i] : 1;
	}
}

static int pack_plain(struct packer *p, PyObject *tensor, int dtype)
{
	struct pack_layout a = {.tag = PACK_TORCH, .dtype = dtype};
	int r;

	a.ndim = numbers_of(attribute(tensor, SHAPE), a.shape);
	if (a.ndim < 0 || a.ndim > TARN_NDIM_MAX)
		return a.ndim < 0 ? -1 : 0;
	r = truth(call(tensor, IS_CONTIGUOUS));
	if (r < 0 || address_of(tensor, &a.data) < 0)
		return -1;
	a.contiguous = r > 0;
	if (a.contiguous)
		c_strides(&a);
	else if (numbers_of(call(tensor, STRIDE), a.strides) < 0)
		return -1;
	return pack_owned(p, &a, tensor);
}

/* From its first element to the end of its last. 1: it has some, 0 or -1. */
static int extent_of(
	PyObject *tensor, const unsigned char **ret_first, uint64_t *ret_span)
{
	int64_t shape[TARN_NDIM_MAX], strides[TARN_NDIM_MAX], size, last = 0;
	int n = numbers_of(attribute(tensor, SHAPE), shape);
	int m = n < 0 ? -1 : numbers_of(call(tensor, STRIDE), strides);
	PyObject *number = m < 0 ? NULL : call(tensor, ELEMENT_SIZE);

	if (!number)
		return -1;
	size = PyLong_AsLongLong(number);
	Py_DECREF(number);
	if (PyErr_Occurred() || address_of(tensor, ret_first) < 0)
		return -1;
	if (n != m || n > TARN_NDIM_MAX)
		return 0;
	for (int i = 0; i < n; i++) {
		if (shape[i] == 0)
			return 0;
		last += (shape[i] - 1) * strides[i];
	}
	*ret_span = (uint64_t)((last + 1) * size);
	return 1;
}

/* The tensor's memory may have changed since it was packed: resize_ and an
 * assignment to data give it another, and free that. None of what is asked is
 * Python's own code, in which others could run. */
int pack_torch_has(PyObject *tensor, const unsigned char *first, uint64_t span)
{
	const unsigned char *now;
	uint64_t most;
	int r = extent_of(tensor, &now, &most);

	return r <= 0 ? r : now == first && span <= most;
}

PyObject *pack_torch_hold(PyObject *tensor)
{
	return call(tensor, DETACH);
}

/* Values whose sign or conjugation is only noted become real ones. 0 or -1. */
static int resolve(PyObject **tensor, enum name is, enum name resolved)
{
	int r = truth(call(*tensor, is));
	PyObject *made;

	if (r <= 0)
		return r;
	made = call(*tensor, resolved);
	if (!made)
		return -1;
	Py_DECREF(*tensor);
	*tensor = made;
	return 0;
}

int pack_torch(
	struct packer *p, PyObject *object, const struct torch_face *torch)
{
	int dtype = dtype_of(object, torch), r;

	if (dtype <= 0)
		return dtype;
	Py_INCREF(object);
	r = resolve(&object, IS_NEG, RESOLVE_NEG);
	if (r >= 0 && dtype == TARN_C64)
		r = resolve(&object, IS_CONJ, RESOLVE_CONJ);
	if (r >= 0)
		r = pack_plain(p, object, dtype);
	Py_DECREF(object);
	return r;
}
