/* SPDX-License-Identifier: MIT */
/*
 * An operation in Python is a function, whose first argument is the tensor (or,
 * of some, a number), and a method of Tensor; both are one core. A table lists
 * its operations once:
 *
 *	#define LIST(X) X(exp, TARN_EXP, "exp(x, out=None)\n--\n\n...")
 */
#pragma once

#include "python/ops/ops.h"

/* The arguments behind the first. op: what the table says. */
typedef PyObject *core_fn(const char *name, int op, PyObject *x,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords);

PyObject *call_function(core_fn *core, const char *name, int op,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords);

#define FUNCTION_AND_METHOD(core, name, op)                                    \
	static PyObject *name##_function(PyObject *module,                     \
		PyObject *const *args, Py_ssize_t n, PyObject *keywords)       \
	{                                                                      \
		return call_function(core, #name, op, args, n, keywords);      \
	}                                                                      \
	static PyObject *name##_method(PyObject *self, PyObject *const *args,  \
		Py_ssize_t n, PyObject *keywords)                              \
	{                                                                      \
		return core(#name, op, self, args, n, keywords);               \
	}

#define FUNCTION_ENTRY(name, text)                                             \
	{#name, EXPORT(name##_function), FAST_KEYWORDS, text},
#define METHOD_ENTRY(name, text)                                               \
	{#name, EXPORT(name##_method), FAST_KEYWORDS, text},

/* dim, keepdim and out, of reductions. */
struct reduce_arguments {
	int n, dims[TARN_NDIM_MAX];
	unsigned flags;
	PyObject *out;
	tarn_tensor *to;
};
int reduce_arguments(const char *name, PyObject *const *args, Py_ssize_t n_args,
	PyObject *keywords, struct reduce_arguments *ret);
