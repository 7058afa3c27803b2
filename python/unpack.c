// SPDX-License-Identifier: MIT
/*
 * Unpacking: the tree back to objects. The sender may be faulty, or hostile:
 * the tree is copied before it is looked at, so that a checked value cannot
 * change, and no count makes anything larger than the bytes that are there for
 * it.
 */
#include "python/pack.h"

#include <stdlib.h>
#include <string.h>

static PyObject *value(struct unpacker *u);

PyObject *unpack_fail(const char *what)
{
	if (!PyErr_Occurred())
		PyErr_Format(
			PyExc_ValueError, "get: the item is damaged: %s", what);
	return NULL;
}

/* ---- the tree ------------------------------------------------------ */

/* The next n bytes, or NULL. */
static const unsigned char *take(struct unpacker *u, uint64_t n)
{
	const unsigned char *at = u->at;

	if (n > (uint64_t)(u->end - at)) {
		unpack_fail("it ends too soon");
		return NULL;
	}
	u->at += n;
	return at;
}

int unpack_byte(struct unpacker *u, int *ret)
{
	const unsigned char *at = take(u, 1);

	if (!at)
		return -1;
	*ret = *at;
	return 0;
}

int unpack_number(struct unpacker *u, uint64_t *ret)
{
	uint64_t number = 0;
	int byte;

	for (int shift = 0; shift < 64; shift += 7) {
		if (unpack_byte(u, &byte) < 0)
			return -1;
		number |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*ret = number;
			return 0;
		}
	}
	unpack_fail("a number has too many digits");
	return -1;
}

int unpack_signed(struct unpacker *u, int64_t *ret)
{
	uint64_t number;

	if (unpack_number(u, &number) < 0)
		return -1;
	*ret = (int64_t)(number >> 1 ^ -(number & 1));
	return 0;
}

/* A count, and as many bytes. */
static const unsigned char *counted(struct unpacker *u, Py_ssize_t *ret)
{
	const unsigned char *at;
	uint64_t n;

	if (unpack_number(u, &n) < 0)
		return NULL;
	at = take(u, n);
	if (at)
		*ret = (Py_ssize_t)n;
	return at;
}

/* A count of values, each of which has a byte at least, and one of its own:
 * if each of a thousand nested lists could count all bytes that are left, a
 * small tree would fill any memory. */
static int count_of(struct unpacker *u, int least, Py_ssize_t *ret)
{
	uint64_t n;

	if (unpack_number(u, &n) < 0)
		return -1;
	if (n > (uint64_t)(u->end - u->at) / (uint64_t)least ||
		n * (uint64_t)least > u->values) {
		unpack_fail("it has fewer values than it says");
		return -1;
	}
	u->values -= n * (uint64_t)least;
	*ret = (Py_ssize_t)n;
	return 0;
}

/* ---- plain values -------------------------------------------------- */

static PyObject *int_value(struct unpacker *u)
{
	int64_t number;

	if (unpack_signed(u, &number) < 0)
		return NULL;
	return PyLong_FromLongLong(number);
}

static PyObject *big_value(struct unpacker *u)
{
	Py_ssize_t n;
	const char *at = (const char *)counted(u, &n);
	PyObject *method, *args, *names, *number = NULL;

	if (!at)
		return NULL;
	method = PyObject_GetAttrString((PyObject *)&PyLong_Type, "from_bytes");
	args = Py_BuildValue("(y#s)", at, n, "little");
	names = Py_BuildValue("{s:O}", "signed", Py_True);
	if (method && args && names)
		number = PyObject_Call(method, args, names);
	Py_XDECREF(method);
	Py_XDECREF(args);
	Py_XDECREF(names);
	return number;
}

static PyObject *text_value(struct unpacker *u, const char *errors)
{
	Py_ssize_t n;
	const char *at = (const char *)counted(u, &n);

	return at ? PyUnicode_DecodeUTF8(at, n, errors) : NULL;
}

static PyObject *bytes_value(struct unpacker *u, bool array)
{
	Py_ssize_t n;
	const char *at = (const char *)counted(u, &n);

	if (!at)
		return NULL;
	return array ? PyByteArray_FromStringAndSize(at, n)
		     : PyBytes_FromStringAndSize(at, n);
}

static PyObject *float_value(struct unpacker *u)
{
	double number;
	const unsigned char *at = take(u, sizeof(number));

	if (!at)
		return NULL;
	memcpy(&number, at, sizeof(number));
	return PyFloat_FromDouble(number);
}

static PyObject *complex_value(struct unpacker *u)
{
	double number[2];
	const unsigned char *at = take(u, sizeof(number));

	if (!at)
		return NULL;
	memcpy(number, at, sizeof(number));
	return PyComplex_FromDoubles(number[0], number[1]);
}

/* ---- what holds values --------------------------------------------- */

static PyObject *list_value(struct unpacker *u)
{
	PyObject *list, *item;
	Py_ssize_t n;

	if (count_of(u, 1, &n) < 0)
		return NULL;
	list = PyList_New(n);
	for (Py_ssize_t i = 0; list && i < n; i++) {
		item = value(u);
		if (item && PyList_SetItem(list, i, item) == 0)
			continue;
		Py_DECREF(list);
		return NULL;
	}
	return list;
}

static PyObject *tuple_value(struct unpacker *u)
{
	PyObject *tuple, *item;
	Py_ssize_t n;

	if (count_of(u, 1, &n) < 0)
		return NULL;
	tuple = PyTuple_New(n);
	for (Py_ssize_t i = 0; tuple && i < n; i++) {
		item = value(u);
		if (item && PyTuple_SetItem(tuple, i, item) == 0)
			continue;
		Py_DECREF(tuple);
		return NULL;
	}
	return tuple;
}

/* An object that cannot be a key, such as a list. */
static void refuse_key(void)
{
	if (!PyErr_ExceptionMatches(PyExc_TypeError))
		return;
	PyErr_Clear();
	unpack_fail("a key is none that can be looked up");
}

static PyObject *set_value(struct unpacker *u, bool frozen)
{
	PyObject *tuple = value(u), *set = NULL;

	if (!tuple)
		return NULL;
	if (!PyTuple_CheckExact(tuple))
		unpack_fail("a set is no tuple");
	else
		set = frozen ? PyFrozenSet_New(tuple) : PySet_New(tuple);
	if (!set)
		refuse_key();
	Py_DECREF(tuple);
	return set;
}

static int one_pair(struct unpacker *u, PyObject *dict)
{
	PyObject *key = value(u), *item = key ? value(u) : NULL;
	int r = item ? PyDict_SetItem(dict, key, item) : -1;

	if (item && r < 0)
		refuse_key();
	Py_XDECREF(key);
	Py_XDECREF(item);
	return r;
}

static PyObject *dict_value(struct unpacker *u)
{
	PyObject *dict;
	Py_ssize_t n;

	if (count_of(u, 2, &n) < 0)
		return NULL;
	dict = PyDict_New();
	for (Py_ssize_t i = 0; dict && i < n; i++) {
		if (one_pair(u, dict) == 0)
			continue;
		Py_DECREF(dict);
		return NULL;
	}
	return dict;
}

/* (bytes, list, list): tarn/_pickled.py */
static bool are_parts(PyObject *tuple)
{
	return PyTuple_CheckExact(tuple) && PyTuple_Size(tuple) == 3 &&
	       PyBytes_CheckExact(PyTuple_GetItem(tuple, 0)) &&
	       PyList_CheckExact(PyTuple_GetItem(tuple, 1)) &&
	       PyList_CheckExact(PyTuple_GetItem(tuple, 2));
}

static PyObject *pickle_value(struct unpacker *u)
{
	PyObject *parts, *helpers, *object = NULL;

	if (u->plain) {
		PyErr_SetString(PyExc_ValueError,
			"get: the item holds a pickled object, and this "
			"channel takes none");
		return NULL;
	}
	parts = value(u);
	if (!parts)
		return NULL;
	if (!are_parts(parts)) {
		Py_DECREF(parts);
		return unpack_fail("a pickled object has no parts");
	}
	helpers = PyImport_ImportModule("tarn._pickled");
	if (helpers)
		object = PyObject_CallMethod(helpers, "loads", "(O)", parts);
	Py_XDECREF(helpers);
	Py_DECREF(parts);
	return object;
}

static PyObject *holder(struct unpacker *u, int tag)
{
	PyObject *object;

	if (Py_EnterRecursiveCall(" while unpacking an item"))
		return NULL;
	switch (tag) {
	case PACK_LIST:
		object = list_value(u);
		break;
	case PACK_TUPLE:
		object = tuple_value(u);
		break;
	case PACK_SET:
	case PACK_FROZENSET:
		object = set_value(u, tag == PACK_FROZENSET);
		break;
	case PACK_DICT:
		object = dict_value(u);
		break;
	default:
		object = pickle_value(u);
	}
	Py_LeaveRecursiveCall();
	return object;
}

/* ---- any value ----------------------------------------------------- */

static PyObject *same(PyObject *object)
{
	Py_INCREF(object);
	return object;
}

static PyObject *value(struct unpacker *u)
{
	int tag;

	if (unpack_byte(u, &tag) < 0)
		return NULL;
	switch (tag) {
	case PACK_NONE:
		return same(Py_None);
	case PACK_FALSE:
		return same(Py_False);
	case PACK_TRUE:
		return same(Py_True);
	case PACK_INT:
		return int_value(u);
	case PACK_BIG_INT:
		return big_value(u);
	case PACK_FLOAT:
		return float_value(u);
	case PACK_COMPLEX:
		return complex_value(u);
	case PACK_TEXT:
	case PACK_ODD_TEXT:
		return text_value(
			u, tag == PACK_TEXT ? "strict" : "surrogatepass");
	case PACK_BYTES:
	case PACK_BYTEARRAY:
		return bytes_value(u, tag == PACK_BYTEARRAY);
	case PACK_LIST:
	case PACK_TUPLE:
	case PACK_SET:
	case PACK_FROZENSET:
	case PACK_DICT:
	case PACK_PICKLE:
		return holder(u, tag);
	case PACK_VIEW:
		return unpack_view(u);
	case PACK_WHOLE:
		return unpack_whole(u);
	default:
		return unpack_array(u, tag);
	}
}

/* ---- all of it ----------------------------------------------------- */

/* A row of bytes in memory; its head, copied. */
static int read_head(const tarn_tensor *whole, struct pack_head *ret)
{
	const struct tarn_layout *l = tarn_tensor_layout(whole);
	const void *data = tarn_tensor_data(whole);

	if (l->dtype != TARN_U8 || l->ndim != 1 || !data ||
		!tarn_layout_is_contiguous(l) ||
		(uint64_t)l->shape[0] < sizeof(*ret))
		return -1;
	memcpy(ret, data, sizeof(*ret));
	return ret->magic == PACK_MAGIC && ret->zero == 0 ? 0 : -1;
}

bool unpack_knows(const tarn_tensor *whole)
{
	struct pack_head head;

	return read_head(whole, &head) == 0;
}

static PyObject *unpack_tree(struct unpacker *u, const struct pack_head *head)
{
	const unsigned char *data = tarn_tensor_data(tensor_of(u->whole));
	unsigned char *tree = malloc(head->tree + 1);
	PyObject *object;

	if (!tree)
		return PyErr_NoMemory();
	memcpy(tree, data + sizeof(*head), head->tree);
	u->at = tree;
	u->end = tree + head->tree;
	u->values = head->tree;
	object = value(u);
	if (object && u->at != u->end) {
		Py_DECREF(object);
		object = unpack_fail("something follows its end");
	}
	free(tree);
	return object;
}

PyObject *unpack(PyObject *whole, PyObject *records, bool plain)
{
	struct unpacker u = {
		.whole = whole,
		.records = records,
		.plain = plain,
	};
	struct pack_head head;
	uint64_t there;

	if (read_head(tensor_of(whole), &head) < 0) {
		PyErr_SetString(PyExc_ValueError,
			"get: the item was not made by put; its tensors are "
			"item[0], item[1], ...");
		return NULL;
	}
	there = (uint64_t)layout_of(whole)->shape[0];
	if (head.size > there || head.bytes > head.size ||
		head.bytes < sizeof(head) ||
		head.tree > head.bytes - sizeof(head))
		return unpack_fail("its parts do not fit into it");
	u.bytes = head.bytes;
	u.size = head.size;
	u.left = head.size - head.bytes;
	return unpack_tree(&u, &head);
}
