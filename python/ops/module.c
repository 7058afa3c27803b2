// SPDX-License-Identifier: MIT
/*
 * The module tarn._ops: operations on tensors. It is loaded by the first of
 * them, gives its operators to tarn._tarn, and adds its methods to Tensor.
 */
#include "python/ops/ops.h"

struct interface *lent;

static PyMethodDef *const functions[] = {
	unary_functions,
	binary_functions,
	choice_functions,
	reduce_functions,
	along_functions,
	product_functions,
	order_functions,
	select_functions,
};

static PyMethodDef *const methods[] = {
	unary_methods,
	binary_methods,
	choice_methods,
	reduce_methods,
	along_methods,
	product_methods,
	order_methods,
	select_methods,
};

static const struct operators operators = {
	.binary = binary_operator,
	.unary = unary_operator,
};

static PyObject *set_threads(PyObject *module, PyObject *n)
{
	int64_t given;
	int r;

	if (lent->int_argument(n, &given) < 0)
		return NULL;
	r = tarn_ops_set_threads(
		given < 0 || given > INT32_MAX ? -1 : (int)given);
	if (r < 0)
		return lent->raise_view(r);
	Py_RETURN_NONE;
}

static PyObject *get_threads(PyObject *module, PyObject *none)
{
	return PyLong_FromLong(tarn_ops_threads());
}

static PyObject *promote_types(PyObject *module, PyObject *args)
{
	PyObject *first, *second;
	enum tarn_dtype met;
	int a, b, r;

	if (!PyArg_ParseTuple(args, "OO:promote_types", &first, &second))
		return NULL;
	a = lent->dtype_argument(first);
	b = a ? lent->dtype_argument(second) : 0;
	if (!b)
		return NULL;
	r = tarn_promote((enum tarn_dtype)a, (enum tarn_dtype)b, &met);
	return r < 0 ? lent->raise_view_as("promote_types", r)
		     : lent->dtype_object((int)met);
}

static PyMethodDef own_functions[] = {
	{"promote_types", promote_types, METH_VARARGS,
		"promote_types(a, b, /)\n--\n\n"
		"The dtype in which tensors of these dtypes meet."},
	{"set_threads", set_threads, METH_O,
		"set_threads(n, /)\n--\n\n"
		"How many threads one operation uses at most; 0: as many as "
		"TARN_THREADS\nsays, else as the affinity mask and the cgroup "
		"leave this process."},
	{"get_threads", get_threads, METH_NOARGS,
		"get_threads()\n--\n\n"
		"How many threads one operation uses at most."},
	{0},
};

static int execute(PyObject *module)
{
	lent = PyCapsule_Import(INTERFACE, 0);
	if (!lent)
		return -1;
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (PyModule_AddFunctions(module, functions[i]) < 0 ||
			add_methods(methods[i]) < 0)
			return -1;
	if (PyModule_AddFunctions(module, random_functions) < 0 ||
		PyModule_AddFunctions(module, own_functions) < 0 ||
		PyModule_AddStringConstant(module, "_blas", BLAS_SONAME) < 0)
		return -1;
	lent->operators = &operators;
	return 0;
}

static PyModuleDef_Slot slots[] = {
	{Py_mod_exec, execute},
#if defined(Py_GIL_DISABLED) && defined(Py_mod_gil)
	{Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
	{0, NULL},
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "tarn._ops",
	.m_doc = "Operations on tensors: see tarn.ops.",
	.m_slots = slots,
};

PyMODINIT_FUNC PyInit__ops(void);

PyMODINIT_FUNC PyInit__ops(void)
{
	return PyModuleDef_Init(&definition);
}
