// SPDX-License-Identifier: MIT
/*
 * Samples of a dataset: one, or those of several positions as one tensor, read
 * without the GIL straight into the tensors that are returned.
 */
#include "python/data.h"

#include <stdlib.h>
#include <string.h>

enum { TOKENS, POSITIONS, SEGMENTS, DOCUMENT, TENSORS };

struct reading {
	tarn_data *data;
	struct tarn_data_info info;
	unsigned parts;
	uint64_t *g;
	size_t n;
	tarn_tensor *tensors[TENSORS];
	unsigned char *memory[TENSORS]; /* NULL: it is not asked for */
	int32_t *cu_seqlens;            /* of one sample */
	tarn_tensor *boundaries;        /* of all */
	size_t n_boundaries;
	struct tarn_data_sample last;
};

/* ---- memory -------------------------------------------------------- */

/* Of n samples of that shape each; without n where there is but one. */
static int make(struct reading *r, int which, bool many, int dtype, int ndim,
	const int64_t *shape)
{
	int64_t whole[TARN_NDIM_MAX] = {(int64_t)r->n};
	int result;

	if (ndim + many > TARN_NDIM_MAX) {
		PyErr_Format(PyExc_ValueError,
			"rows of %d dimensions cannot be stacked: a tensor has "
			"at most %d",
			ndim, TARN_NDIM_MAX);
		return -1;
	}
	memcpy(whole + many, shape, (size_t)ndim * sizeof(*shape));
	result = new_tensor(dtype, ndim + many, whole, &r->tensors[which]);
	if (result < 0) {
		raise_view_as("", result);
		return -1;
	}
	r->memory[which] = tarn_tensor_data(r->tensors[which]);
	return 0;
}

static int make_rows(struct reading *r, PyObject *self, bool many)
{
	PyObject *first = PyTuple_GetItem(dataset_of(self)->sources, 0);
	const struct tarn_layout *l =
		layout_of(PyTuple_GetItem(data_source_of(first)->arguments, 0));

	if (r->parts & ~DATA_DOCUMENT) {
		PyErr_SetString(PyExc_ValueError,
			"rows have no positions, segments and cu_seqlens");
		return -1;
	}
	return make(r, TOKENS, many, l->dtype, l->ndim - 1, l->shape + 1);
}

/* Boundaries are of the n * seq_len tokens that are read. */
static int make_boundaries(struct reading *r)
{
	uint64_t seq_len = r->info.sample_tokens - 1;
	int64_t most;

	if (r->n > INT32_MAX / seq_len) {
		PyErr_Format(PyExc_ValueError,
			"cu_seqlens has 32 bits: %zu samples of %llu tokens "
			"are too many",
			r->n, (unsigned long long)seq_len);
		return -1;
	}
	most = (int64_t)(r->n * seq_len) + 1;
	r->cu_seqlens = malloc((seq_len + 1) * sizeof(*r->cu_seqlens));
	if (!r->cu_seqlens) {
		PyErr_NoMemory();
		return -1;
	}
	if (new_tensor(TARN_I32, 1, &most, &r->boundaries) >= 0)
		return 0;
	PyErr_NoMemory();
	return -1;
}

static int make_all(struct reading *r, PyObject *self, bool many)
{
	int64_t length = r->info.sample_tokens;

	if (!length && make_rows(r, self, many) < 0)
		return -1;
	if (length && make(r, TOKENS, many, (int)r->info.dtype, 1, &length) < 0)
		return -1;
	if ((r->parts & DATA_POSITIONS) &&
		make(r, POSITIONS, many, TARN_I32, 1, &length) < 0)
		return -1;
	if ((r->parts & DATA_SEGMENTS) &&
		make(r, SEGMENTS, many, TARN_I32, 1, &length) < 0)
		return -1;
	if ((r->parts & DATA_CU_SEQLENS) && make_boundaries(r) < 0)
		return -1;
	return many && (r->parts & DATA_DOCUMENT)
		       ? make(r, DOCUMENT, many, TARN_U64, 0, &length)
		       : 0;
}

/* ---- reading, without the GIL -------------------------------------- */

static void *of_sample(const struct reading *r, int which, size_t i)
{
	size_t each = which == TOKENS ? r->info.sample_bytes
				      : r->info.sample_tokens * sizeof(int32_t);

	return r->memory[which] ? r->memory[which] + i * each : NULL;
}

/* The first boundary of a sample is the last one of the sample before it. */
static void add_boundaries(struct reading *r, size_t i)
{
	int32_t *to = tarn_tensor_data(r->boundaries);
	int32_t before = (int32_t)(i * (r->info.sample_tokens - 1));

	for (uint32_t k = i > 0; k < r->last.n_cu_seqlens; k++)
		to[r->n_boundaries++] = before + r->cu_seqlens[k];
}

static int read_one(struct reading *r, size_t i)
{
	struct tarn_data_request request = {
		.tokens = of_sample(r, TOKENS, i),
		.size = r->info.sample_bytes,
		.positions = of_sample(r, POSITIONS, i),
		.segments = of_sample(r, SEGMENTS, i),
		.cu_seqlens = r->cu_seqlens,
		.document = r->parts & DATA_DOCUMENT,
	};
	int result = tarn_data_get(r->data, r->g[i], &request, &r->last);
	uint64_t *documents = (uint64_t *)(void *)r->memory[DOCUMENT];

	if (result < 0)
		return result;
	if (r->cu_seqlens)
		add_boundaries(r, i);
	if (documents)
		documents[i] = r->last.document;
	return result;
}

static int read_all(struct reading *r)
{
	int result = 0;

	Py_BEGIN_ALLOW_THREADS
	for (size_t i = 0; result >= 0 && i < r->n; i++)
		result = read_one(r, i);
	Py_END_ALLOW_THREADS
	if (result < 0)
		raise_system(result);
	return result < 0 ? -1 : 0;
}

/* ---- what is returned ---------------------------------------------- */

/* Takes the value over; NULL is an exception. */
static int put(PyObject *dict, const char *key, PyObject *value)
{
	int r = value ? PyDict_SetItemString(dict, key, value) : -1;

	Py_XDECREF(value);
	return r;
}

static int put_boundaries(PyObject *dict, struct reading *r)
{
	struct tarn_layout layout;
	PyObject *whole, *view;
	int result = tarn_layout_narrow(tarn_tensor_layout(r->boundaries), 0, 0,
		(int64_t)r->n_boundaries, &layout);

	whole = tensor_wrap_consume(r->boundaries);
	r->boundaries = NULL;
	if (!whole)
		return -1;
	view = tensor_view(whole, result, &layout);
	Py_DECREF(whole);
	return put(dict, "cu_seqlens", view);
}

static int put_numbers(PyObject *dict, const struct reading *r)
{
	const struct tarn_data_sample *s = &r->last;

	if ((r->parts & DATA_DOCUMENT) &&
		put(dict, "document",
			PyLong_FromUnsignedLongLong(s->document)) < 0)
		return -1;
	if (put(dict, "epoch", PyLong_FromUnsignedLongLong(s->epoch)) < 0 ||
		put(dict, "source", PyLong_FromUnsignedLong(s->source)) < 0)
		return -1;
	return put(dict, "sample", PyLong_FromUnsignedLongLong(s->sample));
}

static PyObject *result_dict(struct reading *r, bool many)
{
	const char *const keys[] = {r->info.sample_tokens ? "tokens" : "row",
		"positions", "segments", "document"};
	PyObject *dict = PyDict_New();
	int result = dict ? 0 : -1;

	for (int i = 0; result >= 0 && i < TENSORS; i++) {
		tarn_tensor *tensor = r->tensors[i];

		r->tensors[i] = NULL;
		if (tensor)
			result =
				put(dict, keys[i], tensor_wrap_consume(tensor));
	}
	if (result >= 0 && r->boundaries)
		result = put_boundaries(dict, r);
	if (result >= 0 && !many)
		result = put_numbers(dict, r);
	if (result < 0)
		Py_CLEAR(dict);
	return dict;
}

/* ---- calls --------------------------------------------------------- */

static int take_positions(struct reading *r, PyObject *list)
{
	r->n = (size_t)PyTuple_Size(list);
	r->g = calloc(r->n + 1, sizeof(*r->g));
	if (!r->g) {
		PyErr_NoMemory();
		return -1;
	}
	for (size_t i = 0; i < r->n; i++)
		if (data_count_argument("position",
			    PyTuple_GetItem(list, (Py_ssize_t)i), &r->g[i]) < 0)
			return -1;
	return 0;
}

static void done(struct reading *r)
{
	for (int i = 0; i < TENSORS; i++)
		tarn_tensor_unref(r->tensors[i]);
	tarn_tensor_unref(r->boundaries);
	free(r->cu_seqlens);
	free(r->g);
}

/* positions: a tuple; parts; is it one sample, or a batch? */
PyObject *data_read(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
	struct reading r = {.n = 0};
	PyObject *dict = NULL;
	uint64_t parts;
	bool many;

	if (n_args != 3 || !PyTuple_Check(args[0])) {
		PyErr_SetString(PyExc_TypeError,
			"read() takes a tuple of positions, parts, and whether "
			"it is a batch");
		return NULL;
	}
	many = PyObject_IsTrue(args[2]) > 0;
	if (PyErr_Occurred() ||
		data_count_argument("parts", args[1], &parts) < 0)
		return NULL;
	r.parts = (unsigned)parts & 15u;
	r.data = data_of(self);
	if (!r.data)
		return NULL;
	tarn_data_info(r.data, &r.info);
	if (take_positions(&r, args[0]) >= 0 && make_all(&r, self, many) >= 0 &&
		read_all(&r) >= 0)
		dict = result_dict(&r, many);
	done(&r);
	return dict;
}

/* Where the sample at a position is: epoch, source, sample. */
PyObject *data_place(PyObject *self, PyObject *position)
{
	static const struct tarn_data_request nothing = {.tokens = NULL};
	struct tarn_data_sample sample;
	tarn_data *data = data_of(self);
	uint64_t g;
	int r;

	if (!data || data_count_argument("position", position, &g) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_data_get(data, g, &nothing, &sample);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return raise_system(r);
	return Py_BuildValue("(KIK)", (unsigned long long)sample.epoch,
		sample.source, (unsigned long long)sample.sample);
}
