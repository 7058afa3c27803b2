// SPDX-License-Identifier: MIT
/*
 * The loader below tarn.data.Loader: batches of a dataset, read ahead by the
 * library, and their tensors, which are views of its slots.
 *
 * next() takes the library's loader out of the object, and puts it back when it
 * is done, so that a close() by another thread meanwhile finds none, and the call
 * closes it at its end.
 */
#include "python/data.h"

#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include <tarn/loader.h>

/* So often a signal that came just before a wait is looked for. */
#define SLICE_MS 200

struct loader {
	PyObject_HEAD
	_Atomic(tarn_loader *) loader; /* NULL: closed, or in a call */
	atomic_bool closed;
	PyObject *data, *store;
	pid_t process;
	unsigned parts;
	bool rows;
};

static struct loader *of(PyObject *self)
{
	return (struct loader *)self;
}

/* ---- opening ------------------------------------------------------- */

enum {
	BATCH,
	RANK,
	WORLD,
	NODE_RANK,
	NODE_RANKS,
	AHEAD,
	PARTS,
	FROM,
	UNTIL,
	COUNT
};

static const char *const words[COUNT] = {"global_batch", "rank", "world",
	"node_rank", "node_ranks", "ahead", "parts", "from_", "until"};

static int take_options(
	PyObject *const given[COUNT], struct tarn_loader_options *ret)
{
	uint64_t n[COUNT];

	for (int i = 0; i < COUNT; i++) {
		bool narrow = i != BATCH && i != FROM && i != UNTIL;

		if (data_count_argument(words[i], given[i], &n[i]) < 0)
			return -1;
		if (narrow && n[i] > UINT32_MAX) {
			PyErr_Format(PyExc_ValueError,
				"Loader: %s is %R, and has 32 bits", words[i],
				given[i]);
			return -1;
		}
	}
	ret->global_batch = n[BATCH];
	ret->rank = (uint32_t)n[RANK];
	ret->world = (uint32_t)n[WORLD];
	ret->node_rank = (uint32_t)n[NODE_RANK];
	ret->node_ranks = (uint32_t)n[NODE_RANKS];
	ret->ahead = (uint32_t)n[AHEAD];
	ret->parts = (unsigned)n[PARTS];
	ret->from = n[FROM];
	ret->until = n[UNTIL];
	/* list(loader) shall end. */
	ret->keeps = true;
	return 0;
}

static PyObject *wrap_consume(PyTypeObject *type, PyObject *data,
	PyObject *store, tarn_loader *loader, unsigned parts)
{
	allocfunc alloc = PyType_GetSlot(type, Py_tp_alloc);
	PyObject *self = alloc(type, 0);
	struct tarn_data_info info;

	if (!self) {
		tarn_loader_unref(loader);
		return NULL;
	}
	tarn_data_info(dataset_of(data)->data, &info);
	/* Nobody else has the object yet. */
	atomic_init(&of(self)->loader, loader);
	atomic_init(&of(self)->closed, false);
	of(self)->data = data;
	of(self)->store = store;
	of(self)->process = getpid();
	of(self)->parts = parts;
	of(self)->rows = info.sample_tokens == 0;
	Py_INCREF(data);
	Py_INCREF(store);
	return self;
}

static PyObject *loader_new(
	PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	static char *names[] = {"data", "store", "name", "global_batch", "rank",
		"world", "node_rank", "node_ranks", "ahead", "parts", "from_",
		"until", NULL};
	PyObject *data, *store, *name, *given[COUNT];
	struct tarn_loader_options options = {.name = NULL};
	tarn_loader *loader = NULL;
	tarn_data *opened;
	int r;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!OOOOOOOOOOO", names,
		    dataset_type, &data, &store, &name, &given[BATCH],
		    &given[RANK], &given[WORLD], &given[NODE_RANK],
		    &given[NODE_RANKS], &given[AHEAD], &given[PARTS],
		    &given[FROM], &given[UNTIL]))
		return NULL;
	if (store != Py_None && !PyObject_TypeCheck(store, store_type)) {
		PyErr_Format(PyExc_TypeError,
			"Loader: store is a tarn.Store, not %R", store);
		return NULL;
	}
	opened = data_of(data);
	if (!opened || take_options(given, &options) < 0)
		return NULL;
	if (name != Py_None) {
		options.name = text_argument(name);
		if (!options.name)
			return NULL;
	}
	Py_BEGIN_ALLOW_THREADS
	r = tarn_loader_open(store == Py_None ? NULL : store_of(store), opened,
		&options, &loader);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return data_raise(r);
	return wrap_consume(type, data, store, loader, options.parts);
}

/* The library's loader is its process's: a child of a fork has no thread of it
 * to end. */
static void end(PyObject *self)
{
	/* Pairs with the store in put_back(). */
	tarn_loader *loader = atomic_exchange_explicit(
		&of(self)->loader, NULL, memory_order_acq_rel);

	if (!loader || of(self)->process != getpid())
		return;
	Py_BEGIN_ALLOW_THREADS
	tarn_loader_unref(loader);
	Py_END_ALLOW_THREADS
}

static void loader_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = PyType_GetSlot(type, Py_tp_free);

	end(self);
	Py_XDECREF(of(self)->data);
	Py_XDECREF(of(self)->store);
	release(self);
	Py_DECREF((PyObject *)type);
}

static tarn_loader *take_out(PyObject *self)
{
	/* Pairs with the store in put_back(). */
	tarn_loader *loader = atomic_exchange_explicit(
		&of(self)->loader, NULL, memory_order_acq_rel);

	if (loader)
		return loader;
	/* The sentence alone depends on it. */
	if (atomic_load_explicit(&of(self)->closed, memory_order_relaxed))
		PyErr_SetString(PyExc_ValueError, "the loader is closed");
	else
		PyErr_SetString(PyExc_RuntimeError,
			"another thread is waiting for the loader's next batch");
	return NULL;
}

static void put_back(PyObject *self, tarn_loader *loader)
{
	/* Both are of one order with those of close(): either it finds the
	 * loader, or this call finds that it is closed. */
	atomic_store_explicit(&of(self)->loader, loader, memory_order_seq_cst);
	if (atomic_load_explicit(&of(self)->closed, memory_order_seq_cst))
		end(self);
}

static PyObject *close_loader(PyObject *self, PyObject *none)
{
	/* See put_back(). */
	atomic_store_explicit(&of(self)->closed, true, memory_order_seq_cst);
	end(self);
	Py_RETURN_NONE;
}

/* ---- batches ------------------------------------------------------- */

static int put(PyObject *dict, const char *key, tarn_batch *batch,
	enum tarn_loader_part part)
{
	tarn_tensor *tensor = NULL;
	int r = tarn_batch_tensor(batch, part, &tensor);
	PyObject *value = r < 0 ? raise_view(r) : tensor_wrap_consume(tensor);

	r = value ? PyDict_SetItemString(dict, key, value) : -1;
	Py_XDECREF(value);
	return r;
}

static PyObject *batch_dict(const struct loader *loader, tarn_batch *batch)
{
	static const struct {
		const char *key;
		enum tarn_loader_part part;
	} parts[] = {
		{"positions", TARN_LOADER_POSITIONS},
		{"segments", TARN_LOADER_SEGMENTS},
		{"cu_seqlens", TARN_LOADER_CU_SEQLENS},
		{"document", TARN_LOADER_DOCUMENTS},
	};
	PyObject *dict = PyDict_New();
	int r = dict ? put(dict, loader->rows ? "row" : "tokens", batch,
			       TARN_LOADER_TOKENS)
		     : -1;

	for (size_t i = 0; r >= 0 && i < sizeof(parts) / sizeof(parts[0]); i++)
		if (loader->parts & parts[i].part)
			r = put(dict, parts[i].key, batch, parts[i].part);
	if (r < 0)
		Py_CLEAR(dict);
	return dict;
}

static int wait_for(tarn_loader *loader, double deadline, tarn_batch **ret)
{
	int r = -ETIMEDOUT, slice;

	while (r == -ETIMEDOUT || r == -EINTR) {
		if (PyErr_CheckSignals() < 0)
			return -EINTR;
		slice = deadline_slice(deadline, SLICE_MS);
		Py_BEGIN_ALLOW_THREADS
		r = tarn_loader_next(loader, slice, ret);
		Py_END_ALLOW_THREADS
		if (r == -ETIMEDOUT && deadline_passed(deadline))
			return r;
	}
	return r;
}

/* (position of the first sample, how many, the tensors); None: the end. */
static PyObject *next_batch(PyObject *self, PyObject *timeout)
{
	tarn_batch *batch = NULL;
	tarn_loader *loader;
	PyObject *dict = NULL, *answer = NULL;
	double deadline;
	int r;

	if (deadline_argument(timeout, &deadline) < 0)
		return NULL;
	loader = take_out(self);
	if (!loader)
		return NULL;
	r = wait_for(loader, deadline, &batch);
	if (r >= 0)
		dict = batch_dict(of(self), batch);
	else if (r == -ETIMEDOUT)
		raise_timeout("loader", "next", "");
	else if (r != -EPIPE)
		data_raise(r);
	if (dict)
		answer = Py_BuildValue("(KKN)",
			(unsigned long long)tarn_batch_position(batch),
			(unsigned long long)tarn_batch_samples(batch), dict);
	tarn_batch_unref(batch);
	put_back(self, loader);
	if (r != -EPIPE)
		return answer;
	Py_RETURN_NONE;
}

static PyObject *info(PyObject *self, PyObject *none)
{
	struct tarn_loader_info i = {.engine = ""};
	tarn_loader *loader = take_out(self);

	if (!loader)
		return NULL;
	tarn_loader_info(loader, &i);
	put_back(self, loader);
	return Py_BuildValue("{s:s,s:N,s:I,s:K,s:K,s:K,s:K,s:K,s:K,s:K}",
		"engine", i.engine, "reads", PyBool_FromLong(i.reads), "slots",
		i.slots, "shared", (unsigned long long)i.n_shared, "alone",
		(unsigned long long)i.n_alone, "dropped",
		(unsigned long long)i.n_dropped, "batches_read",
		(unsigned long long)i.batches_read, "requests",
		(unsigned long long)i.requests, "file_bytes",
		(unsigned long long)i.file_bytes, "memory_bytes",
		(unsigned long long)i.memory_bytes);
}

/* ---- the type ------------------------------------------------------ */

static PyMethodDef methods[] = {
	{"next", next_batch, METH_O, "A position, a number, and tensors."},
	{"info", info, METH_NOARGS, "Loader.info."},
	{"close", close_loader, METH_NOARGS, "Loader.close."},
	{0},
};

static PyType_Slot slots[] = {
	{Py_tp_doc, "What tarn.data.Loader consists of."},
	{Py_tp_new, loader_new},
	{Py_tp_dealloc, loader_dealloc},
	{Py_tp_methods, methods},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "tarn._tarn._Loader",
	.basicsize = sizeof(struct loader),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

int add_data_loader_type(PyObject *module)
{
	PyObject *type = PyType_FromSpec(&spec);

	return type ? PyModule_AddObject(module, "_Loader", type) : -1;
}
