// SPDX-License-Identifier: MIT
/*
 * The fields of a record: found when the record is asked for, and read, one by
 * one, when they are. tarn.data.Record is a mapping over them.
 */
#include "python/data.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static PyTypeObject *fields_type;

struct fields {
	PyObject_HEAD
	tarn_data_record *record;
	PyObject *names; /* a tuple */
};

static struct fields *fields_of(PyObject *object)
{
	return (struct fields *)object;
}

/* Names in a tar file are bytes. */
static PyObject *name_object(const char *name)
{
	return PyUnicode_DecodeUTF8(
		name, (Py_ssize_t)strlen(name), "surrogateescape");
}

/* ---- the fields ---------------------------------------------------- */

static PyObject *names_of(const tarn_data_record *record)
{
	Py_ssize_t n = (Py_ssize_t)tarn_data_record_count(record);
	PyObject *names = PyTuple_New(n), *name;

	for (Py_ssize_t i = 0; names && i < n; i++) {
		name = name_object(
			tarn_data_record_field(record, (size_t)i)->name);
		if (!name || PyTuple_SetItem(names, i, name) < 0)
			Py_CLEAR(names);
	}
	return names;
}

/* Takes the record over, also when it fails. */
static PyObject *wrap_record_consume(tarn_data_record *record)
{
	allocfunc alloc = PyType_GetSlot(fields_type, Py_tp_alloc);
	PyObject *self = alloc(fields_type, 0);

	if (!self) {
		tarn_data_record_free(record);
		return NULL;
	}
	fields_of(self)->record = record;
	fields_of(self)->names = names_of(record);
	if (!fields_of(self)->names)
		Py_CLEAR(self);
	return self;
}

static void fields_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = PyType_GetSlot(type, Py_tp_free);

	tarn_data_record_free(fields_of(self)->record);
	Py_XDECREF(fields_of(self)->names);
	release(self);
	Py_DECREF((PyObject *)type);
}

static PyObject *fields_at(PyObject *self, PyObject *name)
{
	const struct fields *f = fields_of(self);
	tarn_tensor *tensor = NULL;
	Py_ssize_t i, n = PyTuple_Size(f->names);
	PyObject *key;
	int r;

	for (i = 0; i < n && PyUnicode_Check(name); i++)
		if (PyUnicode_Compare(name, PyTuple_GetItem(f->names, i)) == 0)
			break;
	if (i == n || !PyUnicode_Check(name)) {
		key = name_object(tarn_data_record_key(f->record));
		if (key)
			PyErr_Format(PyExc_KeyError,
				"the record %R has no field %R; it has %R", key,
				name, f->names);
		Py_XDECREF(key);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS
	r = tarn_data_record_tensor(f->record, (size_t)i, &tensor);
	Py_END_ALLOW_THREADS
	return r < 0 ? data_raise(r) : tensor_wrap_consume(tensor);
}

static PyObject *fields_iterate(PyObject *self)
{
	return PyObject_GetIter(fields_of(self)->names);
}

static Py_ssize_t fields_length(PyObject *self)
{
	return PyTuple_Size(fields_of(self)->names);
}

/* Without reading the field. */
static int fields_contain(PyObject *self, PyObject *name)
{
	return PySequence_Contains(fields_of(self)->names, name);
}

static PyType_Slot slots[] = {
	{Py_tp_doc, "What a tarn.data.Record of a source consists of."},
	{Py_tp_dealloc, fields_dealloc},
	{Py_tp_iter, fields_iterate},
	{Py_mp_length, fields_length},
	{Py_mp_subscript, fields_at},
	{Py_sq_contains, fields_contain},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "tarn._tarn._Fields",
	.basicsize = sizeof(struct fields),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};

int add_data_fields_type(PyObject *module)
{
	(void)module;
	fields_type = (PyTypeObject *)PyType_FromSpec(&spec);
	return fields_type ? 0 : -1;
}

/* ---- after a fork -------------------------------------------------- */

/* Makes it again, of what it was made of. */
static int make_again(PyObject *self)
{
	struct data_source *s = data_source_of(self);
	PyObject *method = PyObject_GetAttr((PyObject *)Py_TYPE(self), s->how);
	PyObject *made =
		method ? PyObject_CallObject(method, s->arguments) : NULL;
	struct tarn_data_source_info before, after;

	Py_XDECREF(method);
	if (!made)
		return -1;
	tarn_data_source_info(s->source, &before);
	tarn_data_source_info(data_source_of(made)->source, &after);
	if (before.n_records != after.n_records) {
		PyErr_Format(PyExc_ValueError,
			"a source has %llu records in this child of a fork, "
			"and had %llu in its parent: its files have changed",
			(unsigned long long)after.n_records,
			(unsigned long long)before.n_records);
		Py_DECREF(made);
		return -1;
	}
	/* Another thread of this child may have been faster. The parent's stays
	 * as it was: its lock may be taken for ever. */
	if (s->process != getpid()) {
		s->source = tarn_data_source_ref(data_source_of(made)->source);
		s->process = getpid();
	}
	Py_DECREF(made);
	return 0;
}

tarn_data_source *data_source_here(PyObject *self)
{
	struct data_source *s = data_source_of(self);
	struct tarn_data_source_info info;

	tarn_data_source_info(s->source, &info);
	/* What is of tensors alone, or of mapped files, has no lock. */
	if (s->process != getpid() && info.n_records &&
		PyUnicode_Check(s->how) && make_again(self) < 0)
		return NULL;
	return s->source;
}

/* ---- of a source --------------------------------------------------- */

PyObject *data_source_record(PyObject *self, PyObject *number)
{
	const tarn_data_source *source = data_source_here(self);
	PyObject *helpers, *fields, *key, *record = NULL;
	tarn_data_record *found = NULL;
	uint64_t i;
	int r;

	if (!source || data_count_argument("record", number, &i) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_data_source_record(source, i, &found);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return data_raise(r);
	key = name_object(tarn_data_record_key(found));
	fields = wrap_record_consume(found);
	helpers = PyImport_ImportModule("tarn._data_records");
	if (key && fields && helpers)
		record = PyObject_CallMethod(
			helpers, "Record", "OO", key, fields);
	Py_XDECREF(helpers);
	Py_XDECREF(fields);
	Py_XDECREF(key);
	return record;
}

PyObject *data_source_index(PyObject *self, PyObject *number)
{
	const tarn_data_source *source = data_source_here(self);
	tarn_tensor *index = NULL;
	uint64_t i;
	int r;

	if (!source || data_count_argument("index", number, &i) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_data_source_index(source, (size_t)i, &index);
	Py_END_ALLOW_THREADS
	if (r == -ENOENT)
		Py_RETURN_NONE;
	return r < 0 ? data_raise(r) : tensor_wrap_consume(index);
}
