// SPDX-License-Identifier: MIT
/*
 * Packing: the walk through an object that writes the tree. Plain types have
 * tags of their own; what is none is pickled, for itself alone: the arrays in
 * it come beside the pickle, as any others (tarn/_pickled.py).
 */
#include "python/pack.h"

#include <stdlib.h>
#include <string.h>

/* Bytes up to here lie in the tree; longer ones are copied once, not twice. */
#define SHORT_BYTES 1024

/* ---- plain values -------------------------------------------------- */

static int pack_counted(
	struct packer *p, enum pack_tag tag, const void *data, Py_ssize_t n)
{
	if (pack_tag(p, tag) < 0 || pack_number(p, (uint64_t)n) < 0)
		return -1;
	return pack_raw(p, data, (size_t)n);
}

static int pack_big(struct packer *p, PyObject *number)
{
	PyObject *bits = PyObject_CallMethod(number, "bit_length", NULL);
	Py_ssize_t n = bits ? PyLong_AsSsize_t(bits) : -1;
	PyObject *method = NULL, *args = NULL, *names = NULL, *bytes = NULL;
	int r = -1;

	Py_XDECREF(bits);
	if (n < 0)
		return -1;
	method = PyObject_GetAttrString(number, "to_bytes");
	args = Py_BuildValue("(ns)", n / 8 + 1, "little");
	names = Py_BuildValue("{s:O}", "signed", Py_True);
	if (method && args && names)
		bytes = PyObject_Call(method, args, names);
	if (bytes)
		r = pack_counted(p, PACK_BIG_INT, PyBytes_AsString(bytes),
			PyBytes_Size(bytes));
	Py_XDECREF(method);
	Py_XDECREF(args);
	Py_XDECREF(names);
	Py_XDECREF(bytes);
	return r;
}

static int pack_int(struct packer *p, PyObject *number)
{
	int overflow;
	long long value = PyLong_AsLongLongAndOverflow(number, &overflow);

	if (overflow)
		return pack_big(p, number);
	if (value == -1 && PyErr_Occurred())
		return -1;
	return pack_tag(p, PACK_INT) < 0 ? -1 : pack_signed(p, value);
}

static int pack_text(struct packer *p, PyObject *text)
{
	Py_ssize_t n;
	const char *data = PyUnicode_AsUTF8AndSize(text, &n);
	PyObject *bytes;
	int r;

	if (data)
		return pack_counted(p, PACK_TEXT, data, n);
	if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
		return -1;
	PyErr_Clear();
	bytes = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
	if (!bytes)
		return -1;
	r = pack_counted(
		p, PACK_ODD_TEXT, PyBytes_AsString(bytes), PyBytes_Size(bytes));
	Py_DECREF(bytes);
	return r;
}

static int pack_float(struct packer *p, PyObject *number)
{
	double value = PyFloat_AsDouble(number);

	if (pack_tag(p, PACK_FLOAT) < 0)
		return -1;
	return pack_raw(p, &value, sizeof(value));
}

static int pack_complex(struct packer *p, PyObject *number)
{
	double value[2] = {
		PyComplex_RealAsDouble(number), PyComplex_ImagAsDouble(number)};

	if (pack_tag(p, PACK_COMPLEX) < 0)
		return -1;
	return pack_raw(p, value, sizeof(value));
}

static int pack_bytes(struct packer *p, PyObject *bytes)
{
	Py_ssize_t n = PyBytes_Size(bytes);
	const char *data = PyBytes_AsString(bytes);

	if (n <= SHORT_BYTES)
		return pack_counted(p, PACK_BYTES, data, n);
	return pack_memory(p, PACK_LONG_BYTES, bytes, data, (uint64_t)n);
}

/* A long one is kept from changing its size by its buffer. */
static int pack_bytearray(struct packer *p, PyObject *bytes)
{
	Py_ssize_t n = PyByteArray_Size(bytes);

	if (n <= SHORT_BYTES)
		return pack_counted(
			p, PACK_BYTEARRAY, PyByteArray_AsString(bytes), n);
	return pack_memory(p, PACK_LONG_BYTEARRAY, bytes, NULL, 0);
}

/* ---- what holds values --------------------------------------------- */

static int changed(void)
{
	PyErr_SetString(
		PyExc_RuntimeError, "put: a list or dict changed meanwhile");
	return -1;
}

/* Another thread could change a shared object while we look at it; without a
 * global lock even in the middle of a step. A new reference. */
static PyObject *steady(PyObject *object)
{
#ifdef Py_GIL_DISABLED
	if (PyDict_CheckExact(object))
		return PyDict_Copy(object);
	if (PyList_CheckExact(object))
		return PyList_GetSlice(object, 0, PY_SSIZE_T_MAX);
#endif
	Py_INCREF(object);
	return object;
}

static int pack_items(struct packer *p, PyObject *object, bool tuple)
{
	Py_ssize_t n = tuple ? PyTuple_Size(object) : PyList_Size(object);
	PyObject *item;
	int r;

	if (pack_tag(p, tuple ? PACK_TUPLE : PACK_LIST) < 0 ||
		pack_number(p, (uint64_t)n) < 0)
		return -1;
	for (Py_ssize_t i = 0; i < n; i++) {
		if (!tuple && PyList_Size(object) != n)
			return changed();
		item = tuple ? PyTuple_GetItem(object, i)
			     : PyList_GetItem(object, i);
		if (!item)
			return -1;
		Py_INCREF(item);
		r = pack_value(p, item);
		Py_DECREF(item);
		if (r < 0)
			return -1;
	}
	return 0;
}

static int pack_pairs(struct packer *p, PyObject *dict)
{
	Py_ssize_t n = PyDict_Size(dict), at = 0, seen = 0;
	PyObject *key, *value;
	int r;

	if (pack_tag(p, PACK_DICT) < 0 || pack_number(p, (uint64_t)n) < 0)
		return -1;
	while (PyDict_Next(dict, &at, &key, &value)) {
		if (++seen > n)
			break;
		Py_INCREF(key);
		Py_INCREF(value);
		r = pack_value(p, key) < 0 ? -1 : pack_value(p, value);
		Py_DECREF(key);
		Py_DECREF(value);
		if (r < 0)
			return -1;
	}
	return seen == n && PyDict_Size(dict) == n ? 0 : changed();
}

static int pack_set(struct packer *p, PyObject *set, enum pack_tag tag)
{
	PyObject *tuple = PySequence_Tuple(set);
	int r = tuple ? pack_tag(p, tag) : -1;

	if (r >= 0)
		r = pack_items(p, tuple, true);
	Py_XDECREF(tuple);
	return r;
}

/* The helper's (bytes, arrays, buffers). */
static int pack_pickle(struct packer *p, PyObject *object)
{
	PyObject *helpers, *parts = NULL;
	int r = -1;

	if (p->plain) {
		PyErr_Format(PyExc_TypeError,
			"put: a %R is no plain type, and this channel does "
			"not pickle",
			(PyObject *)Py_TYPE(object));
		return -1;
	}
	p->others_ran = true;
	helpers = PyImport_ImportModule("tarn._pickled");
	if (helpers)
		parts = PyObject_CallMethod(helpers, "dumps", "(O)", object);
	Py_XDECREF(helpers);
	if (parts && pack_tag(p, PACK_PICKLE) >= 0)
		r = pack_items(p, parts, true);
	Py_XDECREF(parts);
	return r;
}

/* ---- any value ----------------------------------------------------- */

static int pack_holder(struct packer *p, PyObject *object)
{
	PyObject *held;
	int r;

	if (Py_EnterRecursiveCall(" while packing an item"))
		return -1;
	held = steady(object);
	if (!held)
		r = -1;
	else if (PyDict_CheckExact(held))
		r = pack_pairs(p, held);
	else if (PyList_CheckExact(held) || PyTuple_CheckExact(held))
		r = pack_items(p, held, PyTuple_CheckExact(held));
	else if (PyAnySet_CheckExact(held))
		r = pack_set(p, held,
			PyFrozenSet_CheckExact(held) ? PACK_FROZENSET
						     : PACK_SET);
	else
		r = pack_pickle(p, held);
	Py_XDECREF(held);
	Py_LeaveRecursiveCall();
	return r;
}

int pack_value(struct packer *p, PyObject *object)
{
	int r;

	if (object == Py_None)
		return pack_tag(p, PACK_NONE);
	if (object == Py_True || object == Py_False)
		return pack_tag(p, object == Py_True ? PACK_TRUE : PACK_FALSE);
	if (PyUnicode_CheckExact(object))
		return pack_text(p, object);
	if (PyLong_CheckExact(object))
		return pack_int(p, object);
	if (PyFloat_CheckExact(object))
		return pack_float(p, object);
	if (PyDict_CheckExact(object) || PyList_CheckExact(object) ||
		PyTuple_CheckExact(object))
		return pack_holder(p, object);
	if (PyBytes_CheckExact(object))
		return pack_bytes(p, object);
	if (PyComplex_CheckExact(object))
		return pack_complex(p, object);
	if (PyByteArray_CheckExact(object))
		return pack_bytearray(p, object);
	r = pack_array(p, object);
	if (r != 0)
		return r < 0 ? -1 : 0;
	return pack_holder(p, object);
}
