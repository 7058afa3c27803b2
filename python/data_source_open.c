// SPDX-License-Identifier: MIT
/*
 * How a tarn.data.Source is made: of files, or of tensors. Each keeps what it was
 * made of, so that another process can make it again.
 */
#include "python/data.h"

#include <errno.h>
#include <stdlib.h>

/* ---- making -------------------------------------------------------- */

/* Takes the source and the arguments over, also when it fails. */
static PyObject *wrap_consume(PyObject *type, tarn_data_source *source,
	const char *how, PyObject *arguments)
{
	allocfunc alloc = PyType_GetSlot((PyTypeObject *)type, Py_tp_alloc);
	PyObject *self = arguments ? alloc((PyTypeObject *)type, 0) : NULL;

	if (!self) {
		tarn_data_source_unref(source);
		Py_XDECREF(arguments);
		return NULL;
	}
	data_source_of(self)->source = source;
	data_source_of(self)->arguments = arguments;
	data_source_of(self)->how = PyUnicode_FromString(how);
	if (!data_source_of(self)->how) {
		Py_DECREF(self);
		return NULL;
	}
	return self;
}

PyObject *data_source_new(
	PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	PyErr_SetString(PyExc_TypeError,
		"a Source is made by Source.open(paths), Source.tokens(values) "
		"or Source.rows(tensor)");
	return NULL;
}

/* One path or several: a list of bytes, which the caller drops. */
static PyObject *paths_argument(PyObject *paths)
{
	PyObject *list = PyList_New(0), *tuple, *path;
	bool one = PyUnicode_Check(paths) || PyBytes_Check(paths) ||
		   PyObject_HasAttrString(paths, "__fspath__");

	tuple = one ? PyTuple_Pack(1, paths) : PySequence_Tuple(paths);
	for (Py_ssize_t i = 0; list && tuple && i < PyTuple_Size(tuple); i++) {
		if (PyUnicode_FSConverter(PyTuple_GetItem(tuple, i), &path)) {
			if (PyList_Append(list, path) >= 0) {
				Py_DECREF(path);
				continue;
			}
			Py_DECREF(path);
		}
		Py_CLEAR(list);
	}
	if (!tuple)
		Py_CLEAR(list);
	Py_XDECREF(tuple);
	return list;
}

static int open_paths(PyObject *list,
	const struct tarn_data_source_options *options, tarn_data_source **ret)
{
	size_t n = (size_t)PyList_Size(list);
	const char **paths = calloc(n + 1, sizeof(*paths));
	int r;

	if (!paths) {
		PyErr_NoMemory();
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++)
		paths[i] =
			PyBytes_AsString(PyList_GetItem(list, (Py_ssize_t)i));
	Py_BEGIN_ALLOW_THREADS
	r = tarn_data_source_open(paths, n, options, ret);
	Py_END_ALLOW_THREADS
	free(paths);
	if (r < 0)
		raise_system(r);
	return r;
}

PyObject *data_source_open(PyObject *type, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {
		"paths", "dtype", "token_bytes", NULL};
	struct tarn_data_source_options options = {.token_bytes = 0};
	tarn_data_source *source = NULL;
	PyObject *given[3], *list;
	int64_t bytes = 0;
	int r;

	if (named_arguments("open", names, 1, args, n_args, keywords, given) <
		0)
		return NULL;
	if (given[1] && given[1] != Py_None) {
		options.dtype = (enum tarn_dtype)dtype_argument(given[1]);
		if (!options.dtype)
			return NULL;
	}
	if (given[2] && given[2] != Py_None &&
		int_argument(given[2], &bytes) < 0)
		return NULL;
	if (bytes < 0 || bytes > 4) {
		PyErr_Format(PyExc_ValueError,
			"open: token_bytes is %R; tokens have 1 to 4",
			given[2]);
		return NULL;
	}
	options.token_bytes = (unsigned)bytes;
	list = paths_argument(given[0]);
	r = list ? open_paths(list, &options, &source) : -1;
	if (r < 0) {
		Py_XDECREF(list);
		return NULL;
	}
	return wrap_consume(type, source, "open",
		Py_BuildValue("(NOi)", list, given[1] ? given[1] : Py_None,
			(int)bytes));
}

PyObject *data_source_tokens(PyObject *type, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"values", "offsets", NULL};
	PyObject *given[2], *values, *offsets = NULL;
	tarn_data_source *source = NULL;
	int r;

	if (named_arguments("tokens", names, 1, args, n_args, keywords, given) <
		0)
		return NULL;
	values = tensor_source(given[0], 0);
	if (values && given[1] && given[1] != Py_None) {
		offsets = tensor_source(given[1], 0);
		if (!offsets)
			Py_CLEAR(values);
	}
	if (!values)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_data_source_tokens(tensor_of(values),
		offsets ? tensor_of(offsets) : NULL, &source);
	Py_END_ALLOW_THREADS
	if (r < 0) {
		Py_DECREF(values);
		Py_XDECREF(offsets);
		return raise_system(r);
	}
	if (!offsets) {
		offsets = Py_None;
		Py_INCREF(offsets);
	}
	return wrap_consume(
		type, source, "tokens", Py_BuildValue("(NN)", values, offsets));
}

PyObject *data_source_rows(PyObject *type, PyObject *tensor)
{
	PyObject *rows = tensor_source(tensor, 0);
	tarn_data_source *source = NULL;
	int r;

	if (!rows)
		return NULL;
	r = tarn_data_source_rows(tensor_of(rows), &source);
	if (r < 0) {
		Py_DECREF(rows);
		return raise_system(r);
	}
	return wrap_consume(type, source, "rows", Py_BuildValue("(N)", rows));
}
