// SPDX-License-Identifier: MIT
/*
 * save(): a mapping of tensors becomes a file, whole or not at all.
 */
#include "python/module.h"

#include <stdlib.h>

enum { PATH, TENSORS, METADATA, CHECKSUMS, ALIGN, EXCLUSIVE, PROGRESS, COUNT };

static const char *const names[] = {"path", "tensors", "metadata", "checksums",
	"align", "exclusive", "progress", NULL};

/* Key and value of each pair, which the mapping's items keep. */
static int fill_metadata(struct tarn_save_pair *pairs, PyObject *items)
{
	for (Py_ssize_t i = 0; i < PyList_Size(items); i++) {
		PyObject *item = PyList_GetItem(items, i);

		if (!PyTuple_Check(item) || PyTuple_Size(item) != 2) {
			PyErr_SetString(PyExc_TypeError,
				"save: metadata: pairs are wanted");
			return -1;
		}
		pairs[i].key = text_argument(PyTuple_GetItem(item, 0));
		if (!pairs[i].key)
			return -1;
		if (!PyUnicode_Check(PyTuple_GetItem(item, 1))) {
			PyErr_Format(PyExc_TypeError,
				"save: metadata is of strings; that of %R is "
				"a %R",
				PyTuple_GetItem(item, 0),
				(PyObject *)Py_TYPE(PyTuple_GetItem(item, 1)));
			return -1;
		}
		pairs[i].value = text_argument(PyTuple_GetItem(item, 1));
		if (!pairs[i].value)
			return -1;
	}
	return 0;
}

static int fill_options(struct tarn_save_options *options, PyObject **given)
{
	int64_t align = 0;

	if (optional_flag(given[CHECKSUMS], &options->checksums) < 0 ||
		optional_flag(given[EXCLUSIVE], &options->exclusive) < 0)
		return -1;
	if (given[ALIGN] && int_argument(given[ALIGN], &align) < 0)
		return -1;
	if (align < 0 || align > UINT32_MAX) {
		PyErr_SetString(PyExc_ValueError, "save: align is too large");
		return -1;
	}
	options->align = (uint32_t)align;
	return 0;
}

static PyObject *save_all(const char *path, PyObject *tensors,
	const struct tarn_save_options *given, PyObject *call)
{
	Py_ssize_t n = PyList_Size(tensors);
	struct tarn_save_item *items = calloc((size_t)n + 1, sizeof(*items));
	struct progress_call progress = {.call = call};
	struct tarn_save_options options = *given;
	int r;

	if (!items)
		return PyErr_NoMemory();
	for (Py_ssize_t i = 0; i < n; i++) {
		items[i].name = pair_name(tensors, i);
		items[i].tensor = pair_tensor(tensors, i);
	}
	options.progress = progress_step;
	options.arg = &progress;
	progress.state = PyEval_SaveThread();
	r = tarn_save(path, items, (size_t)n, &options, NULL);
	r = progress_end(&progress, r);
	free(items);
	if (r < 0)
		return raise_system(r);
	Py_INCREF(Py_None);
	return Py_None;
}

static PyObject *save_with_metadata(const char *path, PyObject *tensors,
	PyObject *metadata, PyObject **given)
{
	struct tarn_save_options options = {0};
	PyObject *done = NULL, *call;
	Py_ssize_t n = metadata ? PyList_Size(metadata) : 0;
	struct tarn_save_pair *pairs = calloc((size_t)n + 1, sizeof(*pairs));

	if (!pairs)
		return PyErr_NoMemory();
	options.pairs = pairs;
	options.n_pairs = (size_t)n;
	if (fill_options(&options, given) == 0 &&
		optional_callable(given[PROGRESS], &call) == 0 &&
		(!metadata || fill_metadata(pairs, metadata) == 0))
		done = save_all(path, tensors, &options, call);
	free(pairs);
	return done;
}

static PyObject *save(PyObject *module, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	PyObject *given[COUNT], *path, *done = NULL;
	PyObject *tensors = NULL, *metadata = NULL;
	bool described;

	if (named_arguments("save", names, 2, args, n_args, keywords, given) <
			0 ||
		!PyUnicode_FSConverter(given[PATH], &path))
		return NULL;
	described = given[METADATA] && given[METADATA] != Py_None;
	if (described)
		metadata = mapping_items("texts", given[METADATA]);
	if (!described || metadata)
		tensors = tensor_pairs(given[TENSORS]);
	if (tensors)
		done = save_with_metadata(
			PyBytes_AsString(path), tensors, metadata, given);
	Py_XDECREF(tensors);
	Py_XDECREF(metadata);
	Py_DECREF(path);
	return done;
}

PyMethodDef save_functions[] = {
	{"_save", EXPORT(save), FAST_KEYWORDS, "tarn.save of a mapping."},
	{0},
};
