// SPDX-License-Identifier: MIT
/*
 * How a tarn.data.Source is made: of files, or of tensors. Each keeps what it was
 * made of, so that another process can make it again.
 */
#include "python/data.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- making -------------------------------------------------------- */

PyObject *data_source_wrap_consume(PyObject *type, tarn_data_source *source,
	PyObject *how, PyObject *arguments)
{
	allocfunc alloc = PyType_GetSlot((PyTypeObject *)type, Py_tp_alloc);
	PyObject *self =
		how && arguments ? alloc((PyTypeObject *)type, 0) : NULL;

	if (!self) {
		tarn_data_source_unref(source);
		Py_XDECREF(how);
		Py_XDECREF(arguments);
		return NULL;
	}
	data_source_of(self)->source = source;
	data_source_of(self)->process = getpid();
	data_source_of(self)->how = how;
	data_source_of(self)->arguments = arguments;
	return self;
}

PyObject *data_source_new(
	PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	PyErr_SetString(PyExc_TypeError,
		"a Source is made by Source.open(paths), or of tensors by "
		"Source.tokens, rows, ragged, columns and chain");
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

static int open_paths(PyObject *list, PyObject *call,
	struct tarn_data_source_options *options, tarn_data_source **ret)
{
	struct progress_call progress = {.call = call};
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
	options->progress = progress_step;
	options->arg = &progress;
	progress.state = PyEval_SaveThread();
	r = tarn_data_source_open(paths, n, options, ret);
	r = progress_end(&progress, r);
	free(paths);
	if (r >= 0)
		return r;
	/* It may have been over before it was cancelled. */
	*ret = tarn_data_source_unref(*ret);
	data_raise(r);
	return r;
}

enum { PATHS, DTYPE, TOKEN_BYTES, SIDE_CAR, INDEXES, THREADS, PROGRESS, COUNT };

static int take_tokens(
	PyObject *const given[COUNT], struct tarn_data_source_options *options)
{
	int64_t bytes = 0;

	if (given[DTYPE] && given[DTYPE] != Py_None) {
		options->dtype = (enum tarn_dtype)dtype_argument(given[DTYPE]);
		if (!options->dtype)
			return -1;
	}
	if (given[TOKEN_BYTES] && given[TOKEN_BYTES] != Py_None &&
		int_argument(given[TOKEN_BYTES], &bytes) < 0)
		return -1;
	if (bytes < 0 || bytes > 4) {
		PyErr_Format(PyExc_ValueError,
			"open: token_bytes is %R; tokens have 1 to 4",
			given[TOKEN_BYTES]);
		return -1;
	}
	options->token_bytes = (unsigned)bytes;
	return 0;
}

/* A tuple of n Tensors and Nones, or None: *ret is NULL. The tensors are the
 * tuple's. 0 or -1. */
static int take_indexes(PyObject *indexes, Py_ssize_t n, tarn_tensor ***ret)
{
	*ret = NULL;
	if (indexes == Py_None)
		return 0;
	if (PyTuple_Size(indexes) != n) {
		PyErr_Format(PyExc_ValueError,
			"open: %zd indexes, of %zd shards",
			PyTuple_Size(indexes), n);
		return -1;
	}
	*ret = calloc((size_t)n + 1, sizeof(**ret));
	if (!*ret) {
		PyErr_NoMemory();
		return -1;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *index = PyTuple_GetItem(indexes, i);

		if (is_tensor(index)) {
			(*ret)[i] = tensor_of(index);
		} else if (index != Py_None) {
			PyErr_Format(PyExc_TypeError,
				"open: index %zd is %R, and no Tensor", i,
				index);
			return -1;
		}
	}
	return 0;
}

/* Has a shard its index beside it? Folders that cannot be written have none. */
static bool has_side_car(PyObject *path)
{
	PyObject *name =
		PyBytes_FromFormat("%s.tarn-index", PyBytes_AsString(path));
	bool there = name && access(PyBytes_AsString(name), R_OK) == 0;

	/* Without memory for the name it is kept, which is never wrong. */
	if (!name)
		PyErr_Clear();
	Py_XDECREF(name);
	return there;
}

/* The index of a shard, or None where another process finds it beside it. */
static PyObject *index_to_keep(const tarn_data_source *source, PyObject *paths,
	Py_ssize_t i, bool side_car)
{
	tarn_tensor *index = NULL;
	int r;

	if (side_car && has_side_car(PyList_GetItem(paths, i)))
		Py_RETURN_NONE;
	r = tarn_data_source_index(source, (size_t)i, &index);
	return r < 0 ? data_raise(r) : tensor_wrap_consume(index);
}

/* What another process opens the same shards with, so that it need not look
 * through them; of other files None. A new reference. */
static PyObject *indexes_of(
	const tarn_data_source *source, PyObject *paths, bool side_car)
{
	struct tarn_data_source_info info;
	PyObject *list, *index;

	tarn_data_source_info(source, &info);
	if (strcmp(info.format, "tar") != 0)
		Py_RETURN_NONE;
	list = PyTuple_New(PyList_Size(paths));
	for (Py_ssize_t i = 0; list && i < PyList_Size(paths); i++) {
		index = index_to_keep(source, paths, i, side_car);
		if (!index || PyTuple_SetItem(list, i, index) < 0)
			Py_CLEAR(list);
	}
	return list;
}

/* Takes the list of paths, and indexes, a tuple or None, over. */
static PyObject *open_consume(PyObject *type, PyObject *list, PyObject *indexes,
	PyObject *call, PyObject *const given[COUNT],
	struct tarn_data_source_options *options)
{
	tarn_data_source *source = NULL;
	tarn_tensor **tensors = NULL;
	PyObject *kept = NULL, *made = NULL;

	if (list && indexes &&
		take_indexes(indexes, PyList_Size(list), &tensors) >= 0) {
		options->indexes = tensors;
		if (open_paths(list, call, options, &source) >= 0)
			kept = indexes_of(source, list, options->side_car);
	}
	if (kept)
		made = data_source_wrap_consume(type, source,
			PyUnicode_FromString("open"),
			Py_BuildValue("(OOiNNi)", list,
				given[DTYPE] ? given[DTYPE] : Py_None,
				(int)options->token_bytes,
				PyBool_FromLong(options->side_car), kept,
				options->threads));
	else
		tarn_data_source_unref(source);
	free(tensors);
	Py_XDECREF(indexes);
	Py_XDECREF(list);
	return made;
}

PyObject *data_source_open(PyObject *type, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"paths", "dtype", "token_bytes",
		"side_car", "indexes", "threads", "progress", NULL};
	struct tarn_data_source_options options = {.side_car = true};
	PyObject *given[COUNT], *indexes = Py_None, *call = NULL;
	uint64_t threads = 0;

	if (named_arguments("open", names, 1, args, n_args, keywords, given) <
			0 ||
		take_tokens(given, &options) < 0 ||
		(given[SIDE_CAR] && optional_flag(given[SIDE_CAR],
					    &options.side_car) < 0) ||
		(given[THREADS] && data_count_argument("open: threads",
					   given[THREADS], &threads) < 0) ||
		optional_callable(given[PROGRESS], &call) < 0)
		return NULL;
	options.threads = threads > INT32_MAX ? INT32_MAX : (int)threads;
	if (given[INDEXES] && given[INDEXES] != Py_None)
		indexes = PySequence_Tuple(given[INDEXES]);
	else
		Py_INCREF(indexes);
	return open_consume(type, indexes ? paths_argument(given[PATHS]) : NULL,
		indexes, call, given, &options);
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
	return data_source_wrap_consume(type, source,
		PyUnicode_FromString("tokens"),
		Py_BuildValue("(NN)", values, offsets));
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
	return data_source_wrap_consume(type, source,
		PyUnicode_FromString("rows"), Py_BuildValue("(N)", rows));
}
