// SPDX-License-Identifier: MIT
/*
 * Sources of records that are made of other sources: columns, side by side, and
 * chains, one after another; and ragged rows, which are for columns.
 */
#include "python/data.h"

#include <stdlib.h>

PyObject *data_source_ragged(PyObject *type, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"values", "offsets", NULL};
	PyObject *given[2], *values, *offsets = NULL;
	tarn_data_source *source = NULL;
	int r;

	if (named_arguments("ragged", names, 2, args, n_args, keywords, given) <
		0)
		return NULL;
	values = tensor_source(given[0], 0);
	if (values)
		offsets = tensor_source(given[1], 0);
	if (!offsets) {
		Py_XDECREF(values);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS
	r = tarn_data_source_ragged(
		tensor_of(values), tensor_of(offsets), &source);
	Py_END_ALLOW_THREADS
	if (r < 0) {
		Py_DECREF(values);
		Py_DECREF(offsets);
		return raise_system(r);
	}
	return data_source_wrap_consume(type, source,
		PyUnicode_FromString("ragged"),
		Py_BuildValue("(NN)", values, offsets));
}

/* ---- columns ------------------------------------------------------- */

/* A list of pairs of name and Source, from a mapping whose values may be
 * tensors. NULL with an exception. */
static PyObject *column_pairs(PyObject *type, PyObject *mapping)
{
	PyObject *pairs = mapping_items("columns", mapping), *made;
	int r = pairs ? 0 : -1;

	for (Py_ssize_t i = 0; r >= 0 && i < PyList_Size(pairs); i++) {
		PyObject *pair = PyList_GetItem(pairs, i);
		PyObject *value = PyTuple_GetItem(pair, 1);

		if (!value || !text_argument(PyTuple_GetItem(pair, 0)))
			r = -1;
		else if (Py_TYPE(value) != data_source_type) {
			made = data_source_rows(type, value);
			made = Py_BuildValue(
				"(ON)", PyTuple_GetItem(pair, 0), made);
			r = made ? PyList_SetItem(pairs, i, made) : -1;
		}
	}
	if (r < 0)
		Py_CLEAR(pairs);
	return pairs;
}

PyObject *data_source_columns(PyObject *type, PyObject *mapping)
{
	PyObject *pairs = column_pairs(type, mapping), *columns;
	size_t n = pairs ? (size_t)PyList_Size(pairs) : 0;
	struct tarn_data_column *list =
		pairs ? calloc(n + 1, sizeof(*list)) : NULL;
	tarn_data_source *source = NULL;
	int r;

	if (!list) {
		Py_XDECREF(pairs);
		return pairs ? PyErr_NoMemory() : NULL;
	}
	for (size_t i = 0; i < n; i++) {
		PyObject *pair = PyList_GetItem(pairs, (Py_ssize_t)i);

		list[i].name = text_argument(PyTuple_GetItem(pair, 0));
		list[i].source =
			data_source_of(PyTuple_GetItem(pair, 1))->source;
	}
	r = tarn_data_source_columns(list, n, &source);
	free(list);
	columns = r < 0 ? raise_system(r) : PyDict_New();
	if (columns && PyDict_MergeFromSeq2(columns, pairs, true) < 0)
		Py_CLEAR(columns);
	Py_DECREF(pairs);
	if (!columns) {
		tarn_data_source_unref(source);
		return NULL;
	}
	return data_source_wrap_consume(type, source,
		PyUnicode_FromString("columns"), Py_BuildValue("(N)", columns));
}

/* ---- chains -------------------------------------------------------- */

static int check_links(PyObject *links)
{
	for (Py_ssize_t i = 0; i < PyTuple_Size(links); i++)
		if (Py_TYPE(PyTuple_GetItem(links, i)) != data_source_type) {
			PyErr_Format(PyExc_TypeError,
				"chain: source %zd is %R, and no Source", i,
				PyTuple_GetItem(links, i));
			return -1;
		}
	return 0;
}

PyObject *data_source_chain(PyObject *type, PyObject *sources)
{
	PyObject *links = PySequence_Tuple(sources);
	tarn_data_source **list, *source = NULL;
	size_t n;
	int r;

	if (!links || check_links(links) < 0) {
		Py_XDECREF(links);
		return NULL;
	}
	n = (size_t)PyTuple_Size(links);
	list = calloc(n + 1, sizeof(*list));
	if (!list) {
		Py_DECREF(links);
		return PyErr_NoMemory();
	}
	for (size_t i = 0; i < n; i++)
		list[i] = data_source_of(PyTuple_GetItem(links, (Py_ssize_t)i))
				  ->source;
	r = tarn_data_source_chain(list, n, &source);
	free(list);
	if (r < 0) {
		Py_DECREF(links);
		return raise_system(r);
	}
	return data_source_wrap_consume(type, source,
		PyUnicode_FromString("chain"), Py_BuildValue("(N)", links));
}
