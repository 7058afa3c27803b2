// SPDX-License-Identifier: MIT
/*
 * Changes of a store: loads, publications, removals. All of them run without
 * the GIL.
 */
#include "python/module.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TTL_MAX 4e9 /* seconds; the longest that tarn_store_publish takes */

/* ---- loading ------------------------------------------------------- */

static PyObject *load(PyObject *self, PyObject *const *args, Py_ssize_t n_args,
	PyObject *keywords)
{
	static const char *const names[] = {
		"file", "name", "verify", "progress", "fresh", NULL};
	struct progress_call progress = {0};
	struct tarn_load_options options = {
		.progress = progress_load_step,
		.arg = &progress,
	};
	PyObject *given[5];
	tarn_tensor *all = NULL;
	int r;

	if (named_arguments("_load", names, 1, args, n_args, keywords, given) <
			0 ||
		optional_text(given[1], &options.name) < 0 ||
		optional_flag(given[2], &options.verify) < 0 ||
		optional_callable(given[3], &progress.call) < 0 ||
		optional_flag(given[4], &options.fresh) < 0)
		return NULL;
	if (!PyObject_TypeCheck(given[0], file_type)) {
		PyErr_SetString(PyExc_TypeError, "load: a File is wanted");
		return NULL;
	}
	progress.state = PyEval_SaveThread();
	r = tarn_store_load(
		store_of(self), file_of(given[0]), &options, NULL, &all);
	r = progress_end(&progress, r);
	if (r >= 0)
		return tensor_wrap_consume(all);
	tarn_tensor_unref(all);
	return raise_system(r);
}

static PyObject *view_of_loaded(
	PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
	tarn_tensor *tensor;
	const char *name;
	int r;

	if (n_args != 3 || !is_tensor(args[0]) ||
		!PyObject_TypeCheck(args[1], file_type)) {
		PyErr_SetString(PyExc_TypeError,
			"_view: what was loaded, its File and a name");
		return NULL;
	}
	name = text_argument(args[2]);
	if (!name)
		return NULL;
	r = tarn_loaded_tensor(
		tensor_of(args[0]), file_of(args[1]), name, &tensor);
	return r < 0 ? raise_missing(r, args[1], args[2])
		     : tensor_wrap_consume(tensor);
}

/* ---- publishing ---------------------------------------------------- */

static PyObject *versions_dict(PyObject *pairs, const uint64_t *versions)
{
	PyObject *dict = PyDict_New();

	for (Py_ssize_t i = 0; dict && i < PyList_Size(pairs); i++) {
		PyObject *name = PyTuple_GetItem(PyList_GetItem(pairs, i), 0);
		PyObject *number = PyLong_FromUnsignedLongLong(versions[i]);

		if (number && PyDict_SetItem(dict, name, number) == 0) {
			Py_DECREF(number);
			continue;
		}
		Py_XDECREF(number);
		Py_DECREF(dict);
		return NULL;
	}
	return dict;
}

static PyObject *publish_pairs(tarn_store *store, PyObject *pairs,
	const struct tarn_publish_options *options)
{
	size_t n = (size_t)PyList_Size(pairs);
	struct tarn_publish_item *items = calloc(n + 1, sizeof(*items));
	uint64_t *versions = calloc(n + 1, sizeof(*versions));
	PyObject *done = NULL;
	int r;

	if (!items || !versions) {
		free(items);
		free(versions);
		return PyErr_NoMemory();
	}
	for (size_t i = 0; i < n; i++) {
		items[i].name = pair_name(pairs, (Py_ssize_t)i);
		items[i].tensor = pair_tensor(pairs, (Py_ssize_t)i);
	}
	Py_BEGIN_ALLOW_THREADS
	r = tarn_store_publish(store, items, n, options, versions);
	Py_END_ALLOW_THREADS
	done = r < 0 ? raise_system(r) : versions_dict(pairs, versions);
	free(items);
	free(versions);
	return done;
}

/* None, which is never, or seconds, which become milliseconds, rounded up. A
 * ttl of 0 would be the library's word for never. 0 or -1. */
static int ttl_argument(PyObject *object, int64_t *ret)
{
	double seconds;

	if (!object || object == Py_None)
		return 0;
	if (real_argument("ttl", object, &seconds) < 0)
		return -1;
	if (!(seconds > 0 && seconds <= TTL_MAX)) {
		PyErr_Format(PyExc_ValueError,
			"publish: ttl is %R; it must be more than 0 and at "
			"most 4e9 seconds, or None",
			object);
		return -1;
	}
	*ret = (int64_t)ceil(seconds * 1e3);
	return 0;
}

static PyObject *publish(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {
		"tensors", "replace", "exclusive", "ttl", NULL};
	struct tarn_publish_options options = {0};
	PyObject *given[4], *pairs, *done;

	if (named_arguments(
		    "publish", names, 1, args, n_args, keywords, given) < 0 ||
		optional_text(given[1], &options.replace) < 0 ||
		optional_flag(given[2], &options.exclusive) < 0)
		return NULL;
	if (ttl_argument(given[3], &options.ttl_ms) < 0)
		return NULL;
	pairs = tensor_pairs(given[0]);
	if (!pairs)
		return NULL;
	done = publish_pairs(store_of(self), pairs, &options);
	Py_DECREF(pairs);
	return done;
}

static PyObject *create(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"shape", "dtype", "mutable", NULL};
	int64_t shape[TARN_NDIM_MAX];
	int n, dtype = TARN_F32, r;
	PyObject *given[3];
	tarn_tensor *tensor;
	bool is_mutable;

	if (named_arguments("create", names, 1, args, n_args, keywords, given) <
			0 ||
		optional_flag(given[2], &is_mutable) < 0)
		return NULL;
	if (given[1] && given[1] != Py_None)
		dtype = dtype_argument(given[1]);
	n = dtype ? shape_argument("create", given[0], shape) : -1;
	if (n < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_store_create(store_of(self), dtype, n, shape,
		is_mutable ? TARN_CREATE_MUTABLE : 0, &tensor);
	Py_END_ALLOW_THREADS
	return r < 0 ? raise_system(r) : tensor_wrap_consume(tensor);
}

static PyObject *create_untaken(PyObject *self, PyObject *object)
{
	int64_t size = PyLong_AsLongLong(object);
	tarn_tensor *tensor;
	int r;

	if (size == -1 && PyErr_Occurred())
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_store_create(store_of(self), TARN_U8, 1, &size,
		TARN_CREATE_UNTAKEN, &tensor);
	Py_END_ALLOW_THREADS
	return r < 0 ? raise_system(r) : tensor_wrap_consume(tensor);
}

static PyObject *take(PyObject *self, PyObject *object)
{
	int r;

	(void)self;
	if (!is_tensor(object)) {
		PyErr_SetString(PyExc_TypeError, "_take: a Tensor is wanted");
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS
	r = tarn_tensor_take(tensor_of(object));
	Py_END_ALLOW_THREADS
	if (r < 0)
		return raise_system(r);
	Py_INCREF(Py_None);
	return Py_None;
}

static PyObject *take_copy(
	PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
	int r;

	(void)self;
	if (n_args != 2 || !is_tensor(args[0]) || !is_tensor(args[1])) {
		PyErr_SetString(
			PyExc_TypeError, "_take_copy() takes two tensors");
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS
	r = tarn_tensor_take_copy(tensor_of(args[0]), tensor_of(args[1]));
	Py_END_ALLOW_THREADS
	if (r < 0)
		return raise_system(r);
	Py_INCREF(args[0]);
	return args[0];
}

static PyObject *remove_name(PyObject *self, PyObject *key)
{
	const char *name = text_argument(key);
	int r;

	if (!name)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_store_remove(store_of(self), name);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return raise_lookup(r);
	Py_INCREF(Py_None);
	return Py_None;
}

/* ---- handing on ---------------------------------------------------- */

static PyObject *export(PyObject *self, PyObject *object)
{
	struct tarn_descriptor descriptor;
	int r;

	if (!is_tensor(object)) {
		PyErr_SetString(PyExc_TypeError, "_export: a Tensor is wanted");
		return NULL;
	}
	r = tarn_store_export(store_of(self), tensor_of(object), &descriptor);
	if (r < 0)
		return raise_system(r);
	return PyBytes_FromStringAndSize(
		(const char *)&descriptor, sizeof(descriptor));
}

static PyObject *import(PyObject *self, PyObject *object)
{
	struct tarn_descriptor descriptor;
	tarn_tensor *tensor;
	Py_ssize_t size;
	char *bytes;
	int r;

	if (PyBytes_AsStringAndSize(object, &bytes, &size) < 0)
		return NULL;
	if (size != sizeof(descriptor)) {
		PyErr_Format(PyExc_ValueError,
			"a descriptor has %zu bytes, not %zd",
			sizeof(descriptor), size);
		return NULL;
	}
	memcpy(&descriptor, bytes, sizeof(descriptor));
	Py_BEGIN_ALLOW_THREADS
	r = tarn_store_import(store_of(self), &descriptor, &tensor);
	Py_END_ALLOW_THREADS
	return r < 0 ? raise_system(r) : tensor_wrap_consume(tensor);
}

PyMethodDef publish_methods[] = {
	{"_export", export, METH_O, "A tensor of the store as 256 bytes."},
	{"_import", import, METH_O,
		"The tensor of such bytes, while their sender still has it."},
	{"_load", EXPORT(load), FAST_KEYWORDS, "Store.load of a File."},
	{"_view", EXPORT(view_of_loaded), FAST,
		"A tensor of a File, out of what _load gave of it."},
	{"_publish", EXPORT(publish), FAST_KEYWORDS,
		"Store.publish of a mapping."},
	{"create", EXPORT(create), FAST_KEYWORDS,
		"create($self, /, shape, dtype='F32', mutable=False)\n--\n\n"
		"A new writable tensor. From 2 MiB on it is published without a"
		"\ncopy, and is read-only from then on: a program that writes to an\n"
		"array over it then ends with SIGSEGV. A mutable one stays\n"
		"writable, for all who open it."},
	{"_create_untaken", EXPORT(create_untaken), METH_O,
		"So many bytes, whose memory _take takes; see publish.h."},
	{"_take", EXPORT(take), METH_O,
		"Takes the memory of a view of such a tensor."},
	{"_take_copy", EXPORT(take_copy), FAST,
		"The same by a copy of the second tensor; returns the first."},
	{"remove", remove_name, METH_O,
		"remove($self, name, /)\n--\n\n"
		"Removes a published name; processes with the tensor open keep\n"
		"it. publish({}, replace=\"run/\") removes all names below run/."},
	{0},
};
