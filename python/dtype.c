// SPDX-License-Identifier: MIT
/*
 * Dtypes: in Python they are their names. Whatever names a dtype elsewhere is
 * taken for one: "float32", numpy.float32, numpy.dtype("<f4"), torch.float32,
 * bool. What tarn has and Python's protocols have not (BF16, F8) goes out as
 * the unsigned integers of its bits, and the name stays with the Tensor.
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
	[TARN_F8_E5M2] = {"B", "|u1"},
	[TARN_F8_E4M3] = {"B", "|u1"},
	[TARN_F8_E8M0] = {"B", "|u1"},
	[TARN_F8_E4M3FNUZ] = {"B", "|u1"},
	[TARN_F8_E5M2FNUZ] = {"B", "|u1"},
	[TARN_I16] = {"h", "<i2"},
	[TARN_U16] = {"H", "<u2"},
	[TARN_F16] = {"e", "<f2"},
	[TARN_BF16] = {"H", "<u2"},
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

int add_dtypes(PyObject *module)
{
	PyObject *all = PyTuple_New(TARN_DTYPE_MAX);

	for (int i = 1; all && i <= TARN_DTYPE_MAX; i++) {
		names[i] = PyUnicode_InternFromString(tarn_dtype_name(i));
		if (!names[i])
			return -1;
		PyTuple_SetItem(all, i - 1, dtype_object(i));
	}
	return all ? PyModule_AddObject(module, "dtypes", all) : -1;
}
