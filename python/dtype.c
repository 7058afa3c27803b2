// SPDX-License-Identifier: MIT
/*
 * Dtypes: in Python they are their names, of a type of their own, Dtype.
 * Every other name of a dtype is accepted for one, and equals it: "float32",
 * numpy.float32, numpy.dtype("<f4"), torch.float32, bool. Python's buffers and
 * numpy have no BF16, no F8, no F6 and no F4: a tensor of those shares no bytes
 * with them, since the numbers that they would read there are others.
 */
#include "python/module.h"

#include <string.h>

static const struct {
	const char *format;  /* of the buffer protocol, little-endian */
	const char *typestr; /* of __array_interface__ */
} dtypes[TARN_DTYPE_MAX + 1] = {
	[TARN_BOOL] = {"?", "|b1"},
	[TARN_U8] = {"B", "|u1"},
	[TARN_I8] = {"b", "|i1"},
	[TARN_I16] = {"h", "<i2"},
	[TARN_U16] = {"H", "<u2"},
	[TARN_F16] = {"e", "<f2"},
	[TARN_I32] = {"i", "<i4"},
	[TARN_U32] = {"I", "<u4"},
	[TARN_F32] = {"f", "<f4"},
	[TARN_C64] = {"Zf", "<c8"},
	[TARN_F64] = {"d", "<f8"},
	[TARN_I64] = {"q", "<i8"},
	[TARN_U64] = {"Q", "<u8"},
};

static PyObject *names[TARN_DTYPE_MAX + 1];

const char *dtype_buffer_format(int dtype)
{
	return dtypes[dtype].format;
}

const char *dtype_typestr(int dtype)
{
	return dtypes[dtype].typestr;
}

PyObject *dtype_object(int dtype)
{
	Py_INCREF(names[dtype]);
	return names[dtype];
}

/* Signed, unsigned or floating of so many bytes; 'l' and its like have another
 * size on another machine, so sizes decide. */
int dtype_from_format(const char *format, Py_ssize_t size)
{
	static const struct {
		const char *codes;
		uint8_t of_size[9];
	} kinds[] = {
		{"?", {[1] = TARN_BOOL}},
		{"bhilqn", {[1] = TARN_I8,
				   [2] = TARN_I16,
				   [4] = TARN_I32,
				   [8] = TARN_I64}},
		{"BHILQN", {[1] = TARN_U8,
				   [2] = TARN_U16,
				   [4] = TARN_U32,
				   [8] = TARN_U64}},
		{"efd", {[2] = TARN_F16, [4] = TARN_F32, [8] = TARN_F64}},
	};

	if (!format)
		format = "B";
	if (*format == '>' || *format == '!')
		return 0;
	if (*format && strchr("<=@|", *format))
		format++;
	if (strcmp(format, "Zf") == 0 && size == 8)
		return TARN_C64;
	if (strlen(format) != 1 || size < 1 || size > 8)
		return 0;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strchr(kinds[i].codes, *format))
			return kinds[i].of_size[size];
	return 0;
}

static int from_text(PyObject *text)
{
	const char *name = PyUnicode_AsUTF8AndSize(text, NULL);
	enum tarn_dtype dtype;
	int r;

	if (!name)
		return 0;
	r = tarn_dtype_from_name(name, &dtype);
	if (r < 0) {
		raise_view(r);
		return 0;
	}
	return dtype;
}

/* Python's own numbers: numpy's choice for int, PyTorch's for float. */
static int from_builtin(PyObject *type)
{
	if (type == (PyObject *)&PyBool_Type)
		return TARN_BOOL;
	if (type == (PyObject *)&PyLong_Type)
		return TARN_I64;
	if (type == (PyObject *)&PyFloat_Type)
		return TARN_F32;
	return type == (PyObject *)&PyComplex_Type ? TARN_C64 : 0;
}

/* numpy.dtype has the byte order in "str" and ml_dtypes' real name in "name",
 * scalar types are called as they are, torch.float32 only prints so. */
static PyObject *name_of(PyObject *object)
{
	PyObject *text = PyObject_GetAttrString(object, "str");
	const char *order = NULL;

	if (text && PyUnicode_Check(text))
		order = PyUnicode_AsUTF8AndSize(text, NULL);
	if (order && *order == '>')
		return text;
	Py_XDECREF(text);
	PyErr_Clear();
	text = PyObject_GetAttrString(
		object, PyType_Check(object) ? "__name__" : "name");
	if (text && PyUnicode_Check(text))
		return text;
	Py_XDECREF(text);
	PyErr_Clear();
	return PyObject_Str(object);
}

int dtype_argument(PyObject *object)
{
	PyObject *text;
	int dtype;

	if (PyUnicode_Check(object))
		return from_text(object);
	dtype = from_builtin(object);
	if (dtype)
		return dtype;
	text = name_of(object);
	if (!text)
		return 0;
	dtype = from_text(text);
	Py_DECREF(text);
	return dtype;
}

/* ---- the type of their names ---------------------------------------- */

/* numpy.dtype, torch.dtype: "dtype", "dtype[float32]" or "Float32DType". */
static bool is_dtype_like(PyObject *object)
{
	PyObject *name;
	const char *text;
	size_t n;
	bool is;

	if (PyType_Check(object))
		return true;
	name = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__name__");
	text = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
	n = text ? strlen(text) : 0;
	is = n && (strncmp(text, "dtype", 5) == 0 ||
			  (n > 5 && strcmp(text + n - 5, "DType") == 0));
	Py_XDECREF(name);
	PyErr_Clear();
	return is;
}

/* Does the other one name the same dtype? -1: it is no such thing. */
static int names_same(PyObject *self, PyObject *other)
{
	enum tarn_dtype dtype;
	const char *text;
	int theirs;

	if (PyUnicode_Check(other)) {
		text = PyUnicode_AsUTF8AndSize(other, NULL);
		theirs = text && tarn_dtype_from_name(text, &dtype) >= 0
				 ? (int)dtype
				 : 0;
	} else if (is_dtype_like(other)) {
		theirs = dtype_argument(other);
	} else {
		return -1;
	}
	PyErr_Clear();
	return theirs && names[theirs] == self;
}

/* Dtypes are ordered and hashed as texts are. As numpy's dtypes do, they equal
 * other objects without having their hash. */
static void *of_text(int slot)
{
	return PyType_GetSlot(&PyUnicode_Type, slot);
}

static PyObject *dtype_compare(PyObject *self, PyObject *other, int op)
{
	int same;

	if (op != Py_EQ && op != Py_NE)
		return ((richcmpfunc)of_text(Py_tp_richcompare))(
			self, other, op);
	same = names_same(self, other);
	if (same < 0) {
		Py_INCREF(Py_NotImplemented);
		return Py_NotImplemented;
	}
	return PyBool_FromLong(same == (op == Py_EQ));
}

static Py_hash_t dtype_hash(PyObject *self)
{
	return ((hashfunc)of_text(Py_tp_hash))(self);
}

/* The one object that there is of each. */
static PyObject *dtype_new(
	PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	int dtype;

	if (PyTuple_Size(args) != 1 ||
		(keywords && PyDict_Size(keywords) > 0)) {
		PyErr_SetString(PyExc_TypeError, "Dtype() takes one dtype");
		return NULL;
	}
	dtype = dtype_argument(PyTuple_GetItem(args, 0));
	return dtype ? dtype_object(dtype) : NULL;
}

static PyObject *dtype_reduce(PyObject *self, PyObject *none)
{
	return Py_BuildValue(
		"(O(N))", (PyObject *)Py_TYPE(self), PyObject_Str(self));
}

static PyMethodDef dtype_methods[] = {
	{"__reduce__", dtype_reduce, METH_NOARGS, NULL},
	{0},
};

static PyType_Slot dtype_slots[] = {
	{Py_tp_doc,
		"Dtype(dtype, /)\n--\n\n"
		"A dtype's name, \"F32\": a str. On the left of == it equals "
		"whatever\nnames that dtype: \"float32\", numpy.float32, "
		"numpy.dtype(\"f4\"),\ntorch.float32. Keep it on the left, "
		"and do not pass it to numpy,\nwhich reads \"U8\" to "
		"\"U64\" as text: use t.numpy().dtype. As a key of\na dict "
		"or a set it is the str \"F32\"."},
	{Py_tp_new, dtype_new},
	{Py_tp_richcompare, dtype_compare},
	{Py_tp_hash, dtype_hash},
	{Py_tp_methods, dtype_methods},
	{0, NULL},
};

static PyType_Spec dtype_spec = {
	.name = "tarn.Dtype",
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = dtype_slots,
};

static PyObject *add_type(PyObject *module)
{
	PyObject *type = PyType_FromSpecWithBases(
		&dtype_spec, (PyObject *)&PyUnicode_Type);

	if (!type)
		return NULL;
	Py_INCREF(type);
	if (PyModule_AddObject(module, "Dtype", type) == 0)
		return type;
	Py_DECREF(type);
	Py_DECREF(type);
	return NULL;
}

/* A text of the type Dtype, which has no constructor of its own. */
static PyObject *make_name(PyObject *type, int dtype)
{
	newfunc make = (newfunc)of_text(Py_tp_new);
	PyObject *args = Py_BuildValue("(s)", tarn_dtype_name(dtype));
	PyObject *name = args ? make((PyTypeObject *)type, args, NULL) : NULL;

	Py_XDECREF(args);
	return name;
}

int add_dtypes(PyObject *module)
{
	PyObject *type = add_type(module);
	PyObject *all = type ? PyTuple_New(TARN_DTYPE_MAX) : NULL;

	for (int i = 1; all && i <= TARN_DTYPE_MAX; i++) {
		names[i] = make_name(type, i);
		if (!names[i])
			return -1;
		PyTuple_SetItem(all, i - 1, dtype_object(i));
	}
	return all ? PyModule_AddObject(module, "dtypes", all) : -1;
}
