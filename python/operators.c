// SPDX-License-Identifier: MIT
/*
 * The operators of Tensor, and its methods that compute. What they do is in
 * tarn._ops, which is loaded here when it is first wanted, and then adds its
 * methods to the type: so an attribute that is not found is looked for once
 * more. Names that begin with an underscore are asked for by other libraries, to
 * find out what a tensor is, and load nothing.
 */
#include "python/interface.h"

#include <tarn/ops.h>

static struct interface interface = {
	.raise_view = raise_view,
	.raise_view_as = raise_view_as,
	.tensor_wrap_consume = tensor_wrap_consume,
	.tensor_from_object = tensor_from_object,
	.tensor_from_lists = tensor_from_lists,
	.shares_bytes = shares_bytes,
	.is_number = is_number,
	.named_arguments = named_arguments,
	.int_argument = int_argument,
	.dim_argument = dim_argument,
	.shape_argument = shape_argument,
	.real_argument = real_argument,
	.optional_flag = optional_flag,
	.dtype_argument = dtype_argument,
	.dtype_object = dtype_object,
};

int add_interface(PyObject *module)
{
	PyObject *capsule;

	interface.tensor_type = tensor_type;
	capsule = PyCapsule_New(&interface, INTERFACE, NULL);
	if (!capsule)
		return -1;
	return PyModule_AddObject(module, "_interface", capsule);
}

/* NULL with an ImportError that says what to install. */
static const struct operators *operators(void)
{
	PyObject *module;

	if (interface.operators)
		return interface.operators;
	module = PyImport_ImportModule("tarn.ops");
	if (!module) {
		if (PyErr_ExceptionMatches(PyExc_ModuleNotFoundError))
			PyErr_SetString(PyExc_ImportError,
				"this tarn was built without operations on "
				"tensors (libtarnops, which needs a BLAS); "
				"t.numpy() and t.torch() share its bytes with "
				"libraries that have some");
		return NULL;
	}
	Py_DECREF(module);
	if (!interface.operators)
		PyErr_SetString(PyExc_ImportError,
			"tarn._ops did not come with its operators");
	return interface.operators;
}

/* ---- attributes that are not there yet ------------------------------------- */

PyObject *tensor_attribute(PyObject *self, PyObject *name)
{
	PyObject *found = PyObject_GenericGetAttr(self, name);
	PyObject *type, *value, *traceback;
	Py_UCS4 first;

	if (found || interface.operators ||
		!PyErr_ExceptionMatches(PyExc_AttributeError) ||
		PyUnicode_GetLength(name) < 1)
		return found;
	PyErr_Fetch(&type, &value, &traceback);
	first = PyUnicode_ReadChar(name, 0);
	if (first == '_' || !operators()) {
		/* Without operations it is a tensor without such a method. */
		PyErr_Clear();
		PyErr_Restore(type, value, traceback);
		return NULL;
	}
	Py_XDECREF(type);
	Py_XDECREF(value);
	Py_XDECREF(traceback);
	return PyObject_GenericGetAttr(self, name);
}

/* ---- operators --------------------------------------------------------------- */

static PyObject *binary(int op, PyObject *a, PyObject *b, PyObject *out)
{
	const struct operators *o = operators();

	return o ? o->binary(op, a, b, out) : NULL;
}

#define BINARY(name, op)                                                       \
	static PyObject *name(PyObject *a, PyObject *b)                        \
	{                                                                      \
		return binary(op, a, b, NULL);                                 \
	}                                                                      \
	static PyObject *name##_in_place(PyObject *a, PyObject *b)             \
	{                                                                      \
		return binary(op, a, b, a);                                    \
	}
BINARY(add, TARN_ADD)
BINARY(subtract, TARN_SUB)
BINARY(multiply, TARN_MUL)
BINARY(true_divide, TARN_DIV)
BINARY(floor_divide, TARN_FLOOR_DIV)
BINARY(modulo, TARN_REMAINDER)
BINARY(matrix_multiply, OPERATOR_MATMUL)
BINARY(bit_and, TARN_BIT_AND)
BINARY(bit_or, TARN_BIT_OR)
BINARY(bit_xor, TARN_BIT_XOR)
BINARY(shift_left, TARN_SHIFT_LEFT)
BINARY(shift_right, TARN_SHIFT_RIGHT)

static PyObject *power(PyObject *a, PyObject *b, PyObject *modulus)
{
	if (modulus != Py_None)
		Py_RETURN_NOTIMPLEMENTED;
	return binary(TARN_POW, a, b, NULL);
}

static PyObject *power_in_place(PyObject *a, PyObject *b, PyObject *modulus)
{
	if (modulus != Py_None)
		Py_RETURN_NOTIMPLEMENTED;
	return binary(TARN_POW, a, b, a);
}

#define UNARY(name, op)                                                        \
	static PyObject *name(PyObject *a)                                     \
	{                                                                      \
		const struct operators *o = operators();                       \
                                                                               \
		return o ? o->unary(op, a) : NULL;                             \
	}
UNARY(negative, TARN_NEG)
UNARY(absolute, TARN_ABS)
UNARY(invert, TARN_BIT_NOT)

static PyObject *positive(PyObject *a)
{
	Py_INCREF(a);
	return a;
}

/* Element by element, as numpy and PyTorch have it; an object that is neither a
 * number nor an array equals no tensor. */
PyObject *tensor_compare(PyObject *self, PyObject *other, int op)
{
	static const int ops[] = {
		[Py_LT] = TARN_LT,
		[Py_LE] = TARN_LE,
		[Py_EQ] = TARN_EQ,
		[Py_NE] = TARN_NE,
		[Py_GT] = TARN_GT,
		[Py_GE] = TARN_GE,
	};

	if (!is_tensor(other) && !is_number(other) && !PyList_Check(other) &&
		!PyTuple_Check(other) &&
		(PyType_Check(other) || !shares_bytes(other)))
		Py_RETURN_NOTIMPLEMENTED;
	return binary(ops[op], self, other, NULL);
}

/* From the address, of which the lowest bits vary little: a tensor is a key of
 * dicts and a member of sets by what it is, not by its values, as PyTorch has
 * it. */
Py_hash_t tensor_hash(PyObject *self)
{
	uintptr_t at = (uintptr_t)self;
	Py_hash_t hash = (Py_hash_t)(at >> 4 | at << (8 * sizeof(at) - 4));

	return hash == -1 ? -2 : hash;
}

const PyType_Slot operator_slots[] = {
	{Py_nb_add, add},
	{Py_nb_inplace_add, add_in_place},
	{Py_nb_subtract, subtract},
	{Py_nb_inplace_subtract, subtract_in_place},
	{Py_nb_multiply, multiply},
	{Py_nb_inplace_multiply, multiply_in_place},
	{Py_nb_true_divide, true_divide},
	{Py_nb_inplace_true_divide, true_divide_in_place},
	{Py_nb_floor_divide, floor_divide},
	{Py_nb_inplace_floor_divide, floor_divide_in_place},
	{Py_nb_remainder, modulo},
	{Py_nb_inplace_remainder, modulo_in_place},
	{Py_nb_matrix_multiply, matrix_multiply},
	{Py_nb_inplace_matrix_multiply, matrix_multiply_in_place},
	{Py_nb_and, bit_and},
	{Py_nb_inplace_and, bit_and_in_place},
	{Py_nb_or, bit_or},
	{Py_nb_inplace_or, bit_or_in_place},
	{Py_nb_xor, bit_xor},
	{Py_nb_inplace_xor, bit_xor_in_place},
	{Py_nb_lshift, shift_left},
	{Py_nb_inplace_lshift, shift_left_in_place},
	{Py_nb_rshift, shift_right},
	{Py_nb_inplace_rshift, shift_right_in_place},
	{Py_nb_power, power},
	{Py_nb_inplace_power, power_in_place},
	{Py_nb_negative, negative},
	{Py_nb_positive, positive},
	{Py_nb_absolute, absolute},
	{Py_nb_invert, invert},
	{Py_tp_richcompare, tensor_compare},
	{Py_tp_hash, tensor_hash},
	{Py_tp_getattro, tensor_attribute},
	{0, NULL},
};
