// SPDX-License-Identifier: MIT
/*
 * The module tarn._tarn, which tarn/__init__.py shows as tarn. Its types are
 * made once a process, and belong to the main interpreter: another one would
 * share them, with another lock, and is refused.
 */
#include "python/module.h"

static PyMethodDef *const functions[] = {
	create_functions,
	copy_functions,
	device_functions,
	borrow_functions,
	dlpack_functions,
	save_functions,
	pack_functions,
	nodes_functions,
	gather_functions,
	lock_functions,
};

static int add_parts(PyObject *module)
{
	if (add_errors(module) < 0 || add_dtypes(module) < 0 ||
		add_tensor_type(module) < 0 || add_file_type(module) < 0 ||
		add_store_type(module) < 0 || add_channel_types(module) < 0 ||
		add_interface(module) < 0 || add_refit_type(module) < 0 ||
		add_follow_type(module) < 0 || add_data_types(module) < 0)
		return -1;
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (PyModule_AddFunctions(module, functions[i]) < 0)
			return -1;
	return PyModule_AddStringConstant(
		module, "__version__", tarn_version());
}

static int execute(PyObject *module)
{
	/* Foreign threads take the GIL by PyGILState, the main one's. */
	if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
		PyErr_SetString(PyExc_ImportError,
			"tarn works in the main interpreter of a process, and "
			"in no other");
		return -1;
	}
	if (tensor_type) {
		PyErr_SetString(PyExc_ImportError,
			"tarn is loaded already, and can be only once in a "
			"process");
		return -1;
	}
	return add_parts(module);
}

static PyModuleDef_Slot slots[] = {
	{Py_mod_exec, execute},
#if defined(Py_GIL_DISABLED) && defined(Py_mod_gil)
	/* Tensors never change, and counts are atomic. */
	{Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
	{0, NULL},
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "tarn._tarn",
	.m_doc = "What is in C of the module tarn.",
	.m_slots = slots,
};

PyMODINIT_FUNC PyInit__tarn(void);

PyMODINIT_FUNC PyInit__tarn(void)
{
	return PyModuleDef_Init(&definition);
}
