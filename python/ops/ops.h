/* SPDX-License-Identifier: MIT */
/*
 * Declarations that the files of tarn._ops share. It uses libtarnops and libtarn
 * by their public headers, and what tarn._tarn lends it.
 */
#pragma once

#include <tarn/ops.h>

#include "python/interface.h"

/* Set when the module is loaded. */
extern struct interface *lent;

/* An operand from a Python object: a tensor, an array, lists, or a number. */
struct operand {
	struct tarn_operand operand;
	PyObject *held; /* what keeps the tensor */
};

/* 1; 0: the object is no operand; -1 with an exception. */
int operand_from(PyObject *object, struct operand *ret);
void operand_drop(struct operand *operand);

/* The same for a tensor that must be one: a new reference to a Tensor, or NULL
 * with an exception that names the argument. */
PyObject *tensor_argument(const char *name, PyObject *object);

/* out=: NULL, or None, or a Tensor. 0 or -1. */
int out_argument(const char *name, PyObject *object, tarn_tensor **ret);

/* The result: out itself, with one more reference, or a new Tensor over made. An
 * exception if r < 0. */
PyObject *result_object(
	const char *name, int r, PyObject *out, tarn_tensor *made);

/* dim=: None, a number or several. Their count (0: all), or -1. */
int dims_argument(const char *name, PyObject *object, int ret[TARN_NDIM_MAX]);

/* Enough work to let other threads of Python go on meanwhile; any operand may be
 * the one that is large. */
bool is_long(const tarn_tensor *tensor);

#define WITHOUT_GIL(tensor, ...)                                               \
	do {                                                                   \
		PyThreadState *state_ =                                        \
			is_long(tensor) ? PyEval_SaveThread() : NULL;          \
		__VA_ARGS__;                                                   \
		if (state_)                                                    \
			PyEval_RestoreThread(state_);                          \
	} while (0)

/* The operators of Tensor. */
PyObject *binary_operator(int op, PyObject *a, PyObject *b, PyObject *out);
PyObject *unary_operator(int op, PyObject *a);

/* Each part has functions for the module, and methods for Tensor. */
extern PyMethodDef unary_functions[], binary_functions[], choice_functions[],
	reduce_functions[], along_functions[], product_functions[],
	order_functions[], random_functions[], select_functions[];
extern PyMethodDef unary_methods[], binary_methods[], choice_methods[],
	reduce_methods[], along_methods[], product_methods[], order_methods[],
	select_methods[];

/* Adds methods to the type Tensor. 0 or -1. */
int add_methods(PyMethodDef *methods);
