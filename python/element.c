// SPDX-License-Identifier: MIT
/* Elements as Python's numbers: bool, int, float, complex, by the dtype. */
#include "python/module.h"

#include <errno.h>

enum number_kind element_kind(int dtype)
{
	switch (dtype) {
	case TARN_BOOL:
		return KIND_BOOL;
	case TARN_U8:
	case TARN_I8:
	case TARN_U16:
	case TARN_I16:
	case TARN_U32:
	case TARN_I32:
	case TARN_I64:
		return KIND_INT;
	case TARN_U64:
		return KIND_UNSIGNED;
	case TARN_C64:
		return KIND_COMPLEX;
	default:
		return KIND_FLOAT;
	}
}

bool is_number(PyObject *object)
{
	if (PyLong_Check(object) || PyFloat_Check(object) ||
		PyComplex_Check(object))
		return true;
	return !is_tensor(object) && !shares_bytes(object) &&
	       PyNumber_Check(object);
}

/* The upper half of U64 is out of the reach of int64_t: the same bits are
 * read and written as I64. */
static int as_signed(tarn_tensor *tensor, tarn_tensor **ret)
{
	struct tarn_layout layout = *tarn_tensor_layout(tensor);

	layout.dtype = TARN_I64;
	return tarn_tensor_with_layout(tensor, &layout, ret);
}

static int get_u64(tarn_tensor *tensor, const int64_t *index, uint64_t *ret)
{
	tarn_tensor *bits;
	int64_t value = 0;
	int r = as_signed(tensor, &bits);

	if (r < 0)
		return r;
	r = tarn_tensor_get_i64(bits, index, &value);
	*ret = (uint64_t)value;
	tarn_tensor_unref(bits);
	return r;
}

PyObject *element_get(tarn_tensor *tensor, const int64_t *index)
{
	enum number_kind kind = element_kind(tarn_tensor_layout(tensor)->dtype);
	uint64_t bits = 0;
	int64_t integer = 0;
	double real = 0;
	float pair[2] = {0};
	int r;

	if (kind == KIND_FLOAT)
		r = tarn_tensor_get_f64(tensor, index, &real);
	else if (kind == KIND_COMPLEX)
		r = tarn_tensor_get_c64(tensor, index, pair);
	else if (kind == KIND_UNSIGNED)
		r = get_u64(tensor, index, &bits);
	else
		r = tarn_tensor_get_i64(tensor, index, &integer);
	if (r < 0)
		return raise_view_as("", r);
	switch (kind) {
	case KIND_FLOAT:
		return PyFloat_FromDouble(real);
	case KIND_COMPLEX:
		return PyComplex_FromDoubles(pair[0], pair[1]);
	case KIND_UNSIGNED:
		return PyLong_FromUnsignedLongLong(bits);
	case KIND_BOOL:
		return PyBool_FromLong(integer != 0);
	default:
		return PyLong_FromLongLong(integer);
	}
}

/* ---- setting ------------------------------------------------------- */

static int set_u64(tarn_tensor *tensor, const int64_t *index, PyObject *number)
{
	unsigned long long value = PyLong_AsUnsignedLongLong(number);
	tarn_tensor *bits;
	int r;

	if (value == (unsigned long long)-1 && PyErr_Occurred())
		return -EINVAL;
	r = as_signed(tensor, &bits);
	if (r < 0)
		return r;
	r = tarn_tensor_set_i64(bits, index, (int64_t)value);
	tarn_tensor_unref(bits);
	return r;
}

static int set_integer(
	tarn_tensor *tensor, const int64_t *index, PyObject *number)
{
	enum number_kind kind = element_kind(tarn_tensor_layout(tensor)->dtype);
	int64_t value;
	double real;

	if (kind == KIND_UNSIGNED)
		return set_u64(tensor, index, number);
	if (kind == KIND_FLOAT || kind == KIND_COMPLEX) {
		real = PyLong_AsDouble(number);
		if (real == -1 && PyErr_Occurred())
			return -EINVAL;
		return tarn_tensor_set_f64(tensor, index, real);
	}
	if (int_argument(number, &value) < 0)
		return -EINVAL;
	if (kind == KIND_BOOL)
		value = value != 0;
	return tarn_tensor_set_i64(tensor, index, value);
}

static int set_complex(
	tarn_tensor *tensor, const int64_t *index, PyObject *value)
{
	float pair[2] = {(float)PyComplex_RealAsDouble(value),
		(float)PyComplex_ImagAsDouble(value)};

	return tarn_tensor_set_c64(tensor, index, pair);
}

static int set_number(
	tarn_tensor *tensor, const int64_t *index, PyObject *value)
{
	PyObject *number;
	double real;
	int r;

	if (PyLong_Check(value))
		return set_integer(tensor, index, value);
	if (PyComplex_Check(value))
		return set_complex(tensor, index, value);
	if (!PyFloat_Check(value) && PyIndex_Check(value)) {
		number = PyNumber_Index(value);
		if (!number)
			return -EINVAL;
		r = set_integer(tensor, index, number);
		Py_DECREF(number);
		return r;
	}
	if (real_argument("value", value, &real) < 0)
		return -EINVAL;
	return tarn_tensor_set_f64(tensor, index, real);
}

/* Is the index what is out of range, or the value? */
static bool index_is_good(tarn_tensor *tensor, const int64_t *index)
{
	int64_t element;

	return tarn_layout_element(
		       tarn_tensor_layout(tensor), index, &element) >= 0;
}

int element_set(tarn_tensor *tensor, const int64_t *index, PyObject *value)
{
	PyObject *single;
	int r;

	if (is_tensor(value)) {
		single = tensor_single(value, "an element");
		if (!single)
			return -1;
		r = element_set(tensor, index, single);
		Py_DECREF(single);
		return r;
	}
	r = set_number(tensor, index, value);
	if (r >= 0)
		return 0;
	if (PyErr_Occurred())
		return -1;
	if (r == -ERANGE && index_is_good(tensor, index))
		raise_too_large();
	else
		raise_view_as("", r);
	return -1;
}

/* ---- one element --------------------------------------------------- */

PyObject *tensor_single(PyObject *self, const char *what)
{
	static const int64_t first[TARN_NDIM_MAX];

	if (tarn_layout_numel(layout_of(self)) == 1)
		return element_get(tensor_of(self), first);
	PyErr_Format(PyExc_ValueError,
		"%s: a tensor of one element is wanted, this has %lld", what,
		(long long)tarn_layout_numel(layout_of(self)));
	return NULL;
}

static PyObject *tensor_item(PyObject *self, PyObject *none)
{
	return tensor_single(self, "item");
}

int tensor_truth(PyObject *self)
{
	PyObject *single = tensor_single(self, "truth value");
	int r;

	if (!single)
		return -1;
	r = PyObject_IsTrue(single);
	Py_DECREF(single);
	return r;
}

PyObject *tensor_float(PyObject *self)
{
	PyObject *single = tensor_single(self, "float"), *r;

	if (!single)
		return NULL;
	r = PyNumber_Float(single);
	Py_DECREF(single);
	return r;
}

PyObject *tensor_int(PyObject *self)
{
	PyObject *single = tensor_single(self, "int"), *r;

	if (!single)
		return NULL;
	r = PyNumber_Long(single);
	Py_DECREF(single);
	return r;
}

/* ---- the methods ---------------------------------------------------- */

PyMethodDef element_methods[] = {
	{"item", tensor_item, METH_NOARGS,
		"item($self, /)\n--\n\n"
		"The one element, as a Python number."},
	{"tolist", tensor_tolist, METH_NOARGS,
		"tolist($self, /)\n--\n\n"
		"The elements as Python numbers in nested lists."},
	{0},
};
