// SPDX-License-Identifier: MIT
#include "python/ops/ops.h"

#include <errno.h>

static bool is_tensor_object(PyObject *object)
{
	return Py_TYPE(object) == lent->tensor_type;
}

static int number_from(PyObject *object, struct tarn_operand *ret)
{
	double f;
	int64_t i;

	if (PyBool_Check(object)) {
		ret->kind = TARN_NUMBER_BOOL;
		ret->i = object == Py_True;
		return 1;
	}
	if (PyFloat_Check(object) || !PyIndex_Check(object)) {
		f = PyFloat_AsDouble(object);
		if (f == -1 && PyErr_Occurred())
			return -1;
		*ret = tarn_float(f);
		return 1;
	}
	if (lent->int_argument(object, &i) < 0)
		return -1;
	*ret = tarn_int(i);
	return 1;
}

static int tensor_from(PyObject *object, struct operand *ret)
{
	ret->held = PyList_Check(object) || PyTuple_Check(object)
			    ? lent->tensor_from_lists(object, 0)
			    : lent->tensor_from_object(object);
	if (!ret->held)
		return -1;
	ret->operand.tensor = tensor_of(ret->held);
	return 1;
}

int operand_from(PyObject *object, struct operand *ret)
{
	*ret = (struct operand) {0};
	if (is_tensor_object(object)) {
		Py_INCREF(object);
		ret->held = object;
		ret->operand.tensor = tensor_of(object);
		return 1;
	}
	if (PyLong_Check(object) || PyFloat_Check(object))
		return number_from(object, &ret->operand);
	if (PyList_Check(object) || PyTuple_Check(object) ||
		(!PyType_Check(object) && lent->shares_bytes(object)))
		return tensor_from(object, ret);
	if (lent->is_number(object) && !PyComplex_Check(object))
		return number_from(object, &ret->operand);
	return 0;
}

void operand_drop(struct operand *operand)
{
	Py_XDECREF(operand->held);
	operand->held = NULL;
}

PyObject *tensor_argument(const char *name, PyObject *object)
{
	struct operand o;
	int r;

	if (is_tensor_object(object)) {
		Py_INCREF(object);
		return object;
	}
	if (lent->is_number(object)) {
		PyErr_Format(PyExc_TypeError,
			"%s: a tensor or an array is wanted, not the number %R",
			name, object);
		return NULL;
	}
	r = operand_from(object, &o);
	if (r == 0)
		PyErr_Format(PyExc_TypeError,
			"%s: a tensor or an array is wanted, not %R", name,
			object);
	return r > 0 ? o.held : NULL;
}

int out_argument(const char *name, PyObject *object, tarn_tensor **ret)
{
	*ret = NULL;
	if (!object || object == Py_None)
		return 0;
	if (!is_tensor_object(object)) {
		PyErr_Format(PyExc_TypeError,
			"%s: out is a Tensor, not %R; tarn.from_numpy(array) "
			"shares the bytes of an array",
			name, object);
		return -1;
	}
	*ret = tensor_of(object);
	return 0;
}

PyObject *result_object(
	const char *name, int r, PyObject *out, tarn_tensor *made)
{
	if (r == -EDOM) {
		PyErr_SetString(PyExc_ZeroDivisionError, tarn_error_message());
		return NULL;
	}
	if (r < 0)
		return lent->raise_view_as(name, r);
	if (!out || out == Py_None)
		return lent->tensor_wrap_consume(made);
	Py_INCREF(out);
	return out;
}

int dims_argument(const char *name, PyObject *object, int ret[TARN_NDIM_MAX])
{
	int64_t given[TARN_NDIM_MAX];
	int n;

	if (!object || object == Py_None)
		return 0;
	n = lent->shape_argument(name, object, given);
	for (int i = 0; i < n; i++) {
		if (given[i] < INT32_MIN || given[i] > INT32_MAX) {
			PyErr_Format(PyExc_IndexError,
				"%s: there is no dimension %lld", name,
				(long long)given[i]);
			return -1;
		}
		ret[i] = (int)given[i];
	}
	return n;
}

bool is_long(const tarn_tensor *tensor)
{
	/* Some ten microseconds of the simplest work. */
	return tarn_layout_numel(tarn_tensor_layout(tensor)) > 16384;
}
