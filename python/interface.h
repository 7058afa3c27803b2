/* SPDX-License-Identifier: MIT */
/*
 * What the module tarn._tarn lends to tarn._ops, which computes and is loaded by
 * the first operation: programs that only share tensors load no BLAS. A capsule
 * holds it, tarn._tarn._interface.
 */
#pragma once

#include "python/module.h"

#define INTERFACE "tarn._tarn._interface"

/* Numbers of the operators of Python: those of tarn_binary_op and
 * tarn_unary_op, and one that is neither. */
#define OPERATOR_MATMUL (-1)

/* What tarn._ops does for the operators of Tensor. */
struct operators {
	/* a op b; out: NULL, or the tensor that gets the result. Returns
	 * NotImplemented where an operand is none. */
	PyObject *(*binary)(int op, PyObject *a, PyObject *b, PyObject *out);
	PyObject *(*unary)(int op, PyObject *a);
};

struct interface {
	PyTypeObject *tensor_type;
	/* Set by tarn._ops when it is loaded. */
	const struct operators *operators;
	PyObject *(*raise_view)(int r);
	PyObject *(*raise_view_as)(const char *name, int r);
	PyObject *(*tensor_wrap_consume)(tarn_tensor *tensor);
	PyObject *(*tensor_from_object)(PyObject *object);
	PyObject *(*tensor_from_lists)(PyObject *data, int dtype);
	bool (*shares_bytes)(PyObject *object);
	bool (*is_number)(PyObject *object);
	int (*named_arguments)(const char *name, const char *const *names,
		int required, PyObject *const *args, Py_ssize_t n_args,
		PyObject *keywords, PyObject **rets);
	int (*int_argument)(PyObject *object, int64_t *ret);
	int (*dim_argument)(const char *name, PyObject *object, int *ret);
	int (*shape_argument)(
		const char *name, PyObject *object, int64_t ret[TARN_NDIM_MAX]);
	int (*real_argument)(const char *what, PyObject *object, double *ret);
	int (*optional_flag)(PyObject *object, bool *ret);
	int (*dtype_argument)(PyObject *object);
	PyObject *(*dtype_object)(int dtype);
};
