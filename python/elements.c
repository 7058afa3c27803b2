// SPDX-License-Identifier: MIT
/*
 * All elements as Python's numbers. They are first converted to the one dtype
 * whose bits are Python's own, which is exact, and then made into objects.
 */
#include "python/module.h"

#include <string.h>

static const int plain_dtypes[] = {
	[KIND_BOOL] = TARN_BOOL,
	[KIND_INT] = TARN_I64,
	[KIND_UNSIGNED] = TARN_U64,
	[KIND_FLOAT] = TARN_F64,
	[KIND_COMPLEX] = TARN_C64,
};

/* The element at *at, which is moved on. */
static PyObject *next_number(enum number_kind kind, const char **at)
{
	const char *p = *at;
	float pair[2];
	int64_t integer;
	double real;

	*at += tarn_dtype_bits(plain_dtypes[kind]) / 8;
	switch (kind) {
	case KIND_BOOL:
		return PyBool_FromLong(*p != 0);
	case KIND_FLOAT:
		memcpy(&real, p, sizeof(real));
		return PyFloat_FromDouble(real);
	case KIND_COMPLEX:
		memcpy(pair, p, sizeof(pair));
		return PyComplex_FromDoubles(pair[0], pair[1]);
	default:
		memcpy(&integer, p, sizeof(integer));
		if (kind == KIND_UNSIGNED)
			return PyLong_FromUnsignedLongLong((uint64_t)integer);
		return PyLong_FromLongLong(integer);
	}
}

static PyObject *nested_list(const struct tarn_layout *l, int dim,
	enum number_kind kind, const char **at)
{
	PyObject *list, *item;

	if (dim == l->ndim)
		return next_number(kind, at);
	list = PyList_New((Py_ssize_t)l->shape[dim]);
	for (int64_t i = 0; list && i < l->shape[dim]; i++) {
		item = nested_list(l, dim + 1, kind, at);
		if (item && PyList_SetItem(list, (Py_ssize_t)i, item) == 0)
			continue;
		Py_DECREF(list);
		return NULL;
	}
	return list;
}

PyObject *tensor_tolist(PyObject *self, PyObject *none)
{
	const struct tarn_layout *l = layout_of(self);
	enum number_kind kind = element_kind(l->dtype);
	tarn_tensor *plain = copy_as(tensor_of(self), plain_dtypes[kind]);
	PyObject *list;
	const char *at;

	if (!plain)
		return NULL;
	at = tarn_tensor_data(plain);
	list = nested_list(l, 0, kind, &at);
	tarn_tensor_unref(plain);
	return list;
}

/* So many elements are converted at once: half a MiB, or the blink of an
 * eye. */
#define BLOCK (64 << 10)
/* Where a dimension is cut, whole bytes are wanted of any dtype. */
#define CUT 64

static int block_contains(const tarn_tensor *tensor, PyObject *wanted)
{
	const struct tarn_layout *l = tarn_tensor_layout(tensor);
	enum number_kind kind = element_kind(l->dtype);
	tarn_tensor *plain = copy_as(tensor, plain_dtypes[kind]);
	PyObject *number;
	const char *at;
	int r = 0;

	if (!plain)
		return -1;
	at = tarn_tensor_data(plain);
	for (int64_t left = tarn_layout_numel(l); left > 0 && r == 0; left--) {
		number = next_number(kind, &at);
		r = number ? PyObject_RichCompareBool(number, wanted, Py_EQ)
			   : -1;
		Py_XDECREF(number);
	}
	tarn_tensor_unref(plain);
	return r;
}

/* In halves of the first dimension that has any, which are in C order; between
 * blocks signals are looked for. */
static int contains(tarn_tensor *tensor, PyObject *wanted)
{
	const struct tarn_layout *l = tarn_tensor_layout(tensor);
	int64_t cuts[3] = {0};
	struct tarn_layout half;
	tarn_tensor *part;
	int dim = 0, r = 0;

	if (tarn_layout_numel(l) <= BLOCK)
		return PyErr_CheckSignals() < 0
			       ? -1
			       : block_contains(tensor, wanted);
	while (l->shape[dim] == 1)
		dim++;
	cuts[2] = l->shape[dim];
	cuts[1] = cuts[2] / 2;
	cuts[1] -= cuts[1] > CUT ? cuts[1] % CUT : 0;
	for (int i = 0; i < 2 && r == 0; i++) {
		r = tarn_layout_narrow(
			l, dim, cuts[i], cuts[i + 1] - cuts[i], &half);
		if (r >= 0)
			r = tarn_tensor_with_layout(tensor, &half, &part);
		if (r < 0) {
			raise_view(r);
			return -1;
		}
		r = contains(part, wanted);
		tarn_tensor_unref(part);
	}
	return r;
}

/* Is one of them equal to it, for any rank? (Iteration would compare it with
 * rows.) */
int tensor_contains(PyObject *self, PyObject *value)
{
	PyObject *wanted = value;
	int r;

	if (is_tensor(value))
		wanted = tensor_single(value, "in");
	else
		Py_INCREF(wanted);
	if (!wanted)
		return -1;
	r = contains(tensor_of(self), wanted);
	Py_DECREF(wanted);
	return r;
}
