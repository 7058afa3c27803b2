// SPDX-License-Identifier: MIT
/*
 * Sets of published names as they stood at one moment: what Store.snapshot,
 * items and values are made of.
 */
#include "python/module.h"

#include <tarn/snapshot.h>

/* {name: Tensor}, {name: version} and {name: commit}. */
static int fill(const struct tarn_snapshot *s, PyObject *tensors,
	PyObject *versions, PyObject *commits)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < s->n; i++) {
		const struct tarn_snapshot_item *item = &s->items[i];
		PyObject *name = PyUnicode_FromString(item->name);
		PyObject *tensor =
			tensor_wrap_consume(tarn_tensor_ref(item->tensor));
		PyObject *version = PyLong_FromUnsignedLongLong(item->version);
		PyObject *commit = PyLong_FromUnsignedLongLong(item->commit);

		if (!name || !tensor || !version || !commit ||
			PyDict_SetItem(tensors, name, tensor) < 0 ||
			PyDict_SetItem(versions, name, version) < 0 ||
			PyDict_SetItem(commits, name, commit) < 0)
			r = -1;
		Py_XDECREF(name);
		Py_XDECREF(tensor);
		Py_XDECREF(version);
		Py_XDECREF(commit);
	}
	return r;
}

static PyObject *hand_out(const struct tarn_snapshot *s)
{
	PyObject *tensors = PyDict_New(), *versions = PyDict_New();
	PyObject *commits = PyDict_New(), *found = NULL;

	if (tensors && versions && commits &&
		fill(s, tensors, versions, commits) >= 0)
		found = Py_BuildValue("KOOO", (unsigned long long)s->commit,
			tensors, versions, commits);
	Py_XDECREF(tensors);
	Py_XDECREF(versions);
	Py_XDECREF(commits);
	return found;
}

static PyObject *take_below(tarn_store *store, const char *prefix)
{
	struct tarn_snapshot *s = NULL;
	PyObject *found;
	int r;

	Py_BEGIN_ALLOW_THREADS
	r = tarn_store_snapshot(store, prefix, &s);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return raise_system(r);
	found = hand_out(s);
	tarn_snapshot_free(s);
	return found;
}

/* The names belong to the strings in the tuple. */
static PyObject *take_names(tarn_store *store, PyObject *tuple)
{
	size_t n = (size_t)PyTuple_Size(tuple);
	const char **names = PyMem_Calloc(n + 1, sizeof(names[0]));
	struct tarn_snapshot *s = NULL;
	PyObject *found = NULL;
	size_t i = 0;
	int r;

	if (!names)
		return PyErr_NoMemory();
	while (i < n && (names[i] = text_argument(
				 PyTuple_GetItem(tuple, (Py_ssize_t)i))))
		i++;
	if (i == n) {
		Py_BEGIN_ALLOW_THREADS
		r = tarn_store_snapshot_names(store, names, n, &s);
		Py_END_ALLOW_THREADS
		found = r < 0 ? raise_lookup(r) : hand_out(s);
		tarn_snapshot_free(s);
	}
	PyMem_Free(names);
	return found;
}

/* Of a prefix, or of a tuple of names: (commit, tensors, versions,
 * commits). */
static PyObject *take(PyObject *self, PyObject *what)
{
	const char *prefix;

	if (PyTuple_Check(what))
		return take_names(store_of(self), what);
	prefix = text_argument(what);
	return prefix ? take_below(store_of(self), prefix) : NULL;
}

PyMethodDef snapshot_methods[] = {
	{"_snapshot", take, METH_O,
		"What Store.snapshot is made of, of a prefix or of a tuple of "
		"names."},
	{0},
};
