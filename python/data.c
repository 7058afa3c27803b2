// SPDX-License-Identifier: MIT
/*
 * The dataset below tarn.data.Dataset, which checks arguments and adds sources
 * that are Python's: opened here, asked for its state, and read in data_get.c.
 */
#include "python/data.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

PyTypeObject *dataset_type;

static const char *const windows_names[] = {
	"stream", "padded", "dropped", "packed", "rows", "records", NULL};
static const char *const shuffle_names[] = {"all", "blocks", "none", NULL};

/* ---- opening ------------------------------------------------------- */

/* Sources, and tables as there are: NULL, or as many. A number of tarn's, with
 * an exception where a source cannot be made again. */
static int open_data(PyObject *sources, tarn_tensor *const *tables,
	const struct tarn_data_options *given, tarn_data **ret)
{
	struct tarn_data_options options = *given;
	size_t n = (size_t)PyTuple_Size(sources);
	tarn_data_source **list = calloc(n + 1, sizeof(tarn_data_source *));
	int r;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		list[i] = data_source_here(
			PyTuple_GetItem(sources, (Py_ssize_t)i));
		if (!list[i]) {
			free(list);
			return -ESTALE;
		}
	}
	options.tables = tables;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_data_open(list, n, &options, ret);
	Py_END_ALLOW_THREADS
	free(list);
	return r;
}

static void drop_tables(tarn_tensor **tables, size_t n)
{
	for (size_t i = 0; tables && i < n; i++)
		tarn_tensor_unref(tables[i]);
	free(tables);
}

/* The tables of a dataset, for another of the same sources. */
static tarn_tensor **tables_of(const tarn_data *data, size_t n)
{
	tarn_tensor **tables = calloc(n + 1, sizeof(tarn_tensor *));

	for (size_t i = 0; tables && i < n; i++)
		if (tarn_data_table(data, (uint32_t)i, &tables[i]) < 0)
			tables[i] = NULL;
	return tables;
}

tarn_data *data_of(PyObject *self)
{
	struct dataset *d = dataset_of(self);
	size_t n = (size_t)PyTuple_Size(d->sources);
	tarn_data *fresh = NULL;
	tarn_tensor **tables;
	int r;

	if (d->process == getpid())
		return d->data;
	tables = tables_of(d->data, n);
	r = tables ? open_data(d->sources, tables, &d->options, &fresh)
		   : -ENOMEM;
	drop_tables(tables, n);
	if (r < 0) {
		data_raise(r);
		return NULL;
	}
	/* Another thread of this child may have been faster. The parent's stays
	 * as it was: its lock may be taken for ever. */
	if (d->process == getpid()) {
		tarn_data_free(fresh);
		return d->data;
	}
	d->data = fresh;
	d->process = getpid();
	return fresh;
}

/* ---- arguments of opening ------------------------------------------- */

static int check_sources(PyObject *sources)
{
	if (!PyTuple_Check(sources)) {
		PyErr_SetString(PyExc_TypeError, "Dataset: sources: a tuple");
		return -1;
	}
	for (Py_ssize_t i = 0; i < PyTuple_Size(sources); i++)
		if (Py_TYPE(PyTuple_GetItem(sources, i)) != data_source_type) {
			PyErr_Format(PyExc_TypeError,
				"Dataset: source %zd is %R, and no Source", i,
				PyTuple_GetItem(sources, i));
			return -1;
		}
	return 0;
}

/* (from, (weight, ...)) of as many weights as there are sources. */
static int take_period(PyObject *pair, Py_ssize_t n, double *weights,
	struct tarn_data_weights *ret)
{
	PyObject *list;

	if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2 ||
		!PyTuple_Check(list = PyTuple_GetItem(pair, 1))) {
		PyErr_SetString(PyExc_TypeError,
			"Dataset: weights: pairs of a position and weights are "
			"wanted");
		return -1;
	}
	if (PyTuple_Size(list) != n) {
		PyErr_Format(PyExc_ValueError,
			"Dataset: %zd weights for %zd sources",
			PyTuple_Size(list), n);
		return -1;
	}
	if (data_count_argument("Dataset: weights: from",
		    PyTuple_GetItem(pair, 0), &ret->from) < 0)
		return -1;
	for (Py_ssize_t i = 0; i < n; i++)
		if (real_argument("Dataset: weights", PyTuple_GetItem(list, i),
			    &weights[i]) < 0)
			return -1;
	ret->weights = weights;
	return 0;
}

static int take_periods(struct dataset *d, PyObject *periods)
{
	Py_ssize_t n = PyTuple_Size(d->sources), n_periods;

	if (periods == Py_None)
		return 0;
	n_periods = PyTuple_Check(periods) ? PyTuple_Size(periods) : 0;
	if (n_periods < 1 || n_periods > TARN_DATA_PERIODS_MAX ||
		n > TARN_DATA_SOURCES_MAX) {
		PyErr_Format(PyExc_ValueError,
			"Dataset: weights: %zd periods of %zd sources; 1 to %d "
			"of at most %d are possible",
			n_periods, n, TARN_DATA_PERIODS_MAX,
			TARN_DATA_SOURCES_MAX);
		return -1;
	}
	d->periods = calloc((size_t)n_periods, sizeof(*d->periods));
	d->weights = calloc((size_t)(n_periods * n) + 1, sizeof(*d->weights));
	if (!d->periods || !d->weights) {
		PyErr_NoMemory();
		return -1;
	}
	for (Py_ssize_t i = 0; i < n_periods; i++)
		if (take_period(PyTuple_GetItem(periods, i), n,
			    d->weights + i * n, &d->periods[i]) < 0)
			return -1;
	d->options.periods = d->periods;
	d->options.n_periods = (size_t)n_periods;
	return 0;
}

enum {
	SEED,
	SEQ_LEN,
	WINDOWS,
	SHUFFLE,
	BLOCK,
	GROUP,
	DTYPE,
	PAD,
	THREADS,
	SIDE_CAR,
	COUNT
};

static int take_options(
	PyObject *const given[COUNT], struct tarn_data_options *o)
{
	int windows = data_word_argument(
		"Dataset: windows", given[WINDOWS], windows_names);
	int shuffle = windows < 0 ? -1
				  : data_word_argument("Dataset: shuffle",
					    given[SHUFFLE], shuffle_names);
	uint32_t threads;
	int64_t pad;

	if (shuffle < 0 ||
		data_count_argument("Dataset: seed", given[SEED], &o->seed) <
			0 ||
		data_limited_argument(
			"Dataset: seq_len", given[SEQ_LEN], &o->seq_len) < 0 ||
		data_count_argument("Dataset: block", given[BLOCK], &o->block) <
			0 ||
		data_limited_argument(
			"Dataset: group", given[GROUP], &o->group) < 0 ||
		data_limited_argument(
			"Dataset: threads", given[THREADS], &threads) < 0 ||
		optional_flag(given[SIDE_CAR], &o->side_car) < 0 ||
		int_argument(given[PAD], &pad) < 0)
		return -1;
	if (given[DTYPE] != Py_None) {
		o->dtype = (enum tarn_dtype)dtype_argument(given[DTYPE]);
		if (!o->dtype)
			return -1;
	}
	o->windows = (enum tarn_data_windows)windows;
	o->shuffle = (enum tarn_data_shuffle)shuffle;
	o->pad = pad;
	o->threads = threads > INT32_MAX ? INT32_MAX : (int)threads;
	return 0;
}

/* A tuple of Tensors and Nones, or None: *ret is NULL. 0 or -1. */
static int take_tables(PyObject *tables, size_t n, tarn_tensor ***ret)
{
	*ret = NULL;
	if (tables == Py_None)
		return 0;
	if (!PyTuple_Check(tables) || (size_t)PyTuple_Size(tables) != n) {
		PyErr_Format(PyExc_ValueError,
			"Dataset: tables: one for each of the %zu sources, or "
			"None",
			n);
		return -1;
	}
	*ret = calloc(n + 1, sizeof(**ret));
	if (!*ret) {
		PyErr_NoMemory();
		return -1;
	}
	for (size_t i = 0; i < n; i++) {
		PyObject *table = PyTuple_GetItem(tables, (Py_ssize_t)i);

		if (table == Py_None)
			continue;
		if (!is_tensor(table)) {
			PyErr_Format(PyExc_TypeError,
				"Dataset: table %zu is %R, and no Tensor", i,
				table);
			return -1;
		}
		(*ret)[i] = tarn_tensor_ref(tensor_of(table));
	}
	return 0;
}

static int open_self(PyObject *self, PyObject *sources, PyObject *periods,
	PyObject *given_tables, PyObject *const given[COUNT])
{
	struct dataset *d = dataset_of(self);
	size_t n = (size_t)PyTuple_Size(sources);
	tarn_tensor **tables;
	int r = -1;

	d->sources = sources;
	Py_INCREF(sources);
	d->process = getpid();
	if (take_options(given, &d->options) >= 0 &&
		take_periods(d, periods) >= 0 &&
		take_tables(given_tables, n, &tables) >= 0) {
		r = open_data(sources, tables, &d->options, &d->data);
		if (r < 0)
			data_raise(r);
	} else {
		tables = NULL;
	}
	drop_tables(tables, n);
	return r;
}

static PyObject *dataset_new(
	PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	static char *names[] = {"sources", "periods", "tables", "seed",
		"seq_len", "windows", "shuffle", "block", "group", "dtype",
		"pad", "threads", "side_car", NULL};
	allocfunc alloc = PyType_GetSlot(type, Py_tp_alloc);
	PyObject *sources, *periods, *tables, *given[COUNT], *self;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOOOOOOOOOOOO", names,
		    &sources, &periods, &tables, &given[SEED], &given[SEQ_LEN],
		    &given[WINDOWS], &given[SHUFFLE], &given[BLOCK],
		    &given[GROUP], &given[DTYPE], &given[PAD], &given[THREADS],
		    &given[SIDE_CAR]))
		return NULL;
	if (check_sources(sources) < 0)
		return NULL;
	self = alloc(type, 0);
	if (self && open_self(self, sources, periods, tables, given) < 0)
		Py_CLEAR(self);
	return self;
}

static void dataset_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = PyType_GetSlot(type, Py_tp_free);
	struct dataset *d = dataset_of(self);

	if (d->process == getpid())
		tarn_data_free(d->data);
	Py_XDECREF(d->sources);
	free(d->periods);
	free(d->weights);
	release(self);
	Py_DECREF((PyObject *)type);
}

/* ---- asking -------------------------------------------------------- */

static PyObject *get_info(PyObject *self, void *closure)
{
	struct tarn_data_info info;

	tarn_data_info(dataset_of(self)->data, &info);
	return Py_BuildValue("{s:K,s:K,s:I,s:N,s:I}", "samples",
		(unsigned long long)info.n_samples, "sample_bytes",
		(unsigned long long)info.sample_bytes, "sample_tokens",
		info.sample_tokens, "dtype",
		info.dtype ? dtype_object(info.dtype) : Py_BuildValue(""),
		"sources", info.n_sources);
}

static PyObject *source_samples(PyObject *self, PyObject *number)
{
	uint32_t i;
	uint64_t n;
	int r;

	if (data_limited_argument("source", number, &i) < 0)
		return NULL;
	r = tarn_data_source_samples(dataset_of(self)->data, i, &n);
	return r < 0 ? data_raise(r) : PyLong_FromUnsignedLongLong(n);
}

static PyObject *table(PyObject *self, PyObject *number)
{
	tarn_tensor *tensor = NULL;
	uint32_t i;
	int r;

	if (data_limited_argument("source", number, &i) < 0)
		return NULL;
	r = tarn_data_table(dataset_of(self)->data, i, &tensor);
	if (r == -ENOENT)
		Py_RETURN_NONE;
	return r < 0 ? data_raise(r) : tensor_wrap_consume(tensor);
}

static PyObject *get_hash(PyObject *self, void *closure)
{
	uint64_t hash[2];

	tarn_data_hash(dataset_of(self)->data, hash);
	return Py_BuildValue("(KK)", (unsigned long long)hash[0],
		(unsigned long long)hash[1]);
}

static PyObject *state(PyObject *self, PyObject *position)
{
	PyObject *text;
	uint64_t g;
	char *made;
	int r;

	if (data_count_argument("state: g", position, &g) < 0)
		return NULL;
	r = tarn_data_state(dataset_of(self)->data, g, &made);
	if (r < 0)
		return data_raise(r);
	text = PyUnicode_FromString(made);
	free(made);
	return text;
}

static PyObject *resume(PyObject *self, PyObject *state_text)
{
	const char *text = text_argument(state_text);
	uint64_t g;
	int r;

	if (!text)
		return NULL;
	r = tarn_data_resume(dataset_of(self)->data, text, &g);
	return r < 0 ? data_raise(r) : PyLong_FromUnsignedLongLong(g);
}

/* ---- the type ------------------------------------------------------ */

static PyMethodDef methods[] = {
	{"read", EXPORT(data_read), FAST, "Dataset.get, Dataset.batch."},
	{"place", data_place, METH_O,
		"epoch, source and sample of a position."},
	{"source_samples", source_samples, METH_O, "Dataset.source_samples."},
	{"table", table, METH_O, "Dataset.table."},
	{"state", state, METH_O, "Dataset.state."},
	{"resume", resume, METH_O, "Dataset.resume."},
	{0},
};

static PyGetSetDef properties[] = {
	{"info", get_info, NULL, "Dataset.info.", NULL},
	{"hash", get_hash, NULL, "Two words of 64 bits.", NULL},
	{0},
};

static PyType_Slot slots[] = {
	{Py_tp_doc, "What tarn.data.Dataset consists of."},
	{Py_tp_new, dataset_new},
	{Py_tp_dealloc, dataset_dealloc},
	{Py_tp_methods, methods},
	{Py_tp_getset, properties},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "tarn._tarn._Dataset",
	.basicsize = sizeof(struct dataset),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

int add_data_types(PyObject *module)
{
	if (add_data_source_type(module) < 0 ||
		add_data_loader_type(module) < 0 ||
		add_data_fields_type(module) < 0 ||
		PyModule_AddFunctions(module, data_order_functions) < 0)
		return -1;
	dataset_type = (PyTypeObject *)PyType_FromSpec(&spec);
	if (!dataset_type)
		return -1;
	Py_INCREF((PyObject *)dataset_type);
	return PyModule_AddObject(module, "_Dataset", (PyObject *)dataset_type);
}
