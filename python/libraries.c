// SPDX-License-Identifier: MIT
/*
 * The parts of numpy and PyTorch that packing uses, looked up once: an array
 * costs less than a microsecond to pack, and a look-up by name would be most of
 * it.
 *
 * Neither is imported to pack: an object can only be theirs if the program has
 * imported them. They are imported to unpack their objects.
 */
#include "python/pack.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Set once, whole. Threads may make one each: the first to be done counts, and
 * the others drop theirs. The exchange releases the fields, and pairs with the
 * acquire loads of all threads that find it. */
static _Atomic(struct numpy_face *) numpy;
static _Atomic(struct torch_face *) torch;

/* The tuple that a function of tarn._libraries returns. */
static PyObject *call_helper(const char *name)
{
	PyObject *helpers = PyImport_ImportModule("tarn._libraries"), *answer;

	if (!helpers)
		return NULL;
	answer = PyObject_CallMethod(helpers, name, NULL);
	Py_DECREF(helpers);
	return answer;
}

/* A new reference to item i of a tuple; None is NULL. */
static PyObject *part(PyObject *tuple, int i)
{
	PyObject *item = PyTuple_GetItem(tuple, i);

	if (!item || item == Py_None)
		return NULL;
	Py_INCREF(item);
	return item;
}

static void drop_all(PyObject **objects, size_t n)
{
	for (size_t i = 0; i < n; i++)
		Py_XDECREF(objects[i]);
}

/* ---- numpy --------------------------------------------------------- */

static void drop_numpy(struct numpy_face *face)
{
	Py_XDECREF(face->array);
	Py_XDECREF(face->generic);
	drop_all(face->dtypes, TARN_DTYPE_MAX + 1);
	free(face);
}

/* (ndarray, generic, dtypes in the order of our numbers) */
static struct numpy_face *make_numpy(void)
{
	struct numpy_face *face = calloc(1, sizeof(*face)), *others = NULL;
	PyObject *answer = face ? call_helper("numpy_parts") : PyErr_NoMemory();
	PyObject *dtypes;

	if (!answer) {
		free(face);
		return NULL;
	}
	face->array = part(answer, 0);
	face->generic = part(answer, 1);
	dtypes = PyTuple_GetItem(answer, 2);
	for (int i = 1; i <= TARN_DTYPE_MAX; i++)
		face->dtypes[i] = part(dtypes, i - 1);
	Py_DECREF(answer);
	if (PyErr_Occurred()) {
		drop_numpy(face);
		return NULL;
	}
	/* Pairs with the loads of numpy, here and below. */
	if (atomic_compare_exchange_strong_explicit(&numpy, &others, face,
		    memory_order_acq_rel, memory_order_acquire))
		return face;
	drop_numpy(face);
	return others;
}

const struct numpy_face *numpy_face(void)
{
	/* Pairs with the exchange in make_numpy(). */
	struct numpy_face *face =
		atomic_load_explicit(&numpy, memory_order_acquire);

	return face ? face : make_numpy();
}

/* ---- PyTorch ------------------------------------------------------- */

static void drop_torch(struct torch_face *face)
{
	Py_XDECREF(face->tensor);
	Py_XDECREF(face->strided);
	Py_XDECREF(face->take);
	Py_XDECREF(face->numbers);
	drop_all(face->dtypes, TARN_DTYPE_MAX + 1);
	free(face);
}

/* (Tensor, strided, from_dlpack, {dtype: number}, dtypes, carriers) */
static struct torch_face *make_torch(void)
{
	struct torch_face *face = calloc(1, sizeof(*face)), *others = NULL;
	PyObject *answer = face ? call_helper("torch_parts") : PyErr_NoMemory();
	PyObject *dtypes, *carriers;

	if (!answer) {
		free(face);
		return NULL;
	}
	face->tensor = part(answer, 0);
	face->strided = part(answer, 1);
	face->take = part(answer, 2);
	face->numbers = part(answer, 3);
	dtypes = PyTuple_GetItem(answer, 4);
	carriers = PyTuple_GetItem(answer, 5);
	for (int i = 1; i <= TARN_DTYPE_MAX; i++) {
		face->dtypes[i] = part(dtypes, i - 1);
		face->carriers[i] =
			(int)PyLong_AsLong(PyTuple_GetItem(carriers, i - 1));
	}
	Py_DECREF(answer);
	if (PyErr_Occurred()) {
		drop_torch(face);
		return NULL;
	}
	/* Pairs with the loads of torch, here and below. */
	if (atomic_compare_exchange_strong_explicit(&torch, &others, face,
		    memory_order_acq_rel, memory_order_acquire))
		return face;
	drop_torch(face);
	return others;
}

const struct torch_face *torch_face(void)
{
	/* Pairs with the exchange in make_torch(). */
	struct torch_face *face =
		atomic_load_explicit(&torch, memory_order_acquire);

	return face ? face : make_torch();
}

/* ---- if they are there --------------------------------------------- */

/* A module that is being imported has not all its parts yet. */
static bool imported(const char *name, const char *last)
{
	PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
	PyObject *module = modules ? PyDict_GetItemString(modules, name) : NULL;

	return module && PyObject_HasAttrString(module, last);
}

const struct numpy_face *numpy_if_imported(void)
{
	/* Pairs with the exchange in make_numpy(). */
	struct numpy_face *face =
		atomic_load_explicit(&numpy, memory_order_acquire);

	if (face || !imported("numpy", "ndarray"))
		return face;
	face = make_numpy();
	PyErr_Clear();
	return face;
}

const struct torch_face *torch_if_imported(void)
{
	/* Pairs with the exchange in make_torch(). */
	struct torch_face *face =
		atomic_load_explicit(&torch, memory_order_acquire);

	if (face || !imported("torch", "from_dlpack"))
		return face;
	face = make_torch();
	PyErr_Clear();
	return face;
}
