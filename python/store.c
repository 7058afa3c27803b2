// SPDX-License-Identifier: MIT
/*
 * The store: the base of tarn.Store, which adds what mappings have. A look-up
 * of a published name makes no system call and keeps the GIL; everything that
 * can take longer gives it away.
 */
#include "python/module.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How long a wait may miss Ctrl-C, in milliseconds. */
#define SLICE_MS 50

PyTypeObject *store_type;

static PyObject *store_new(
	PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	static char *names[] = {"socket", "pool", NULL};
	allocfunc alloc = PyType_GetSlot(type, Py_tp_alloc);
	struct tarn_store_options options = {0};
	const char *socket = NULL;
	tarn_store *store;
	PyObject *self;
	int r;

	if (!PyArg_ParseTupleAndKeywords(
		    args, keywords, "|zz:Store", names, &socket, &options.pool))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_store_open(socket, &options, &store);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return raise_system(r);
	self = alloc(type, 0);
	if (!self) {
		tarn_store_unref(store);
		return NULL;
	}
	((struct store *)self)->store = store;
	return self;
}

static void store_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = PyType_GetSlot(type, Py_tp_free);

	tarn_store_unref(store_of(self));
	release(self);
	Py_DECREF((PyObject *)type);
}

/* ---- looking up ---------------------------------------------------- */

/* Loads a file that is not loaded yet: Ctrl-C ends that. */
static int get_address(tarn_store *store, const char *name, tarn_tensor **ret)
{
	struct progress_call progress = {0};
	const struct tarn_load_options options = {
		.progress = progress_load_step,
		.arg = &progress,
	};
	int r;

	progress.state = PyEval_SaveThread();
	r = tarn_store_get(store, name, &options, ret);
	return progress_end(&progress, r);
}

static PyObject *store_subscript(PyObject *self, PyObject *key)
{
	const char *name = text_argument(key);
	tarn_tensor *tensor = NULL;
	int r;

	if (!name)
		return NULL;
	r = tarn_store_lookup(store_of(self), name, &tensor);
	if (r < 0 && strchr(name, ':'))
		r = get_address(store_of(self), name, &tensor);
	if (r >= 0)
		return tensor_wrap_consume(tensor);
	tarn_tensor_unref(tensor);
	return strchr(name, ':') ? raise_lookup(r)
				 : raise_missing(r, self, key);
}

/* It contains the names of tensors, not those of channels. */
static int store_contains(PyObject *self, PyObject *key)
{
	const char *name = PyUnicode_Check(key) ? text_argument(key) : NULL;
	tarn_tensor *tensor;
	int r;

	PyErr_Clear(); /* what can be no name is not among them */
	if (!name)
		return 0;
	r = tarn_store_lookup(store_of(self), name, &tensor);
	if (r >= 0)
		tarn_tensor_unref(tensor);
	if (r >= 0 || r == -ENOENT || r == -EINVAL)
		return r >= 0;
	raise_system(r);
	return -1;
}

static int append_name(void *list, const char *name,
	const struct tarn_descriptor *descriptor, uint64_t version)
{
	PyObject *text = PyUnicode_FromString(name);
	int r = text ? PyList_Append(list, text) : -1;

	Py_XDECREF(text);
	return r < 0 ? -ENOMEM : 0;
}

static PyObject *list_names(PyObject *self, const char *prefix)
{
	PyObject *list = PyList_New(0);
	int r;

	if (!list)
		return NULL;
	r = tarn_store_list(store_of(self), prefix, append_name, list);
	if (r >= 0)
		return list;
	Py_DECREF(list);
	return raise_system(r);
}

static PyObject *store_iterate(PyObject *self)
{
	PyObject *names = list_names(self, NULL), *iterator;

	iterator = names ? PyObject_GetIter(names) : NULL;
	Py_XDECREF(names);
	return iterator;
}

static int count_name(void *arg, const char *name,
	const struct tarn_descriptor *descriptor, uint64_t version)
{
	++*(Py_ssize_t *)arg;
	return 0;
}

static Py_ssize_t store_length(PyObject *self)
{
	Py_ssize_t n = 0;
	int r = tarn_store_list(store_of(self), NULL, count_name, &n);

	if (r >= 0)
		return n;
	raise_system(r);
	return -1;
}

static PyObject *names_below(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"prefix", NULL};
	const char *prefix;
	PyObject *given;

	if (named_arguments("names", names, 0, args, n_args, keywords, &given) <
			0 ||
		optional_text(given, &prefix) < 0)
		return NULL;
	return list_names(self, prefix);
}

static PyObject *version_of(PyObject *self, PyObject *key)
{
	const char *name = text_argument(key);
	uint64_t version;
	int r;

	if (!name)
		return NULL;
	r = tarn_store_version(store_of(self), name, &version);
	if (r < 0)
		return raise_lookup(r);
	return PyLong_FromUnsignedLongLong(version);
}

/* ---- waiting ------------------------------------------------------- */

/* In slices, between which signals are looked for. */
static int wait_slices(tarn_store *store, const char *name, uint64_t newer_than,
	double deadline, tarn_tensor **ret)
{
	int left, r;

	do {
		left = deadline_slice(deadline, SLICE_MS);
		Py_BEGIN_ALLOW_THREADS
		r = tarn_store_wait(store, name, newer_than, left, ret, NULL);
		Py_END_ALLOW_THREADS
		if (r == -ETIMEDOUT && PyErr_CheckSignals() < 0)
			return r;
	} while (r == -ETIMEDOUT && !deadline_passed(deadline));
	return r;
}

static PyObject *wait_for(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {
		"name", "timeout", "newer_than", NULL};
	PyObject *given[3];
	tarn_tensor *tensor;
	int64_t newer = 0;
	const char *name;
	double deadline;
	int r;

	if (named_arguments("wait", names, 1, args, n_args, keywords, given) <
		0)
		return NULL;
	name = text_argument(given[0]);
	if (!name || deadline_argument(given[1], &deadline) < 0 ||
		(given[2] && int_argument(given[2], &newer) < 0))
		return NULL;
	newer = newer < 0 ? 0 : newer;
	r = wait_slices(
		store_of(self), name, (uint64_t)newer, deadline, &tensor);
	if (r == -ETIMEDOUT && !PyErr_Occurred())
		return raise_timeout("wait", name, "");
	return r < 0 ? raise_system(r) : tensor_wrap_consume(tensor);
}

/* ---- asking -------------------------------------------------------- */

static PyObject *get_socket(PyObject *self, void *closure)
{
	return PyUnicode_DecodeFSDefault(tarn_store_socket(store_of(self)));
}

static PyObject *get_pool(PyObject *self, void *closure)
{
	return PyUnicode_FromString(tarn_store_pool(store_of(self)));
}

static PyObject *get_node(PyObject *self, void *closure)
{
	int node = tarn_store_node(store_of(self));

	(void)closure;
	if (node < 0)
		Py_RETURN_NONE;
	return PyLong_FromLong(node);
}

static int set_node(PyObject *self, PyObject *value, void *closure)
{
	int node, r;

	(void)closure;
	if (!value) {
		PyErr_SetString(PyExc_TypeError, "node cannot be deleted");
		return -1;
	}
	if (node_argument(value, &node) < 0)
		return -1;
	r = tarn_store_set_node(store_of(self), node);
	if (r < 0)
		raise_system(r);
	return r < 0 ? -1 : 0;
}

static PyObject *status_dict(const struct tarn_report_daemon *d)
{
	return Py_BuildValue("{s:i,s:i,s:I,s:I,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,"
			     "s:K,s:K,s:K,s:K,s:s,s:s}",
		"keeper_pid", (int)d->keeper_pid, "server_pid",
		(int)d->server_pid, "clients", d->clients, "loaders",
		d->loaders, "uptime_ms", d->uptime_ms, "names", d->names,
		"storages", d->storages, "budget", d->budget, "allocated",
		d->allocated, "used", d->used, "cached", d->bytes.cached,
		"loads", d->loads, "loads_cached", d->loads_cached,
		"loads_active", d->loads_active, "loads_failed",
		d->loads_failed, "bytes_loaded", d->bytes_loaded, "engine",
		d->engine, "version", d->version);
}

static PyObject *get_status(PyObject *self, PyObject *none)
{
	struct tarn_report *report;
	PyObject *dict;
	int r;

	Py_BEGIN_ALLOW_THREADS
	r = tarn_store_report(store_of(self), &report);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return raise_system(r);
	dict = status_dict(&report->daemon);
	tarn_report_free(report);
	return dict;
}

/* Without the GIL: segments may have to be mapped. */
struct segments {
	struct tarn_segment *all;
	size_t n;
};

static int add_segment(void *arg, const struct tarn_segment *segment)
{
	struct segments *s = arg;
	struct tarn_segment *all =
		reallocarray(s->all, s->n + 1, sizeof(*s->all));

	if (!all)
		return -ENOMEM;
	s->all = all;
	all[s->n++] = *segment;
	return 0;
}

static PyObject *node_number(int node)
{
	if (node == TARN_NODE_UNKNOWN)
		Py_RETURN_NONE;
	return PyLong_FromLong(node);
}

static PyObject *segment_dict(const struct tarn_segment *s)
{
	return Py_BuildValue("{s:K,s:K,s:K,s:N,s:I,s:K}", "address",
		(unsigned long long)(uintptr_t)s->address, "size",
		(unsigned long long)s->size, "page_size",
		(unsigned long long)s->page_size, "node", node_number(s->node),
		"number", s->number, "serial", (unsigned long long)s->serial);
}

static PyObject *get_segments(PyObject *self, PyObject *none)
{
	struct segments s = {0};
	PyObject *list;
	int r;

	Py_BEGIN_ALLOW_THREADS
	r = tarn_store_segments(store_of(self), add_segment, &s);
	Py_END_ALLOW_THREADS
	list = r < 0 ? raise_system(r) : PyList_New((Py_ssize_t)s.n);
	for (size_t i = 0; list && i < s.n; i++) {
		PyObject *one = segment_dict(&s.all[i]);

		/* It takes one over. */
		if (!one || PyList_SetItem(list, (Py_ssize_t)i, one) < 0)
			Py_CLEAR(list);
	}
	free(s.all);
	return list;
}

static PyMethodDef methods[] = {
	{"names", EXPORT(names_below), FAST_KEYWORDS,
		"names($self, /, prefix=None)\n--\n\n"
		"The published names that begin so."},
	{"version", version_of, METH_O,
		"version($self, name, /)\n--\n\n"
		"How often the name was published."},
	{"wait", EXPORT(wait_for), FAST_KEYWORDS,
		"wait($self, /, name, timeout=None, newer_than=0)\n--\n\n"
		"Sleeps until a version above newer_than is published as "
		"name,\n"
		"and returns it. timeout is in seconds, TimeoutError."},
	{"segments", get_segments, METH_NOARGS,
		"segments($self, /)\n--\n\n"
		"The memory of the pool as this process has mapped it, for\n"
		"libraries that register memory for transfers: a list of "
		"dicts\n"
		"with address, size and page_size in bytes, node (of NUMA; -1:\n"
		"several; None: not known), number and serial, which name a\n"
		"segment for good. It is for reading only. A segment stays for\n"
		"as long as a tensor in it is held. A tensor whose data_ptr()\n"
		"is in none is in a new one, or has memory of its own. See\n"
		"tarn/segments.h."},
	{"status", get_status, METH_NOARGS,
		"status($self, /)\n--\n\n"
		"The counts and sums of the whole daemon, as a dict."},
	{0},
};

static PyGetSetDef properties[] = {
	{"socket", get_socket, NULL, "The path of the daemon's socket.", NULL},
	{"pool", get_pool, NULL,
		"The name of the pool, \"\" for this user's own memory.", NULL},
	{"node", get_node, set_node,
		"The NUMA node on which what is loaded and published from now "
		"on\nlies; None: by the pool's policy. See tarn-numa(7).",
		NULL},
	{0},
};

/* Room for the methods of all parts. */
static PyMethodDef all_methods[32];

static PyType_Slot slots[] = {
	{Py_tp_doc, "A connection to a daemon."},
	{Py_tp_new, store_new},
	{Py_tp_dealloc, store_dealloc},
	{Py_tp_iter, store_iterate},
	{Py_tp_methods, all_methods},
	{Py_tp_getset, properties},
	{Py_mp_length, store_length},
	{Py_mp_subscript, store_subscript},
	{Py_sq_contains, store_contains},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "tarn._tarn.StoreBase",
	.basicsize = sizeof(struct store),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
	.slots = slots,
};

int add_store_type(PyObject *module)
{
	PyMethodDef *const parts[] = {methods, publish_methods,
		snapshot_methods, nodes_methods, set_methods};
	size_t n = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		for (PyMethodDef *m = parts[i]; m->ml_name; m++)
			all_methods[n++] = *m;
	store_type = (PyTypeObject *)PyType_FromSpec(&spec);
	if (!store_type)
		return -1;
	Py_INCREF((PyObject *)store_type);
	return PyModule_AddObject(module, "StoreBase", (PyObject *)store_type);
}
