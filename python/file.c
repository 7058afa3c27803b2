// SPDX-License-Identifier: MIT
/*
 * Open tensor files: the base of tarn.File, which adds what mappings have. Its
 * tensors are mapped, and so have an address, or are read when asked for.
 */
#include "python/module.h"

#include <errno.h>

PyTypeObject *file_type;

static PyObject *file_new(
	PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	static char *names[] = {"path", "map", "store", NULL};
	allocfunc alloc = PyType_GetSlot(type, Py_tp_alloc);
	PyObject *path = NULL, *store = Py_None, *self = NULL;
	tarn_file *file;
	int map = 1, r;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&|pO:File", names,
		    PyUnicode_FSConverter, &path, &map, &store))
		return NULL;
	if (store != Py_None && !PyObject_TypeCheck(store, store_type)) {
		PyErr_SetString(PyExc_TypeError, "File: store is no Store");
		Py_DECREF(path);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS
	r = store == Py_None ? tarn_file_open(PyBytes_AsString(path), &file)
			     : tarn_store_open_file(store_of(store),
				       PyBytes_AsString(path), &file);
	Py_END_ALLOW_THREADS
	Py_DECREF(path);
	if (r < 0)
		return raise_system(r);
	self = alloc(type, 0);
	if (!self) {
		tarn_file_unref(file);
		return NULL;
	}
	((struct file *)self)->file = file;
	((struct file *)self)->map = map;
	return self;
}

static void file_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = PyType_GetSlot(type, Py_tp_free);

	tarn_file_unref(file_of(self));
	release(self);
	Py_DECREF((PyObject *)type);
}

/* ---- a mapping ----------------------------------------------------- */

static PyObject *file_subscript(PyObject *self, PyObject *key)
{
	const char *name = text_argument(key);
	tarn_tensor *tensor;
	int r;

	if (!name)
		return NULL;
	r = ((struct file *)self)->map
		    ? tarn_file_map(file_of(self), name, 0, &tensor)
		    : tarn_file_tensor(file_of(self), name, &tensor);
	return r < 0 ? raise_missing(r, self, key)
		     : tensor_wrap_consume(tensor);
}

static Py_ssize_t file_length(PyObject *self)
{
	return (Py_ssize_t)tarn_file_count(file_of(self));
}

static int file_contains(PyObject *self, PyObject *key)
{
	const char *name = PyUnicode_Check(key) ? text_argument(key) : NULL;

	PyErr_Clear(); /* invalid names are not listed */
	return name && tarn_file_find(file_of(self), name);
}

static PyObject *file_iterate(PyObject *self)
{
	size_t n = tarn_file_count(file_of(self));
	PyObject *names = PyList_New((Py_ssize_t)n), *iterator;

	for (size_t i = 0; names && i < n; i++) {
		const struct tarn_file_entry *t =
			tarn_file_at(file_of(self), i);
		PyObject *name = PyUnicode_FromStringAndSize(
			t->name, (Py_ssize_t)t->name_size);

		if (name && PyList_SetItem(names, (Py_ssize_t)i, name) == 0)
			continue;
		Py_DECREF(names);
		return NULL;
	}
	iterator = names ? PyObject_GetIter(names) : NULL;
	Py_XDECREF(names);
	return iterator;
}

/* ---- asking -------------------------------------------------------- */

static int add_pair(PyObject *dict, const char *key, const char *value)
{
	PyObject *text = PyUnicode_FromString(value);
	int r = text ? PyDict_SetItemString(dict, key, text) : -1;

	Py_XDECREF(text);
	return r;
}

static PyObject *get_metadata(PyObject *self, void *closure)
{
	size_t n = tarn_file_metadata_count(file_of(self));
	PyObject *dict = PyDict_New();
	const char *key, *value;

	for (size_t i = 0; dict && i < n; i++) {
		if (tarn_file_metadata_at(file_of(self), i, &key, &value) >=
				0 &&
			add_pair(dict, key, value) == 0)
			continue;
		Py_DECREF(dict);
		return NULL;
	}
	return dict;
}

static PyObject *get_path(PyObject *self, void *closure)
{
	return PyUnicode_DecodeFSDefault(tarn_file_path(file_of(self)));
}

static PyObject *get_format(PyObject *self, void *closure)
{
	return PyUnicode_FromString(tarn_file_format(file_of(self)));
}

static PyObject *get_mapped(PyObject *self, void *closure)
{
	return PyBool_FromLong(((struct file *)self)->map);
}

static PyObject *verify(PyObject *self, PyObject *none)
{
	struct progress_call progress = {0};
	struct tarn_verify_options options = {
		.progress = progress_step,
		.arg = &progress,
	};
	struct tarn_verify_info info = {0};
	int r;

	progress.state = PyEval_SaveThread();
	r = tarn_file_verify(file_of(self), &options, &info);
	r = progress_end(&progress, r);
	if (r < 0)
		return raise_system(r);
	return Py_BuildValue(
		"(nn)", (Py_ssize_t)info.good, (Py_ssize_t)info.unchecked);
}

static PyMethodDef methods[] = {
	{"verify", verify, METH_NOARGS,
		"verify($self, /)\n--\n\n"
		"Reads every tensor that has a checksum and compares;\n"
		"ValueError names the first that differs. Returns how many were"
		"\ngood, and how many have none."},
	{"_shards", file_shards, METH_NOARGS,
		"_shards($self, /)\n--\n\n"
		"The files that it consists of: (path, bytes, time of the last "
		"change in\nns, Tensor of all bytes of its tensors or None)."},
	{"_extents", file_extents, METH_NOARGS,
		"_extents($self, /)\n--\n\n"
		"Where the tensors lie: (name, shard, first byte in the shard's "
		"Tensor,\nbytes, are they in C order without gaps?)."},
	{0},
};

static PyGetSetDef properties[] = {
	{"metadata", get_metadata, NULL, "The file's metadata, a new dict.",
		NULL},
	{"path", get_path, NULL, "The path as it was opened.", NULL},
	{"format", get_format, NULL, "\"safetensors\", \"npy\", ...", NULL},
	{"_mapped", get_mapped, NULL, "Are its tensors mapped?", NULL},
	{0},
};

static PyType_Slot slots[] = {
	{Py_tp_doc, "An open tensor file."},
	{Py_tp_new, file_new},
	{Py_tp_dealloc, file_dealloc},
	{Py_tp_iter, file_iterate},
	{Py_tp_methods, methods},
	{Py_tp_getset, properties},
	{Py_mp_length, file_length},
	{Py_mp_subscript, file_subscript},
	{Py_sq_contains, file_contains},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "tarn._tarn.FileBase",
	.basicsize = sizeof(struct file),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
	.slots = slots,
};

int add_file_type(PyObject *module)
{
	file_type = (PyTypeObject *)PyType_FromSpec(&spec);
	if (!file_type)
		return -1;
	Py_INCREF((PyObject *)file_type);
	return PyModule_AddObject(module, "FileBase", (PyObject *)file_type);
}
