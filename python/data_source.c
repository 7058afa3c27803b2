// SPDX-License-Identifier: MIT
/*
 * tarn.data.Source: tokens or rows, and their documents. It never changes, and any
 * thread may use it. It travels to another process as what it was made of.
 */
#include "python/data.h"

#include <errno.h>
#include <string.h>

PyTypeObject *data_source_type;

/* ---- arguments ----------------------------------------------------- */

PyObject *data_raise(int r)
{
	if (r == -EMEDIUMTYPE && !PyErr_Occurred()) {
		PyErr_SetString(PyExc_ValueError, tarn_error_message());
		return NULL;
	}
	return r == -ERANGE ? raise_view(r) : raise_system(r);
}

int data_count_argument(const char *what, PyObject *object, uint64_t *ret)
{
	PyObject *number = PyNumber_Index(object);
	unsigned long long value;

	if (!number) {
		if (PyErr_ExceptionMatches(PyExc_TypeError))
			PyErr_Format(PyExc_TypeError,
				"%s: a whole number is wanted, not %R", what,
				object);
		return -1;
	}
	value = PyLong_AsUnsignedLongLong(number);
	Py_DECREF(number);
	if (PyErr_Occurred()) {
		PyErr_Format(PyExc_ValueError,
			"%s is %R; a number from 0 to 2^64 - 1 is wanted", what,
			object);
		return -1;
	}
	*ret = value;
	return 0;
}

int data_limited_argument(const char *what, PyObject *object, uint32_t *ret)
{
	uint64_t value;

	if (data_count_argument(what, object, &value) < 0)
		return -1;
	/* The library's sentence has its limit. */
	*ret = value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
	return 0;
}

int data_word_argument(
	const char *what, PyObject *object, const char *const *words)
{
	PyObject *list, *text;

	for (int i = 0; words[i]; i++)
		if (PyUnicode_Check(object) &&
			PyUnicode_CompareWithASCIIString(object, words[i]) == 0)
			return i;
	list = PyUnicode_FromString(words[0]);
	for (int i = 1; list && words[i]; i++) {
		text = PyUnicode_FromFormat("%U, %s", list, words[i]);
		Py_DECREF(list);
		list = text;
	}
	if (list)
		PyErr_Format(PyExc_ValueError, "%s is %R, and is one of %U",
			what, object, list);
	Py_XDECREF(list);
	return -1;
}

/* ---- the object ---------------------------------------------------- */

static void source_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = PyType_GetSlot(type, Py_tp_free);

	tarn_data_source_unref(data_source_of(self)->source);
	Py_XDECREF(data_source_of(self)->how);
	Py_XDECREF(data_source_of(self)->arguments);
	release(self);
	Py_DECREF((PyObject *)type);
}

static PyObject *source_reduce(PyObject *self, PyObject *none)
{
	const struct data_source *s = data_source_of(self);

	if (!PyUnicode_Check(s->how))
		return Py_BuildValue("(OO)", s->how, s->arguments);
	return Py_BuildValue("(NO)",
		PyObject_GetAttr((PyObject *)Py_TYPE(self), s->how),
		s->arguments);
}

/* The same source, which another process makes by a function. */
static PyObject *source_made_by(
	PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
	if (n_args != 2 || !PyCallable_Check(args[0]) ||
		!PyTuple_Check(args[1])) {
		PyErr_SetString(PyExc_TypeError,
			"_made_by() takes a function and a tuple");
		return NULL;
	}
	Py_INCREF(args[0]);
	Py_INCREF(args[1]);
	return data_source_wrap_consume((PyObject *)Py_TYPE(self),
		tarn_data_source_ref(data_source_of(self)->source), args[0],
		args[1]);
}

/* ---- asking -------------------------------------------------------- */

static struct tarn_data_source_info info_of(PyObject *self)
{
	struct tarn_data_source_info info = {.format = NULL};

	tarn_data_source_info(data_source_of(self)->source, &info);
	return info;
}

static PyObject *get_info(PyObject *self, void *closure)
{
	struct tarn_data_source_info info = info_of(self);
	PyObject *dtype =
		info.dtype ? dtype_object(info.dtype) : Py_BuildValue("");

	(void)closure;
	return Py_BuildValue("{s:s,s:N,s:I,s:n,s:K,s:K,s:K,s:K,s:N}", "format",
		info.format, "dtype", dtype, "token_bytes", info.token_bytes,
		"files", (Py_ssize_t)info.n_files, "tokens",
		(unsigned long long)info.n_tokens, "documents",
		(unsigned long long)info.n_documents, "rows",
		(unsigned long long)info.n_rows, "records",
		(unsigned long long)info.n_records, "has_documents",
		PyBool_FromLong(info.has_documents));
}

static Py_ssize_t source_length(PyObject *self)
{
	struct tarn_data_source_info info = info_of(self);
	uint64_t n = info.token_bytes ? info.n_documents
				      : info.n_rows + info.n_records;

	if (n <= PY_SSIZE_T_MAX)
		return (Py_ssize_t)n;
	PyErr_SetString(PyExc_OverflowError,
		"there are more documents than len() can say: see info");
	return -1;
}

static PyObject *source_repr(PyObject *self)
{
	struct tarn_data_source_info info = info_of(self);

	if (!info.token_bytes)
		return PyUnicode_FromFormat("<tarn.data.Source: %s, %llu %s>",
			info.format,
			(unsigned long long)(info.n_rows + info.n_records),
			strcmp(info.format, "rows") == 0 ||
					strcmp(info.format, "ragged") == 0
				? "rows"
				: "records");
	return PyUnicode_FromFormat(
		"<tarn.data.Source: %s, %llu tokens of %u bytes, %llu documents>",
		info.format, (unsigned long long)info.n_tokens,
		info.token_bytes, (unsigned long long)info.n_documents);
}

/* A new tensor of n elements and its memory. NULL with an exception. */
static PyObject *new_line(int dtype, uint64_t n, void **ret)
{
	int64_t shape[1] = {(int64_t)n};
	tarn_tensor *tensor;
	int r = n > INT64_MAX / 16 ? -ENOMEM
				   : new_tensor(dtype, 1, shape, &tensor);

	if (r < 0) {
		if (n > INT64_MAX / 16)
			return PyErr_NoMemory();
		return raise_view(r);
	}
	*ret = tarn_tensor_data(tensor);
	return tensor_wrap_consume(tensor);
}

/* first and n of a range of at most `all`, checked before memory is made for
 * it. 0 or -1. */
static int range_arguments(const char *name, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords, uint64_t all, const char *what,
	uint64_t ret[2])
{
	static const char *const names[] = {"first", "n", NULL};
	PyObject *given[2];

	if (named_arguments(name, names, 2, args, n_args, keywords, given) <
			0 ||
		data_count_argument("first", given[0], &ret[0]) < 0 ||
		data_count_argument("n", given[1], &ret[1]) < 0)
		return -1;
	if (ret[0] <= all && ret[1] <= all - ret[0])
		return 0;
	PyErr_Format(PyExc_IndexError,
		"%s: %llu %s from %llu on; the source has %llu", name,
		(unsigned long long)ret[1], what, (unsigned long long)ret[0],
		(unsigned long long)all);
	return -1;
}

static PyObject *lengths(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	PyObject *tensor;
	uint64_t range[2];
	void *bytes;
	int r;

	if (range_arguments("lengths", args, n_args, keywords,
		    info_of(self).n_documents, "documents", range) < 0)
		return NULL;
	tensor = new_line(TARN_U64, range[1], &bytes);
	if (!tensor || !range[1])
		return tensor;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_data_source_lengths(
		data_source_of(self)->source, range[0], range[1], bytes);
	Py_END_ALLOW_THREADS
	if (r >= 0)
		return tensor;
	Py_DECREF(tensor);
	return data_raise(r);
}

static PyObject *document(PyObject *self, PyObject *number)
{
	uint64_t i, token, length;
	int r;

	if (data_count_argument("document", number, &i) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_data_source_document(
		data_source_of(self)->source, i, &token, &length);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return data_raise(r);
	return Py_BuildValue(
		"(KK)", (unsigned long long)token, (unsigned long long)length);
}

static PyObject *find(PyObject *self, PyObject *number)
{
	uint64_t token, found;
	int r;

	if (data_count_argument("token", number, &token) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_data_source_find(data_source_of(self)->source, token, &found);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return data_raise(r);
	return PyLong_FromUnsignedLongLong(found);
}

static PyObject *read_tokens(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	struct tarn_data_source_info info = info_of(self);
	PyObject *tensor;
	uint64_t range[2];
	void *bytes;
	int r;

	if (!info.dtype) {
		PyErr_Format(PyExc_ValueError,
			info.token_bytes ? "read: there is no dtype of %u "
					   "bytes; a Dataset converts them"
					 : "read: rows and records have "
					   "no tokens",
			info.token_bytes);
		return NULL;
	}
	if (range_arguments("read", args, n_args, keywords, info.n_tokens,
		    "tokens", range) < 0)
		return NULL;
	tensor = new_line(info.dtype, range[1], &bytes);
	if (!tensor || !range[1])
		return tensor;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_data_source_read(
		data_source_of(self)->source, range[0], range[1], bytes);
	Py_END_ALLOW_THREADS
	if (r >= 0)
		return tensor;
	Py_DECREF(tensor);
	return data_raise(r);
}

/* ---- the type ------------------------------------------------------ */

static PyMethodDef methods[] = {
	{"open", EXPORT(data_source_open), FAST_KEYWORDS | METH_CLASS,
		"open($type, paths, dtype=None, token_bytes=None, "
		"side_car=True,\n     indexes=None, threads=0, "
		"progress=None)\n--\n\n"
		"One path or several, whose tokens follow each other: "
		"Megatron's x.bin,\nx.idx or x; datatrove's x.ds; x.npy; "
		"FILE:TENSOR; or tokens alone, for\nwhich dtype or token_bytes "
		"(1 to 4) says what they are. It takes\nmilliseconds, whatever "
		"the size. ValueError: an index is wrong, and the\ntext names "
		"file and byte.\n\n"
		"x.tar: shards of records, as WebDataset has them. Their index "
		"is made by\nreading all heads of members, with so many threads "
		"(0: all processors), and\nkept beside the shard, as "
		"x.tar.tarn-index, for the next process; where the\nfolder "
		"cannot be written, or side_car is False, it is in memory alone. "
		"indexes:\nindex(i) of each shard, or None. progress is called "
		"with the bytes that have\nbeen looked through, and how many "
		"there are."},
	{"tokens", EXPORT(data_source_tokens), FAST_KEYWORDS | METH_CLASS,
		"tokens($type, values, offsets=None)\n--\n\n"
		"The elements of a tensor or array of integers; with offsets, "
		"document i\nis values[offsets[i]:offsets[i + 1]]."},
	{"rows", data_source_rows, METH_O | METH_CLASS,
		"rows($type, tensor, /)\n--\n\n"
		"The rows of a tensor or array, of any dtype: each is a "
		"sample."},
	{"ragged", EXPORT(data_source_ragged), FAST_KEYWORDS | METH_CLASS,
		"ragged($type, values, offsets)\n--\n\n"
		"Rows of different lengths, of any dtype, for a column: row i "
		"is\nvalues[offsets[i]:offsets[i + 1]]."},
	{"columns", data_source_columns, METH_O | METH_CLASS,
		"columns($type, columns, /)\n--\n\n"
		"Records of a mapping of names to Sources with as many samples "
		"each, or to\ntensors, whose rows they are. Of tokens documents "
		"are the samples; fields of\nrecords are fields here, as "
		"NAME.FIELD."},
	{"chain", data_source_chain, METH_O | METH_CLASS,
		"chain($type, sources, /)\n--\n\n"
		"The records of Sources, those of one after those of the one "
		"before it."},
	{"record", data_source_record, METH_O,
		"record($self, i, /)\n--\n\n"
		"Record i, a tarn.data.Record, whose fields are read when they "
		"are asked for.\nOSError: the shard has changed since it was "
		"opened, or cannot be read."},
	{"index", data_source_index, METH_O,
		"index($self, i, /)\n--\n\n"
		"The index of shard i, a U8 Tensor: one process may publish it "
		"for others.\nNone: file i is no shard."},
	{"_made_by", EXPORT(source_made_by), FAST, NULL},
	{"lengths", EXPORT(lengths), FAST_KEYWORDS,
		"lengths($self, /, first, n)\n--\n\n"
		"How many tokens n documents have, a U64 Tensor."},
	{"document", document, METH_O,
		"document($self, i, /)\n--\n\n"
		"The first token of a document, and how many it has."},
	{"find", find, METH_O,
		"find($self, token, /)\n--\n\n"
		"The document that a token is of."},
	{"read", EXPORT(read_tokens), FAST_KEYWORDS,
		"read($self, /, first, n)\n--\n\n"
		"n tokens as they are in the files, a Tensor. OSError: a file "
		"has changed\nsince it was opened, has shrunk, or cannot be "
		"read."},
	{"__reduce__", source_reduce, METH_NOARGS, NULL},
	{0},
};

static PyGetSetDef properties[] = {
	{"info", get_info, NULL,
		"A dict: format, dtype, token_bytes, files, tokens, documents, "
		"rows,\nrecords, has_documents (an index tells them apart).",
		NULL},
	{0},
};

static PyType_Slot slots[] = {
	{Py_tp_doc,
		"Tokens, in files or tensors that are read where they are, and "
		"the\ndocuments that they are of; the rows of a tensor; or "
		"records, of tar shards or\ncolumns. len(source) is how many "
		"documents, rows or records there are.\nAnother process that "
		"gets one opens it anew."},
	{Py_tp_new, data_source_new},
	{Py_tp_dealloc, source_dealloc},
	{Py_tp_repr, source_repr},
	{Py_tp_methods, methods},
	{Py_tp_getset, properties},
	{Py_sq_length, source_length},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "tarn.data.Source",
	.basicsize = sizeof(struct data_source),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

int add_data_source_type(PyObject *module)
{
	data_source_type = (PyTypeObject *)PyType_FromSpec(&spec);
	if (!data_source_type)
		return -1;
	Py_INCREF((PyObject *)data_source_type);
	return PyModule_AddObject(
		module, "_Source", (PyObject *)data_source_type);
}
