// SPDX-License-Identifier: MIT
/* Sorted elements, and the places that they had. */
#include "python/ops/methods.h"

static PyObject *pair_of(
	const char *name, int r, tarn_tensor *values, tarn_tensor *places)
{
	PyObject *first, *second = NULL, *pair = NULL;

	if (r < 0) {
		tarn_tensor_unref(values);
		tarn_tensor_unref(places);
		return result_object(name, r, NULL, NULL);
	}
	first = lent->tensor_wrap_consume(values);
	second = lent->tensor_wrap_consume(places);
	if (first && second)
		pair = PyTuple_Pack(2, first, second);
	Py_XDECREF(first);
	Py_XDECREF(second);
	return pair;
}

/* op 1: the places alone. */
static PyObject *sort_core(const char *name, int op, PyObject *object,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"dim", "descending", NULL};
	tarn_tensor *values = NULL, *places = NULL;
	PyObject *given[2], *x;
	int dim = -1, r;
	bool descending;

	if (lent->named_arguments(
		    name, names, 0, args, n_args, keywords, given) < 0 ||
		(given[0] && lent->dim_argument(name, given[0], &dim) < 0) ||
		lent->optional_flag(given[1], &descending) < 0)
		return NULL;
	x = tensor_argument(name, object);
	if (!x)
		return NULL;
	WITHOUT_GIL(tensor_of(x), r = tarn_sort(tensor_of(x), dim, descending,
					  op ? NULL : &values, &places));
	Py_DECREF(x);
	return op ? result_object(name, r, NULL, places)
		  : pair_of(name, r, values, places);
}

static PyObject *top_core(const char *name, int op, PyObject *object,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"k", "dim", "largest", NULL};
	tarn_tensor *values = NULL, *places = NULL;
	PyObject *given[3], *x;
	int64_t k;
	int dim = -1, r;
	bool largest = true;

	if (lent->named_arguments(
		    name, names, 1, args, n_args, keywords, given) < 0 ||
		lent->int_argument(given[0], &k) < 0 ||
		(given[1] && lent->dim_argument(name, given[1], &dim) < 0) ||
		(given[2] && lent->optional_flag(given[2], &largest) < 0))
		return NULL;
	x = tensor_argument(name, object);
	if (!x)
		return NULL;
	WITHOUT_GIL(tensor_of(x),
		r = tarn_top(tensor_of(x), k, dim, largest, &values, &places));
	Py_DECREF(x);
	return pair_of(name, r, values, places);
}

FUNCTION_AND_METHOD(sort_core, sort, 0)
FUNCTION_AND_METHOD(sort_core, argsort, 1)
FUNCTION_AND_METHOD(top_core, topk, 0)

#define ORDERS(X, first)                                                       \
	X(sort, "sort(" first ", /, dim=-1, descending=False)\n--\n\nA pair: " \
		"sorted, and the places that the elements had.")               \
	X(argsort, "argsort(" first ", /, dim=-1, descending=False)\n--\n\n"   \
		   "The places that sorted elements had.")                     \
	X(topk, "topk(" first ", /, k, dim=-1, largest=True)\n--\n\nA pair: "  \
		"the k largest, sorted, and their places.")

PyMethodDef order_functions[] = {ORDERS(FUNCTION_ENTRY, "x") {0}};
PyMethodDef order_methods[] = {ORDERS(METHOD_ENTRY, "$self") {0}};
