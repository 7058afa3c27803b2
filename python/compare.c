// SPDX-License-Identifier: MIT
/*
 * ==, != and hash.
 *
 * numpy's and PyTorch's == compares each element. Until there is one here,
 * False for two tensors of the same values would be a wrong answer: a
 * comparison that could mean that raises, and names the alternative. An object
 * that is neither a number nor an array equals no tensor.
 *
 * The hash is the object's own, as PyTorch has it, so that tensors are keys of
 * dicts and members of sets, which look for the object before they compare; for
 * the same reason an object equals itself.
 */
#include "python/module.h"

static bool is_comparable(PyObject *object)
{
	return is_tensor(object) || PyList_Check(object) ||
	       PyTuple_Check(object) || is_number(object) ||
	       (!PyType_Check(object) && shares_bytes(object));
}

PyObject *tensor_compare(PyObject *self, PyObject *other, int op)
{
	if (op != Py_EQ && op != Py_NE)
		Py_RETURN_NOTIMPLEMENTED;
	if (self == other)
		return PyBool_FromLong(op == Py_EQ);
	if (!is_comparable(other))
		Py_RETURN_NOTIMPLEMENTED;
	PyErr_Format(PyExc_TypeError,
		"a tensor %s %s: tensors are not compared by element; "
		"tarn.equal(a, b) compares all of two, t.numpy() %s x each "
		"element, t.item() %s x the only one, and 'is' the objects",
		op == Py_EQ ? "==" : "!=",
		is_tensor(other) ? "a tensor" : "an array or a number",
		op == Py_EQ ? "==" : "!=", op == Py_EQ ? "==" : "!=");
	return NULL;
}

/* From the address, of which the lowest bits vary little. */
Py_hash_t tensor_hash(PyObject *self)
{
	uintptr_t at = (uintptr_t)self;
	Py_hash_t hash = (Py_hash_t)(at >> 4 | at << (8 * sizeof(at) - 4));

	return hash == -1 ? -2 : hash;
}
