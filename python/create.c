// SPDX-License-Identifier: MIT
/*
 * New tensors: zeros, ones, full, arange, and from nested lists. Floating
 * numbers are F32 by default, as in PyTorch, and integers I64.
 */
#include "python/device.h"
#include "python/module.h"

#include <string.h>

static int dtype_or(PyObject *given, int otherwise)
{
	return given && given != Py_None ? dtype_argument(given) : otherwise;
}

/* verb(shape, dtype=F32, device=None), for what the library makes of those; on
 * a device zeros are made there, and others are copied to it. */
static PyObject *of_shape(const char *verb,
	int (*make)(enum tarn_dtype, int, const int64_t *, tarn_tensor **),
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"shape", "dtype", "device", NULL};
	int64_t shape[TARN_NDIM_MAX];
	struct place place;
	PyObject *given[3];
	tarn_tensor *made;
	int n, dtype, r;

	if (named_arguments(verb, names, 1, args, n_args, keywords, given) < 0)
		return NULL;
	if (given[1] && PyLong_Check(given[1])) {
		PyErr_Format(PyExc_TypeError,
			"%s: %R is no dtype; the shape is one argument: "
			"%s((%R, %R, ...), dtype)",
			verb, given[1], verb, given[0], given[1]);
		return NULL;
	}
	dtype = dtype_or(given[1], TARN_F32);
	n = dtype ? shape_argument(verb, given[0], shape) : -1;
	if (n < 0 || optional_place(verb, given[2], &place) < 0)
		return NULL;
	if (place.on_device && make == tarn_tensor_zeros) {
		made = new_tensor_at(verb, &place, dtype, n, shape);
		return made ? tensor_wrap_consume(made) : NULL;
	}
	r = make(dtype, n, shape, &made);
	if (r < 0)
		return raise_view_as(verb, r);
	return moved_consume(tensor_wrap_consume(made), &place);
}

static PyObject *zeros(PyObject *module, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	return of_shape("zeros", tarn_tensor_zeros, args, n_args, keywords);
}

static PyObject *ones(PyObject *module, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	return of_shape("ones", tarn_tensor_ones, args, n_args, keywords);
}

/* Memory that is fresh from the system is zero anyway. */
static PyObject *empty(PyObject *module, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	return of_shape("empty", tarn_tensor_zeros, args, n_args, keywords);
}

/* The dtype that a Python number has by itself. */
static int dtype_of_number(PyObject *value)
{
	if (PyBool_Check(value))
		return TARN_BOOL;
	if (PyComplex_Check(value))
		return TARN_C64;
	if (is_tensor(value))
		return layout_of(value)->dtype;
	return PyFloat_Check(value) || !PyIndex_Check(value) ? TARN_F32
							     : TARN_I64;
}

/* A number everywhere: one element is set, and copied to all. */
static PyObject *full(PyObject *module, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {
		"shape", "value", "dtype", "device", NULL};
	int64_t shape[TARN_NDIM_MAX];
	PyObject *given[4], *made;
	tarn_tensor *tensor;
	struct place place;
	int n, dtype;

	if (named_arguments("full", names, 2, args, n_args, keywords, given) <
		0)
		return NULL;
	dtype = dtype_or(given[2], dtype_of_number(given[1]));
	n = dtype ? shape_argument("full", given[0], shape) : -1;
	if (n < 0 || optional_place("full", given[3], &place) < 0)
		return NULL;
	tensor = new_tensor_at("full", &place, dtype, n, shape);
	made = tensor ? tensor_wrap_consume(tensor) : NULL;
	if (made && tensor_assign_subscript(made, Py_Ellipsis, given[1]) < 0) {
		Py_DECREF(made);
		return NULL;
	}
	return made;
}

/* start, stop, step as range() has them; true if all are integers. */
static int range_numbers(PyObject **given, double *numbers, bool *ret_integers)
{
	PyObject *start = given[1] && given[1] != Py_None ? given[0] : NULL;
	PyObject *const items[] = {
		start, start ? given[1] : given[0], given[2]};

	*ret_integers = true;
	for (int i = 0; i < 3; i++) {
		if (!items[i] || items[i] == Py_None)
			continue;
		if (real_argument("arange", items[i], &numbers[i]) < 0)
			return -1;
		*ret_integers = *ret_integers && is_whole_number(items[i]);
	}
	return 0;
}

static PyObject *arange(PyObject *module, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {
		"start", "stop", "step", "dtype", "device", NULL};
	double numbers[3] = {0, 0, 1};
	struct place place;
	PyObject *given[5];
	tarn_tensor *made;
	bool integers;
	int dtype;

	if (named_arguments("arange", names, 1, args, n_args, keywords, given) <
			0 ||
		range_numbers(given, numbers, &integers) < 0)
		return NULL;
	dtype = dtype_or(given[3], integers ? TARN_I64 : TARN_F32);
	if (!dtype || optional_place("arange", given[4], &place) < 0)
		return NULL;
	return moved_consume(
		tensor_wrap_result(tarn_tensor_arange(dtype, numbers[0],
					   numbers[1], numbers[2], &made),
			&made),
		&place);
}

/* ---- nested lists -------------------------------------------------- */

struct nested {
	int ndim, dtype;
	int64_t shape[TARN_NDIM_MAX];
	tarn_tensor *flat; /* the result as one dimension */
	int64_t next;      /* element of it */
};

static bool is_list(PyObject *object)
{
	return PyList_Check(object) || PyTuple_Check(object);
}

/* The shape, by the first item of each level. */
static int measure(struct nested *n, PyObject *data)
{
	Py_ssize_t size;

	while (is_list(data)) {
		if (n->ndim == TARN_NDIM_MAX) {
			PyErr_Format(PyExc_ValueError,
				"tensor: lists are nested deeper than %d",
				TARN_NDIM_MAX);
			return -1;
		}
		size = PySequence_Size(data);
		n->shape[n->ndim++] = size;
		if (size == 0)
			return 0;
		data = PyList_Check(data) ? PyList_GetItem(data, 0)
					  : PyTuple_GetItem(data, 0);
	}
	return 0;
}

/* BOOL, I64, F32, C64: each holds what those before it hold. */
static int wider(int a, int b)
{
	static const int order[] = {0, TARN_BOOL, TARN_I64, TARN_F32, TARN_C64};
	int rank_a = 0, rank_b = 0;

	for (int i = 1; i < 5; i++) {
		rank_a = order[i] == a ? i : rank_a;
		rank_b = order[i] == b ? i : rank_b;
	}
	return rank_a > rank_b ? a : b;
}

static int take_number(struct nested *n, PyObject *value)
{
	if (n->flat)
		return element_set(n->flat, &n->next, value);
	if (!is_number(value)) {
		PyErr_Format(PyExc_TypeError,
			"tensor: %R is no number and no list of them", value);
		return -1;
	}
	n->dtype = wider(n->dtype, dtype_of_number(value));
	return 0;
}

/* Twice: without n->flat to look, with it to fill. */
static int walk(struct nested *n, PyObject *data, int dim)
{
	PyObject *item;
	int r = 0;

	if (dim == n->ndim && !is_list(data)) {
		r = take_number(n, data);
		n->next++;
		return r;
	}
	if (dim == n->ndim || !is_list(data) ||
		PySequence_Size(data) != n->shape[dim]) {
		PyErr_Format(PyExc_ValueError,
			"tensor: %R is not as long or as deep as its "
			"neighbours",
			data);
		return -1;
	}
	for (int64_t i = 0; r >= 0 && i < n->shape[dim]; i++) {
		/* Numbers run code of their own, which may change the list. */
		item = PySequence_GetItem(data, (Py_ssize_t)i);
		r = item ? walk(n, item, dim + 1) : -1;
		Py_XDECREF(item);
	}
	return r;
}

PyObject *tensor_from_lists(PyObject *data, int dtype)
{
	struct nested n = {0};
	tarn_tensor *made = NULL;
	int r;

	if (measure(&n, data) < 0 || walk(&n, data, 0) < 0)
		return NULL;
	if (dtype)
		n.dtype = dtype;
	else if (!n.dtype)
		n.dtype = TARN_F32;
	r = new_tensor(n.dtype, n.ndim, n.shape, &made);
	if (r >= 0)
		r = tarn_tensor_flat_storage(made, &n.flat);
	n.next = 0;
	if (r < 0)
		raise_view(r);
	else
		r = walk(&n, data, 0);
	tarn_tensor_unref(n.flat);
	if (r >= 0)
		return tensor_wrap_consume(made);
	tarn_tensor_unref(made);
	return NULL;
}

static PyObject *from_array(
	PyObject *data, PyObject *dtype, const struct place *place)
{
	PyObject *source = tensor_from_object(data);
	tarn_tensor *copy = NULL;
	int type;

	if (!source)
		return NULL;
	type = dtype_or(dtype, layout_of(source)->dtype);
	if (type)
		copy = copy_to(tensor_of(source), place, type, NULL);
	Py_DECREF(source);
	return copy ? tensor_wrap_consume(copy) : NULL;
}

static PyObject *make_tensor(PyObject *module, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"data", "dtype", "device", NULL};
	struct place place;
	PyObject *given[3];
	int dtype = 0;

	if (named_arguments("tensor", names, 1, args, n_args, keywords, given) <
			0 ||
		optional_place("tensor", given[2], &place) < 0)
		return NULL;
	if (!is_list(given[0]) &&
		(is_tensor(given[0]) || shares_bytes(given[0])))
		return from_array(given[0], given[1], &place);
	if (given[1] && given[1] != Py_None) {
		dtype = dtype_argument(given[1]);
		if (!dtype)
			return NULL;
	}
	return moved_consume(tensor_from_lists(given[0], dtype), &place);
}

PyMethodDef create_functions[] = {
	{"zeros", EXPORT(zeros), FAST_KEYWORDS,
		"zeros(shape, dtype='F32', device=None)\n--\n\n"
		"A new tensor of zeros, on a device as Tensor.to has it."},
	{"ones", EXPORT(ones), FAST_KEYWORDS,
		"ones(shape, dtype='F32', device=None)\n--\n\n"
		"A new tensor of ones."},
	{"empty", EXPORT(empty), FAST_KEYWORDS,
		"empty(shape, dtype='F32', device=None)\n--\n\n"
		"A new tensor that is to be filled: what is in it until then "
		"is not\npromised."},
	{"full", EXPORT(full), FAST_KEYWORDS,
		"full(shape, value, dtype=None, device=None)\n--\n\n"
		"A new tensor of one value; its dtype is the value's: BOOL, "
		"I64,"
		"\nF32 or C64."},
	{"arange", EXPORT(arange), FAST_KEYWORDS,
		"arange(start, stop=None, step=1, dtype=None, device=None)\n--\n\n"
		"start, start + step, ... up to before stop; with one "
		"argument\n"
		"0, 1, ... I64 where all are integers, else F32."},
	{"tensor", EXPORT(make_tensor), FAST_KEYWORDS,
		"tensor(data, dtype=None, device=None)\n--\n\n"
		"A new tensor from a number, nested lists, or a copy of an\n"
		"array. Without a dtype: BOOL, I64, F32 or C64, or the "
		"array's."},
	{0},
};
