// SPDX-License-Identifier: MIT
/* Sets of tensors: published with their fields and notes, and compared. */
#include "python/set.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "python/device.h"

/* ---- fields and notes ---------------------------------------------- */

/* What items() of a mapping has given. */
static bool is_pair(PyObject *pair)
{
	if (PyTuple_Check(pair) && PyTuple_Size(pair) == 2)
		return true;
	PyErr_SetString(PyExc_TypeError, "pairs are wanted");
	return false;
}

static int take_field(PyObject *pair, bool removes, struct tarn_set_field *ret)
{
	PyObject *key, *value;

	if (!is_pair(pair))
		return -1;
	key = PyTuple_GetItem(pair, 0);
	value = PyTuple_GetItem(pair, 1);
	if (!PyUnicode_Check(key) ||
		!(PyUnicode_Check(value) || (removes && value == Py_None))) {
		PyErr_Format(PyExc_TypeError,
			"fields are text by text, not %R: %R", key, value);
		return -1;
	}
	ret->key = text_argument(key);
	if (value != Py_None)
		ret->value = text_argument(value);
	return PyErr_Occurred() ? -1 : 0;
}

int set_fields_argument(PyObject *mapping, bool removes, struct set_fields *ret)
{
	*ret = (struct set_fields) {.n = 0};
	if (!mapping || mapping == Py_None)
		return 0;
	ret->pairs = mapping_items("texts", mapping);
	if (!ret->pairs)
		return -1;
	ret->n = (size_t)PyList_Size(ret->pairs);
	ret->fields = calloc(ret->n + 1, sizeof(*ret->fields));
	if (!ret->fields) {
		PyErr_NoMemory();
		return -1;
	}
	for (size_t i = 0; i < ret->n; i++)
		if (take_field(PyList_GetItem(ret->pairs, (Py_ssize_t)i),
			    removes, &ret->fields[i]) < 0)
			return -1;
	return 0;
}

void set_fields_done(struct set_fields *fields)
{
	free(fields->fields);
	Py_XDECREF(fields->pairs);
}

/* Notes are bytes. */
static int take_notes(
	PyObject *mapping, PyObject **ret_pairs, struct tarn_set_note **ret)
{
	Py_ssize_t n, size;
	char *bytes;

	*ret_pairs = mapping_items("bytes", mapping);
	if (!*ret_pairs)
		return -1;
	n = PyList_Size(*ret_pairs);
	*ret = calloc((size_t)n + 1, sizeof(**ret));
	if (!*ret) {
		PyErr_NoMemory();
		return -1;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *pair = PyList_GetItem(*ret_pairs, i);

		if (!is_pair(pair))
			return -1;
		(*ret)[i].name = text_argument(PyTuple_GetItem(pair, 0));
		if (!(*ret)[i].name ||
			PyBytes_AsStringAndSize(
				PyTuple_GetItem(pair, 1), &bytes, &size) < 0)
			return -1;
		(*ret)[i].bytes = bytes;
		(*ret)[i].size = (size_t)size;
	}
	return 0;
}

/* ---- publishing ---------------------------------------------------- */

static int publish(tarn_store *store, const char *prefix, PyObject *tensors,
	const struct tarn_set_options *options)
{
	size_t n = (size_t)PyList_Size(tensors);
	struct tarn_publish_item *items = calloc(n + 1, sizeof(*items));
	int r;

	if (!items) {
		PyErr_NoMemory();
		return -1;
	}
	for (size_t i = 0; i < n; i++) {
		items[i].name = pair_name(tensors, (Py_ssize_t)i);
		items[i].tensor = pair_tensor(tensors, (Py_ssize_t)i);
	}
	Py_BEGIN_ALLOW_THREADS
	r = tarn_set_publish(store, prefix, items, n, options, NULL);
	Py_END_ALLOW_THREADS
	free(items);
	if (r < 0)
		raise_system(r);
	return r;
}

/* prefix, tensors, fields, notes, exclusive, digests */
static PyObject *publish_set(
	PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
	PyObject *tensors = NULL, *notes = NULL;
	struct tarn_set_note *list = NULL;
	struct tarn_set_options options = {0};
	struct set_fields fields = {0};
	const char *prefix;
	int r = -1;

	if (n_args != 6 || !(prefix = text_argument(args[0])) ||
		optional_flag(args[4], &options.exclusive) < 0 ||
		optional_flag(args[5], &options.digests) < 0)
		return NULL;
	if (set_fields_argument(args[2], false, &fields) >= 0 &&
		(args[3] == Py_None || take_notes(args[3], &notes, &list) >= 0))
		tensors = tensor_pairs(args[1]);
	if (tensors) {
		options.fields = fields.fields;
		options.n_fields = fields.n;
		options.notes = list;
		options.n_notes = notes ? (size_t)PyList_Size(notes) : 0;
		r = publish(store_of(self), prefix, tensors, &options);
	}
	Py_XDECREF(tensors);
	Py_XDECREF(notes);
	free(list);
	set_fields_done(&fields);
	if (r < 0)
		return NULL;
	Py_RETURN_NONE;
}

/* ---- asking -------------------------------------------------------- */

static PyObject *digest_text(const struct tarn_digest *digest)
{
	char text[33];

	snprintf(text, sizeof(text), "%016llx%016llx",
		(unsigned long long)digest->word[0],
		(unsigned long long)digest->word[1]);
	return PyUnicode_FromString(text);
}

static tarn_set_fields *open_fields(PyObject *self, PyObject *prefix)
{
	const char *text = text_argument(prefix);
	tarn_set_fields *fields = NULL;
	int r;

	if (!text)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_set_fields_open(store_of(self), text, &fields);
	Py_END_ALLOW_THREADS
	if (r < 0)
		raise_lookup(r);
	return r < 0 ? NULL : fields;
}

static PyObject *fields_dict(const tarn_set_fields *fields)
{
	PyObject *dict = PyDict_New(), *value;
	struct tarn_set_field f;

	for (size_t i = 0; dict && tarn_set_fields_at(fields, i, &f) >= 0;
		i++) {
		value = PyUnicode_FromString(f.value);
		if (!value || PyDict_SetItemString(dict, f.key, value) < 0) {
			Py_DECREF(dict);
			dict = NULL;
		}
		Py_XDECREF(value);
	}
	return dict;
}

static PyObject *fields_of(PyObject *self, PyObject *prefix)
{
	tarn_set_fields *fields = open_fields(self, prefix);
	PyObject *dict;

	if (!fields)
		return NULL;
	dict = fields_dict(fields);
	tarn_set_fields_free(fields);
	return dict;
}

/* Of a tensor that a set's version has as its fields: a dict. */
static PyObject *tensor_fields(PyObject *self, PyObject *none)
{
	tarn_set_fields *fields;
	PyObject *dict;
	int r = tarn_set_fields_of(tensor_of(self), &fields);

	(void)none;
	if (r < 0)
		return raise_system(r);
	dict = fields_dict(fields);
	tarn_set_fields_free(fields);
	return dict;
}

static PyObject *verify_set(PyObject *self, PyObject *prefix)
{
	const char *text = text_argument(prefix);
	int r;

	if (!text)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_set_verify(store_of(self), text, NULL);
	Py_END_ALLOW_THREADS
	if (r == -EBADMSG || r == -ENODATA) {
		PyErr_SetString(PyExc_ValueError, tarn_error_message());
		return NULL;
	}
	if (r < 0)
		return raise_lookup(r);
	Py_RETURN_NONE;
}

/* Of a tensor that a set's version has as its fields, and the names of tensors: a
 * dict of those that have a digest. */
static PyObject *tensor_digests(PyObject *self, PyObject *names)
{
	PyObject *list = PySequence_List(names),
		 *dict = list ? PyDict_New() : NULL;
	tarn_set_fields *fields = NULL;
	struct tarn_digest seen;
	int r = dict ? tarn_set_fields_of(tensor_of(self), &fields) : 0;

	if (r < 0) {
		raise_system(r);
		Py_CLEAR(dict);
	}
	for (Py_ssize_t i = 0; dict && i < PyList_Size(list); i++) {
		PyObject *name = PyList_GetItem(list, i), *text = NULL;
		const char *bytes = text_argument(name);

		if (bytes && tarn_set_digest(fields, bytes, &seen) < 0)
			continue;
		text = bytes ? digest_text(&seen) : NULL;
		if (!text || PyDict_SetItem(dict, name, text) < 0)
			Py_CLEAR(dict);
		Py_XDECREF(text);
	}
	tarn_set_fields_free(fields);
	Py_XDECREF(list);
	return dict;
}

static PyObject *note_of(
	PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
	tarn_set_fields *fields;
	PyObject *bytes = NULL;
	struct tarn_set_note note;
	const char *name;
	int r;

	if (n_args != 2) {
		PyErr_SetString(PyExc_TypeError,
			"note() takes a prefix and the name of a tensor");
		return NULL;
	}
	name = text_argument(args[1]);
	fields = name ? open_fields(self, args[0]) : NULL;
	if (!fields)
		return NULL;
	r = tarn_set_note(fields, name, &note);
	bytes = r < 0 ? raise_lookup(r)
		      : PyBytes_FromStringAndSize(
				note.bytes, (Py_ssize_t)note.size);
	tarn_set_fields_free(fields);
	return bytes;
}

static PyObject *check_set(
	PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
	struct set_fields fields = {0};
	const char *prefix;
	int r = -1;

	if (n_args != 2) {
		PyErr_SetString(PyExc_TypeError,
			"check_set() takes a prefix and the fields");
		return NULL;
	}
	prefix = text_argument(args[0]);
	if (!prefix)
		return NULL;
	if (set_fields_argument(args[1], false, &fields) >= 0) {
		Py_BEGIN_ALLOW_THREADS
		r = tarn_set_check(
			store_of(self), prefix, fields.fields, fields.n);
		Py_END_ALLOW_THREADS
		if (r == -EMEDIUMTYPE)
			PyErr_SetString(PyExc_ValueError, tarn_error_message());
		else if (r < 0)
			raise_lookup(r);
	}
	set_fields_done(&fields);
	if (r < 0)
		return NULL;
	Py_RETURN_NONE;
}

PyMethodDef set_methods[] = {
	{"_publish_set", EXPORT(publish_set), FAST, "Store.publish_set."},
	{"fields", fields_of, METH_O,
		"fields($self, prefix, /)\n--\n\n"
		"The fields with which publish_set or a refit has published the "
		"set of\nthat prefix, a new dict. NotFoundError: there are "
		"none."},
	{"note", EXPORT(note_of), FAST,
		"note($self, prefix, name, /)\n--\n\n"
		"The bytes that publish_set was given for a tensor of the set; "
		"name is\nwithout the prefix. NotFoundError: there are none."},
	{"verify_set", verify_set, METH_O,
		"verify_set($self, prefix, /)\n--\n\n"
		"ValueError unless all tensors of the set have the bytes with "
		"which they\nwere published, with digests=True; reads all of "
		"them. NotFoundError: there\nis no such set."},
	{"check_set", EXPORT(check_set), FAST,
		"check_set($self, prefix, fields, /)\n--\n\n"
		"ValueError unless the set has exactly these fields; its text "
		"lists\nevery difference. NotFoundError: it has none."},
	{0},
};

/* ---- the digest of a tensor ---------------------------------------- */

static PyObject *digest(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"stream", NULL};
	struct tarn_copy_options options = {0};
	struct tarn_digest seen = {{0, 0}};
	PyObject *given[1];
	int r;

	if (n_args > 0) {
		PyErr_SetString(
			PyExc_TypeError, "digest() takes its stream by name");
		return NULL;
	}
	if (named_arguments("digest", names, 0, args, 0, keywords, given) < 0 ||
		stream_argument(given[0], &options.cuda_stream) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_tensor_digest(tensor_of(self), &options, &seen);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return raise_system(r);
	return digest_text(&seen);
}

PyMethodDef set_tensor_methods[] = {
	{"_set_fields", tensor_fields, METH_NOARGS, "Version.fields."},
	{"_set_digests", tensor_digests, METH_O, "Version.digests."},
	{"digest", EXPORT(digest), FAST_KEYWORDS,
		"digest($self, /, *, stream=None)\n--\n\n"
		"128 bits of the bytes in C order, as 32 digits: the same for "
		"the same\nbytes, wherever they are and whatever their "
		"strides, dtype and shape.\nA tensor on a GPU is summed up "
		"there. It finds accidental changes, and\nis no cryptographic "
		"hash: see tarn/set.h."},
	{0},
};
