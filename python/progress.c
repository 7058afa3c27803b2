// SPDX-License-Identifier: MIT
/*
 * Long calls run without the GIL and take it now and then, so that Ctrl-C can
 * end them and a Python callable learns how far they are.
 */
#include "python/module.h"

#include <errno.h>
#include <string.h>

/* phase NULL: the call has one only. */
static int call_progress(
	PyObject *call, uint64_t done, uint64_t total, const char *phase)
{
	PyObject *answer = PyObject_CallFunction(call, phase ? "KKs" : "KK",
		(unsigned long long)done, (unsigned long long)total, phase);

	if (!answer)
		return -1;
	Py_DECREF(answer);
	return 0;
}

static int step(struct progress_call *p, uint64_t done, uint64_t total,
	const char *phase)
{
	int r;

	PyEval_RestoreThread(p->state);
	/* The work may go on, with another file or another attempt. */
	r = PyErr_Occurred() ? -1 : PyErr_CheckSignals();
	if (r == 0 && p->call)
		r = call_progress(p->call, done, total, phase);
	p->state = PyEval_SaveThread();
	return r;
}

int progress_step(void *arg, uint64_t done, uint64_t total)
{
	return step(arg, done, total, NULL);
}

int progress_load_step(
	void *arg, enum tarn_load_phase phase, uint64_t done, uint64_t total)
{
	return step(arg, done, total,
		phase == TARN_LOAD_PHASE_MEMORY ? "memory" : "read");
}

/* It may have been over before it could be ended: the exception is what the
 * caller sees, so that there is no result beside it. */
int progress_end(struct progress_call *p, int r)
{
	PyEval_RestoreThread(p->state);
	return r >= 0 && PyErr_Occurred() ? -ECANCELED : r;
}

/* ---- arguments that long calls share ------------------------------- */

const char *text_argument(PyObject *object)
{
	Py_ssize_t size;
	const char *text;

	if (!PyUnicode_Check(object)) {
		PyErr_Format(
			PyExc_TypeError, "a name is wanted, not %R", object);
		return NULL;
	}
	text = PyUnicode_AsUTF8AndSize(object, &size);
	if (text && strlen(text) != (size_t)size) {
		PyErr_Format(PyExc_ValueError,
			"the name %R has a character 0 in it", object);
		return NULL;
	}
	return text;
}

int optional_text(PyObject *object, const char **ret)
{
	*ret = NULL;
	if (!object || object == Py_None)
		return 0;
	*ret = text_argument(object);
	return *ret ? 0 : -1;
}

int optional_flag(PyObject *object, bool *ret)
{
	int r = object ? PyObject_IsTrue(object) : 0;

	*ret = r > 0;
	return r < 0 ? -1 : 0;
}

int optional_callable(PyObject *object, PyObject **ret)
{
	*ret = object == Py_None ? NULL : object;
	if (!*ret || PyCallable_Check(*ret))
		return 0;
	PyErr_Format(PyExc_TypeError,
		"progress is called with numbers, which %R cannot be", object);
	return -1;
}

PyObject *mapping_items(const char *what, PyObject *mapping)
{
	if (PyObject_HasAttrString(mapping, "items"))
		return PyMapping_Items(mapping);
	return PyErr_Format(PyExc_TypeError,
		"a mapping of names to %s is wanted, not a %R", what,
		(PyObject *)Py_TYPE(mapping));
}

/* Of many, which is the one that is no tensor. */
static PyObject *named_tensor(PyObject *name, PyObject *object)
{
	if (is_tensor(object) || shares_bytes(object))
		return tensor_from_object(object);
	return PyErr_Format(PyExc_TypeError,
		"%R: a %R is no tensor, and shares no bytes that could be one",
		name, (PyObject *)Py_TYPE(object));
}

/* One pair of mapping.items(). */
static PyObject *tensor_pair(PyObject *item)
{
	PyObject *name, *tensor, *pair;

	if (!PyTuple_Check(item) || PyTuple_Size(item) != 2) {
		PyErr_SetString(PyExc_TypeError, "pairs are wanted");
		return NULL;
	}
	name = PyTuple_GetItem(item, 0);
	if (!text_argument(name))
		return NULL;
	tensor = named_tensor(name, PyTuple_GetItem(item, 1));
	if (!tensor)
		return NULL;
	pair = PyTuple_Pack(2, name, tensor);
	Py_DECREF(tensor);
	return pair;
}

PyObject *tensor_pairs(PyObject *mapping)
{
	PyObject *items = mapping_items("tensors", mapping), *pair;

	for (Py_ssize_t i = 0; items && i < PyList_Size(items); i++) {
		pair = tensor_pair(PyList_GetItem(items, i));
		if (pair && PyList_SetItem(items, i, pair) == 0)
			continue;
		Py_DECREF(items);
		return NULL;
	}
	return items;
}

const char *pair_name(PyObject *pairs, Py_ssize_t i)
{
	return PyUnicode_AsUTF8AndSize(
		PyTuple_GetItem(PyList_GetItem(pairs, i), 0), NULL);
}

tarn_tensor *pair_tensor(PyObject *pairs, Py_ssize_t i)
{
	return tensor_of(PyTuple_GetItem(PyList_GetItem(pairs, i), 1));
}
