// SPDX-License-Identifier: MIT
/*
 * Refit: the next version of a set. It belongs to one thread, as the library's
 * does, so that no other is in a call that works without the GIL.
 */
#include "python/set.h"

#include "python/device.h"

struct refit {
	PyObject_HEAD
	tarn_refit *refit; /* NULL: it is ended */
	PyObject *store;
	unsigned long thread;
	struct tarn_refit_info info; /* at its end */
};

static PyTypeObject *refit_type;

static struct refit *of(PyObject *self)
{
	return (struct refit *)self;
}

/* ---- left behind --------------------------------------------------- */

/* Refits that another thread has dropped, as the cyclic collector does: their
 * own threads free them when they begin or use one the next time. Those of a
 * thread that has ended stay. Under the GIL. */
struct left {
	struct left *next;
	tarn_refit *refit;
	unsigned long thread;
};

static struct left *left_behind;

static void leave_behind(tarn_refit *refit, unsigned long thread)
{
	struct left *left = PyMem_Malloc(sizeof(*left));

	if (!left)
		return;
	*left = (struct left) {left_behind, refit, thread};
	left_behind = left;
}

static void free_left(void)
{
	unsigned long thread = PyThread_get_thread_ident();
	struct left **at = &left_behind;

	while (*at) {
		struct left *left = *at;

		if (left->thread != thread) {
			at = &left->next;
			continue;
		}
		*at = left->next;
		Py_BEGIN_ALLOW_THREADS
		tarn_refit_free(left->refit);
		Py_END_ALLOW_THREADS
		PyMem_Free(left);
		/* Others may have changed the list meanwhile. */
		at = &left_behind;
	}
}

/* ---- making -------------------------------------------------------- */

static int take_options(PyObject *const given[6], struct place *place,
	struct set_fields *fields, struct tarn_refit_options *ret)
{
	int64_t bucket = 0;

	if (given[0] != Py_None) {
		if (place_argument("refit", given[0], place) < 0)
			return -1;
		if (!place->on_device) {
			PyErr_SetString(PyExc_ValueError,
				"refit: device is a GPU, or None: where the "
				"old tensors are");
			return -1;
		}
		ret->device = &place->device;
	}
	if (given[1] != Py_None && int_argument(given[1], &bucket) < 0)
		return -1;
	if (bucket < 0) {
		PyErr_Format(PyExc_ValueError,
			"refit: bucket is %R; bytes are wanted", given[1]);
		return -1;
	}
	ret->bucket_bytes = (uint64_t)bucket;
	if (optional_flag(given[2], &ret->share_equal) < 0 ||
		set_fields_argument(given[3], true, fields) < 0 ||
		optional_flag(given[4], &ret->add) < 0 ||
		optional_flag(given[5], &ret->whole) < 0)
		return -1;
	ret->fields = fields->fields;
	ret->n_fields = fields->n;
	return 0;
}

static PyObject *wrap_consume(
	PyTypeObject *type, PyObject *store, tarn_refit *refit)
{
	allocfunc alloc = PyType_GetSlot(type, Py_tp_alloc);
	PyObject *self = alloc(type, 0);

	if (!self) {
		tarn_refit_free(refit);
		return NULL;
	}
	of(self)->refit = refit;
	of(self)->store = store;
	of(self)->thread = PyThread_get_thread_ident();
	Py_INCREF(store);
	return self;
}

static PyObject *refit_new(
	PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	static char *names[] = {"store", "prefix", "device", "bucket",
		"share_equal", "fields", "add", "whole", NULL};
	PyObject *store, *prefix;
	PyObject *given[6] = {
		Py_None, Py_None, Py_False, Py_None, Py_False, Py_False};
	struct tarn_refit_options options = {0};
	struct set_fields fields = {0};
	struct place place;
	tarn_refit *refit = NULL;
	const char *text;
	int r = -1;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!O|OOOOOO:Refit",
		    names, store_type, &store, &prefix, &given[0], &given[1],
		    &given[2], &given[3], &given[4], &given[5]))
		return NULL;
	free_left();
	text = text_argument(prefix);
	if (text && take_options(given, &place, &fields, &options) >= 0) {
		Py_BEGIN_ALLOW_THREADS
		r = tarn_refit_begin(store_of(store), text, &options, &refit);
		Py_END_ALLOW_THREADS
		if (r < 0)
			raise_lookup(r);
	}
	set_fields_done(&fields);
	return r < 0 ? NULL : wrap_consume(type, store, refit);
}

/* Remembers what it did. */
static void end(PyObject *self)
{
	tarn_refit *refit = of(self)->refit;

	of(self)->refit = NULL;
	if (!refit)
		return;
	if (of(self)->thread != PyThread_get_thread_ident()) {
		leave_behind(refit, of(self)->thread);
		return;
	}
	tarn_refit_progress(refit, &of(self)->info);
	Py_BEGIN_ALLOW_THREADS
	tarn_refit_free(refit);
	Py_END_ALLOW_THREADS
}

static void refit_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = PyType_GetSlot(type, Py_tp_free);

	end(self);
	Py_XDECREF(of(self)->store);
	release(self);
	Py_DECREF((PyObject *)type);
}

/* NULL, with an exception: it is ended, or another thread's. */
static tarn_refit *usable(PyObject *self)
{
	if (of(self)->thread != PyThread_get_thread_ident()) {
		PyErr_SetString(PyExc_RuntimeError,
			"a refit belongs to the thread that has begun it");
		return NULL;
	}
	free_left();
	if (of(self)->refit)
		return of(self)->refit;
	PyErr_SetString(PyExc_ValueError, "the refit is ended; begin another");
	return NULL;
}

/* ---- putting ------------------------------------------------------- */

static PyObject *result(int r)
{
	if (r < 0)
		return raise_lookup(r);
	Py_RETURN_NONE;
}

static PyObject *wrong_count(const char *what)
{
	PyErr_Format(PyExc_TypeError, "%s", what);
	return NULL;
}

static PyObject *put(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
	tarn_refit *refit = usable(self);
	PyObject *tensor;
	const char *name;
	int r;

	if (!refit)
		return NULL;
	if (n_args != 2)
		return wrong_count("put() takes a name and a tensor");
	name = text_argument(args[0]);
	tensor = name ? tensor_from_object(args[1]) : NULL;
	if (!tensor)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_refit_put(refit, name, tensor_of(tensor));
	Py_END_ALLOW_THREADS
	Py_DECREF(tensor);
	return result(r);
}

static PyObject *put_part(
	PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
	tarn_refit *refit = usable(self);
	PyObject *tensor;
	const char *name;
	int64_t start;
	int r;

	if (!refit)
		return NULL;
	if (n_args != 3)
		return wrong_count(
			"put_part() takes a name, the first row and a tensor");
	name = text_argument(args[0]);
	if (!name || int_argument(args[1], &start) < 0)
		return NULL;
	tensor = tensor_from_object(args[2]);
	if (!tensor)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_refit_put_part(refit, name, start, tensor_of(tensor));
	Py_END_ALLOW_THREADS
	Py_DECREF(tensor);
	return result(r);
}

/* Of a list of values: F64 would not keep large integers. */
static int values_dtype(PyObject *values)
{
	Py_ssize_t n = PyList_Check(values) || PyTuple_Check(values)
			       ? PySequence_Size(values)
			       : 0;
	bool whole = n > 0;

	for (Py_ssize_t i = 0; whole && i < n; i++) {
		PyObject *item = PySequence_GetItem(values, i);

		whole = item && PyLong_Check(item);
		Py_XDECREF(item);
	}
	PyErr_Clear();
	return whole ? TARN_I64 : TARN_F64;
}

static PyObject *put_sparse(
	PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
	tarn_refit *refit = usable(self);
	PyObject *positions, *values;
	const char *name;
	int r;

	if (!refit)
		return NULL;
	if (n_args != 3)
		return wrong_count(
			"put_sparse() takes a name, positions and values");
	name = text_argument(args[0]);
	positions = name ? tensor_source(args[1], TARN_I64) : NULL;
	values = positions ? tensor_source(args[2], values_dtype(args[2]))
			   : NULL;
	if (!values) {
		Py_XDECREF(positions);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS
	r = tarn_refit_sparse(
		refit, name, tensor_of(positions), tensor_of(values));
	Py_END_ALLOW_THREADS
	Py_DECREF(positions);
	Py_DECREF(values);
	return result(r);
}

static PyObject *flush(PyObject *self, PyObject *none)
{
	tarn_refit *refit = usable(self);
	int r;

	(void)none;
	if (!refit)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_refit_flush(refit);
	Py_END_ALLOW_THREADS
	return result(r);
}

/* ---- ending -------------------------------------------------------- */

static PyObject *commit(PyObject *self, PyObject *none)
{
	tarn_refit *refit = usable(self);
	int r;

	(void)none;
	if (!refit)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_refit_commit(refit);
	Py_END_ALLOW_THREADS
	if (r >= 0)
		end(self);
	return result(r);
}

static PyObject *drop(PyObject *self, PyObject *none)
{
	(void)none;
	if (of(self)->refit && !usable(self))
		return NULL;
	end(self);
	Py_RETURN_NONE;
}

static PyObject *enter(PyObject *self, PyObject *none)
{
	(void)none;
	if (!usable(self))
		return NULL;
	Py_INCREF(self);
	return self;
}

/* A block that has committed or aborted by itself has ended. */
static PyObject *leave(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
	PyObject *done;

	if (!of(self)->refit)
		Py_RETURN_NONE;
	if (n_args < 1 || args[0] != Py_None)
		return drop(self, NULL);
	done = commit(self, NULL);
	if (!done && of(self)->thread == PyThread_get_thread_ident()) {
		PyObject *type, *value, *trace;

		PyErr_Fetch(&type, &value, &trace);
		end(self);
		PyErr_Restore(type, value, trace);
	}
	return done;
}

static PyObject *get_info(PyObject *self, void *closure)
{
	struct tarn_refit_info info = of(self)->info;

	(void)closure;
	if (of(self)->refit) {
		if (!usable(self))
			return NULL;
		tarn_refit_progress(of(self)->refit, &info);
	}
	return Py_BuildValue("{s:K,s:K,s:K,s:K,s:d}", "bytes_moved",
		(unsigned long long)info.bytes_moved, "bytes_shared",
		(unsigned long long)info.bytes_shared, "names_shared",
		(unsigned long long)info.names_shared, "names_changed",
		(unsigned long long)info.names_changed, "seconds",
		info.seconds);
}

/* ---- the type ------------------------------------------------------ */

static PyMethodDef methods[] = {
	{"put", EXPORT(put), FAST,
		"put($self, name, tensor, /)\n--\n\n"
		"The new tensor of a name, from memory, a file or a GPU: of the "
		"old one's\nshape, converted to its dtype. Its bytes may be "
		"written to again after\nflush() or the end. NotFoundError: the "
		"set has no such name (add=True\nadds it); FileExistsError: it "
		"was put already, or one that shares its\nbytes."},
	{"put_part", EXPORT(put_part), FAST,
		"put_part($self, name, start, tensor, /)\n--\n\n"
		"Some rows, from start on, of a tensor that comes in parts, in "
		"any order.\nThe end is a ValueError until all of its rows are "
		"there."},
	{"put_sparse", EXPORT(put_sparse), FAST,
		"put_sparse($self, name, positions, values, /)\n--\n\n"
		"The old tensor with new values at some positions, which are "
		"numbers of\nelements in C order. ValueError: there is no such "
		"position; nothing was\nwritten. Of several values for one "
		"position it is not defined which is\nwritten."},
	{"flush", flush, METH_NOARGS,
		"flush($self, /)\n--\n\n"
		"Waits until all that was put is copied."},
	{"commit", commit, METH_NOARGS,
		"commit($self, /)\n--\n\n"
		"Publishes all that was put in one moment, and ends."},
	{"abort", drop, METH_NOARGS,
		"abort($self, /)\n--\n\n"
		"Ends, and leaves the old version."},
	{"__enter__", enter, METH_NOARGS, NULL},
	{"__exit__", EXPORT(leave), FAST, NULL},
	{0},
};

static PyGetSetDef properties[] = {
	{"info", get_info, NULL,
		"What was done so far, a dict: bytes_moved, bytes_shared, "
		"names_shared,\nnames_changed, seconds.",
		NULL},
	{0},
};

static PyType_Slot slots[] = {
	{Py_tp_doc,
		"The next version of a set, beside the old one: see "
		"Store.refit.\nA block that ends publishes it, and one that ends "
		"by an exception\nleaves the old version. It belongs to the "
		"thread that has begun it."},
	{Py_tp_new, refit_new},
	{Py_tp_dealloc, refit_dealloc},
	{Py_tp_methods, methods},
	{Py_tp_getset, properties},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "tarn.Refit",
	.basicsize = sizeof(struct refit),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

int add_refit_type(PyObject *module)
{
	refit_type = (PyTypeObject *)PyType_FromSpec(&spec);
	if (!refit_type)
		return -1;
	Py_INCREF((PyObject *)refit_type);
	return PyModule_AddObject(module, "Refit", (PyObject *)refit_type);
}
