// SPDX-License-Identifier: MIT
/*
 * Following names below a prefix: the base of tarn.Follow, which makes versions
 * of what this returns.
 */
#include "python/module.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include <tarn/snapshot.h>

/* How long a wait may miss Ctrl-C, in milliseconds. */
#define SLICE_MS 50

/* Slices, one after the other, in which names were removed faster than they can
 * be read: ten seconds, as the library has it for a wait in one piece. */
#define OVERTAKEN_MAX (10000 / SLICE_MS)

struct follow {
	PyObject_HEAD
	tarn_follow *follow; /* NULL: it is closed */
	size_t skip;         /* bytes of names that are not shown */
	/* Of which none was made so far, since an exception came between. */
	struct tarn_snapshot *pending;
	atomic_flag busy; /* a thread uses it, perhaps without the GIL */
};

static struct follow *of(PyObject *self)
{
	return (struct follow *)self;
}

static PyObject *follow_new(
	PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	static char *names[] = {"store", "prefix", "whole", NULL};
	allocfunc alloc = PyType_GetSlot(type, Py_tp_alloc);
	PyObject *store, *prefix, *self;
	tarn_follow *follow;
	const char *text;
	int whole, r;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!Op:Follow", names,
		    store_type, &store, &prefix, &whole))
		return NULL;
	text = text_argument(prefix);
	if (!text)
		return NULL;
	r = tarn_follow_begin(store_of(store), text, &follow);
	if (r < 0)
		return raise_system(r);
	self = alloc(type, 0);
	if (!self) {
		tarn_follow_free(follow);
		return NULL;
	}
	of(self)->follow = follow;
	of(self)->skip = whole ? 0 : strlen(text);
	return self;
}

static void follow_free(PyObject *self)
{
	tarn_follow *follow = of(self)->follow;

	struct tarn_snapshot *pending = of(self)->pending;

	of(self)->follow = NULL;
	of(self)->pending = NULL;
	Py_BEGIN_ALLOW_THREADS
	tarn_snapshot_free(pending);
	tarn_follow_free(follow);
	Py_END_ALLOW_THREADS
}

static void follow_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = PyType_GetSlot(type, Py_tp_free);

	follow_free(self);
	release(self);
	Py_DECREF((PyObject *)type);
}

/* 0 or -1; then leave() follows. */
static int enter(PyObject *self)
{
	if (!atomic_flag_test_and_set(&of(self)->busy))
		return 0;
	PyErr_SetString(PyExc_RuntimeError,
		"another thread waits with this follow; begin one for each "
		"thread");
	return -1;
}

static void leave(PyObject *self)
{
	atomic_flag_clear(&of(self)->busy);
}

/* ---- waiting ------------------------------------------------------- */

static int wait_slices(
	tarn_follow *follow, double deadline, struct tarn_snapshot **ret)
{
	int left, overtaken = 0, r;

	do {
		left = deadline_slice(deadline, SLICE_MS);
		Py_BEGIN_ALLOW_THREADS
		r = tarn_follow_next(follow, left, ret);
		Py_END_ALLOW_THREADS
		overtaken = r == -EAGAIN ? overtaken + 1 : 0;
		if (r != -ETIMEDOUT &&
			(r != -EAGAIN || overtaken == OVERTAKEN_MAX))
			return r;
		if (PyErr_CheckSignals() < 0)
			return r;
	} while (!deadline_passed(deadline));
	return r;
}

/* One that was published since, into {name: Tensor}, {name: version} and
 * {name: commit}. */
static int add_item(const struct tarn_snapshot_item *item, const char *name,
	PyObject *tensors, PyObject *versions, PyObject *commits)
{
	PyObject *tensor = tensor_wrap_consume(tarn_tensor_ref(item->tensor));
	PyObject *version = PyLong_FromUnsignedLongLong(item->version);
	PyObject *commit = PyLong_FromUnsignedLongLong(item->commit);
	int r = -1;

	if (tensor && version && commit &&
		PyDict_SetItemString(tensors, name, tensor) >= 0 &&
		PyDict_SetItemString(versions, name, version) >= 0)
		r = PyDict_SetItemString(commits, name, commit);
	Py_XDECREF(tensor);
	Py_XDECREF(version);
	Py_XDECREF(commit);
	return r;
}

static int add_fresh(const struct tarn_snapshot *s, size_t skip, uint64_t since,
	PyObject *tensors, PyObject *versions, PyObject *commits)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < s->n; i++)
		if (s->items[i].commit > since)
			r = add_item(&s->items[i], s->items[i].name + skip,
				tensors, versions, commits);
	return r;
}

static PyObject *list_names(const struct tarn_snapshot *s, size_t skip)
{
	PyObject *list = PyList_New((Py_ssize_t)s->n);

	for (size_t i = 0; list && i < s->n; i++) {
		PyObject *name = PyUnicode_FromString(s->items[i].name + skip);

		if (!name || PyList_SetItem(list, (Py_ssize_t)i, name) < 0)
			Py_CLEAR(list);
	}
	return list;
}

/* A version of what is pending, which stays pending if a signal comes before it
 * is the follow's current one: the next call's version then has its changes. */
static PyObject *make_version(PyObject *self, uint64_t since)
{
	const struct tarn_snapshot *s = of(self)->pending;
	size_t skip = of(self)->skip;
	PyObject *tensors = PyDict_New(), *versions = PyDict_New();
	PyObject *commits = PyDict_New();
	PyObject *names = list_names(s, skip), *version = NULL;

	if (tensors && versions && commits && names &&
		add_fresh(s, skip, since, tensors, versions, commits) >= 0)
		version = PyObject_CallMethod(self, "_take", "KOOOO",
			(unsigned long long)s->commit, tensors, versions,
			commits, names);
	Py_XDECREF(tensors);
	Py_XDECREF(versions);
	Py_XDECREF(commits);
	Py_XDECREF(names);
	if (version)
		of(self)->pending = tarn_snapshot_free(of(self)->pending);
	return version;
}

static PyObject *next_locked(PyObject *self, double deadline, uint64_t since)
{
	struct tarn_snapshot *s = NULL;
	int r;

	if (!of(self)->follow) {
		PyErr_SetString(PyExc_ValueError,
			"the follow is closed; begin another");
		return NULL;
	}
	if (of(self)->pending)
		deadline = DEADLINE_NOW;
	r = wait_slices(of(self)->follow, deadline, &s);
	if (PyErr_Occurred())
		return NULL;
	if (r == -ETIMEDOUT && !of(self)->pending)
		Py_RETURN_NONE;
	/* It is gone by now. */
	if (r == -ENOENT)
		of(self)->pending = tarn_snapshot_free(of(self)->pending);
	if (r < 0 && r != -ETIMEDOUT)
		return raise_lookup(r);
	if (r >= 0) {
		tarn_snapshot_free(of(self)->pending);
		of(self)->pending = s;
	}
	return make_version(self, since);
}

/* timeout, and the commit of the current version */
static PyObject *next(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
	PyObject *found;
	double deadline;
	int64_t since;

	if (n_args != 2) {
		PyErr_SetString(PyExc_TypeError,
			"_next() takes a timeout and a commit");
		return NULL;
	}
	if (deadline_argument(args[0], &deadline) < 0 ||
		int_argument(args[1], &since) < 0 || enter(self) < 0)
		return NULL;
	found = next_locked(self, deadline, (uint64_t)since);
	leave(self);
	return found;
}

static PyObject *end(PyObject *self, PyObject *none)
{
	(void)none;
	if (enter(self) < 0)
		return NULL;
	follow_free(self);
	leave(self);
	Py_RETURN_NONE;
}

/* ---- the type ------------------------------------------------------ */

static PyMethodDef methods[] = {
	{"_next", EXPORT(next), FAST,
		"What Follow.next is made of: calls _take(commit, tensors, "
		"versions, commits,\nnames) for the next version, with all names but "
		"only those tensors that were\npublished since, and returns "
		"its result; or None after a timeout."},
	{"_end", end, METH_NOARGS, "Follow.close."},
	{0},
};

static PyType_Slot slots[] = {
	{Py_tp_doc, "Names below a prefix as they change."},
	{Py_tp_new, follow_new},
	{Py_tp_dealloc, follow_dealloc},
	{Py_tp_methods, methods},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "tarn._tarn.FollowBase",
	.basicsize = sizeof(struct follow),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
	.slots = slots,
};

int add_follow_type(PyObject *module)
{
	PyObject *type = PyType_FromSpec(&spec);

	return type ? PyModule_AddObject(module, "FollowBase", type) : -1;
}
