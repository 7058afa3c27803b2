// SPDX-License-Identifier: MIT
#include "python/ops/methods.h"

PyObject *call_function(core_fn *core, const char *name, int op,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	if (n_args > 0)
		return core(name, op, args[0], args + 1, n_args - 1, keywords);
	PyErr_Format(PyExc_TypeError,
		"%s() misses its first argument, a tensor, by position", name);
	return NULL;
}

int add_methods(PyMethodDef *methods)
{
	PyObject *type = (PyObject *)lent->tensor_type, *method;
	int r = 0;

	for (PyMethodDef *m = methods; m->ml_name && r >= 0; m++) {
		method = PyDescr_NewMethod(lent->tensor_type, m);
		r = method ? PyObject_SetAttrString(type, m->ml_name, method)
			   : -1;
		Py_XDECREF(method);
	}
	return r;
}
