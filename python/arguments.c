// SPDX-License-Identifier: MIT
/*
 * Arguments, taken straight from the vector that Python passes: a view costs
 * some hundred nanoseconds, and PyArg_ParseTupleAndKeywords would be half of
 * them.
 */
#include "python/module.h"

#include <limits.h>
#include <string.h>

int int_argument(PyObject *object, int64_t *ret)
{
	PyObject *number;
	long long value;

	if (PyLong_Check(object)) {
		value = PyLong_AsLongLong(object);
	} else {
		number = PyNumber_Index(object);
		if (!number)
			return -1;
		value = PyLong_AsLongLong(number);
		Py_DECREF(number);
	}
	if (value == -1 && PyErr_Occurred())
		return -1;
	*ret = value;
	return 0;
}

int real_argument(const char *what, PyObject *object, double *ret)
{
	double value = PyFloat_AsDouble(object);

	if (value == -1 && PyErr_Occurred()) {
		if (PyErr_ExceptionMatches(PyExc_TypeError))
			PyErr_Format(PyExc_TypeError,
				"%s: a number is wanted, not %R", what, object);
		return -1;
	}
	*ret = value;
	return 0;
}

static int check_dim(const char *name, int64_t given, int *ret)
{
	if (given < INT_MIN || given > INT_MAX) {
		PyErr_Format(PyExc_ValueError,
			"%s: there is no dimension %lld; a tensor has at most "
			"%d",
			name, (long long)given, TARN_NDIM_MAX);
		return -1;
	}
	*ret = (int)given;
	return 0;
}

int dim_argument(const char *name, PyObject *object, int *ret)
{
	int64_t given;

	return int_argument(object, &given) < 0 ? -1
						: check_dim(name, given, ret);
}

static int too_many(const char *name)
{
	PyErr_Format(PyExc_ValueError, "%s: tensors have at most %d dimensions",
		name, TARN_NDIM_MAX);
	return -1;
}

/* An object that turned out to be neither. */
static int no_numbers(const char *name, PyObject *object)
{
	if (PyErr_ExceptionMatches(PyExc_TypeError))
		PyErr_Format(PyExc_TypeError,
			"%s: a whole number or a sequence of them is wanted, "
			"not %R",
			name, object);
	return -1;
}

static int sequence_numbers(
	const char *name, PyObject *object, int64_t ret[TARN_NDIM_MAX])
{
	PyObject *tuple = PySequence_Tuple(object);
	Py_ssize_t n;

	if (!tuple)
		return no_numbers(name, object);
	n = PyTuple_Size(tuple);
	if (n > TARN_NDIM_MAX)
		n = too_many(name);
	for (Py_ssize_t i = 0; i < n; i++) {
		if (int_argument(PyTuple_GetItem(tuple, i), &ret[i]) < 0) {
			n = no_numbers(name, object);
			break;
		}
	}
	Py_DECREF(tuple);
	return (int)n;
}

int shape_argument(
	const char *name, PyObject *object, int64_t ret[TARN_NDIM_MAX])
{
	if (PyTuple_Check(object) || PyList_Check(object) ||
		!is_whole_number(object))
		return sequence_numbers(name, object, ret);
	return int_argument(object, &ret[0]) < 0 ? -1 : 1;
}

int shape_arguments(const char *name, PyObject *const *args, Py_ssize_t n_args,
	int64_t ret[TARN_NDIM_MAX])
{
	if (n_args == 1)
		return shape_argument(name, args[0], ret);
	if (n_args > TARN_NDIM_MAX)
		return too_many(name);
	for (Py_ssize_t i = 0; i < n_args; i++)
		if (int_argument(args[i], &ret[i]) < 0)
			return -1;
	return (int)n_args;
}

int dims_arguments(const char *name, PyObject *const *args, Py_ssize_t n_args,
	int ret[TARN_NDIM_MAX])
{
	int64_t given[TARN_NDIM_MAX];
	int n = shape_arguments(name, args, n_args, given);

	for (int i = 0; i < n; i++)
		if (check_dim(name, given[i], &ret[i]) < 0)
			return -1;
	return n;
}

static int take_keyword(const char *name, const char *const *names,
	PyObject *key, PyObject *value, PyObject **rets)
{
	for (int i = 0; names[i]; i++) {
		if (PyUnicode_CompareWithASCIIString(key, names[i]) != 0)
			continue;
		if (rets[i]) {
			PyErr_Format(PyExc_TypeError,
				"%s() got '%s' by position and by name", name,
				names[i]);
			return -1;
		}
		rets[i] = value;
		return 0;
	}
	PyErr_Format(PyExc_TypeError, "%s() has no argument '%U'", name, key);
	return -1;
}

int named_arguments(const char *name, const char *const *names, int required,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords,
	PyObject **rets)
{
	Py_ssize_t n_keywords = keywords ? PyTuple_Size(keywords) : 0;
	int n_names = 0;

	while (names[n_names])
		rets[n_names++] = NULL;
	if (n_args > n_names) {
		PyErr_Format(PyExc_TypeError,
			"%s() takes at most %d arguments (%zd given)", name,
			n_names, n_args);
		return -1;
	}
	for (Py_ssize_t i = 0; i < n_args; i++)
		rets[i] = args[i];
	for (Py_ssize_t i = 0; i < n_keywords; i++)
		if (take_keyword(name, names, PyTuple_GetItem(keywords, i),
			    args[n_args + i], rets) < 0)
			return -1;
	for (int i = 0; i < required; i++) {
		if (rets[i])
			continue;
		PyErr_Format(PyExc_TypeError, "%s() misses the argument '%s'",
			name, names[i]);
		return -1;
	}
	return 0;
}

int named_numbers(const char *name, const char *const *names, int required,
	unsigned dims, PyObject *const *args, Py_ssize_t n_args,
	PyObject *keywords, int64_t *rets)
{
	PyObject *given[8]; /* more than any of our functions has */
	int dim;

	if (named_arguments(
		    name, names, required, args, n_args, keywords, given) < 0)
		return -1;
	for (int i = 0; names[i]; i++) {
		if (!given[i])
			continue;
		if (!(dims & 1u << i)) {
			if (int_argument(given[i], &rets[i]) < 0)
				return -1;
			continue;
		}
		if (dim_argument(name, given[i], &dim) < 0)
			return -1;
		rets[i] = dim;
	}
	return 0;
}
