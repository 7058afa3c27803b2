// SPDX-License-Identifier: MIT
/*
 * What the Python array API standard wants of an array itself. Its functions are
 * in tarn.array_api.
 */
#include "python/module.h"

static PyObject *array_namespace(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"api_version", NULL};
	PyObject *version, *module, *result;

	if (named_arguments("__array_namespace__", names, 0, args, n_args,
		    keywords, &version) < 0)
		return NULL;
	module = PyImport_ImportModule("tarn.array_api");
	if (!module)
		return NULL;
	result = PyObject_CallMethod(
		module, "_namespace", "O", version ? version : Py_None);
	Py_DECREF(module);
	return result;
}

static PyObject *to_device(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"device", "stream", NULL};
	PyObject *given[2], *method, *positional, *named, *result = NULL;

	if (named_arguments(
		    "to_device", names, 1, args, n_args, keywords, given) < 0)
		return NULL;
	method = PyObject_GetAttrString(self, "to");
	positional = PyTuple_Pack(1, given[0]);
	named = Py_BuildValue("{sO}", "stream", given[1] ? given[1] : Py_None);
	if (method && positional && named)
		result = PyObject_Call(method, positional, named);
	Py_XDECREF(method);
	Py_XDECREF(positional);
	Py_XDECREF(named);
	return result;
}

static PyObject *tensor_complex(PyObject *self, PyObject *none)
{
	PyObject *single = tensor_single(self, "complex"), *r;

	if (!single)
		return NULL;
	r = PyObject_CallFunctionObjArgs(
		(PyObject *)&PyComplex_Type, single, NULL);
	Py_DECREF(single);
	return r;
}

static bool is_index(PyObject *self)
{
	enum number_kind kind = element_kind(layout_of(self)->dtype);

	return layout_of(self)->ndim == 0 &&
	       (kind == KIND_INT || kind == KIND_UNSIGNED);
}

PyObject *tensor_index(PyObject *self)
{
	if (is_index(self))
		return tensor_single(self, "an index");
	PyErr_Format(PyExc_TypeError,
		"an index is an integer tensor without dimensions, not one of "
		"%s with %d",
		tarn_dtype_name(layout_of(self)->dtype), layout_of(self)->ndim);
	return NULL;
}

bool is_whole_number(PyObject *object)
{
	return PyIndex_Check(object) &&
	       (!is_tensor(object) || is_index(object));
}

static PyObject *matrix_transposed(PyObject *self, void *closure)
{
	const struct tarn_layout *l = layout_of(self);
	struct tarn_layout layout;

	if (l->ndim < 2) {
		PyErr_Format(PyExc_ValueError,
			"mT: a matrix, or a stack of them, is wanted; this has "
			"%d dimensions",
			l->ndim);
		return NULL;
	}
	return tensor_view(
		self, tarn_layout_transpose(l, -2, -1, &layout), &layout);
}

PyMethodDef standard_methods[] = {
	{"__array_namespace__", EXPORT(array_namespace), FAST_KEYWORDS,
		"__array_namespace__($self, /, *, api_version=None)\n--\n\n"
		"tarn.array_api."},
	{"__complex__", tensor_complex, METH_NOARGS,
		"__complex__($self, /)\n--\n\n"
		"The one element, as a complex number."},
	{"to_device", EXPORT(to_device), FAST_KEYWORDS,
		"to_device($self, device, /, *, stream=None)\n--\n\n"
		"to(), as the array API standard calls it."},
	{0},
};

PyGetSetDef standard_properties[] = {
	{"mT", matrix_transposed, NULL,
		"The last two dimensions, exchanged: each matrix of a stack,\n"
		"transposed.",
		NULL},
	{0},
};
