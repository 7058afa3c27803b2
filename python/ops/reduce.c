// SPDX-License-Identifier: MIT
/* Reductions. dim and keepdim are PyTorch's names; numpy's do as well. */
#include "python/ops/methods.h"

/* dim, keepdim, out: of all reductions. */
int reduce_arguments(const char *name, PyObject *const *args, Py_ssize_t n_args,
	PyObject *keywords, struct reduce_arguments *ret)
{
	static const char *const names[] = {
		"dim", "keepdim", "out", "axis", "keepdims", "dtype", NULL};
	PyObject *given[6];
	bool keep;

	if (lent->named_arguments(
		    name, names, 0, args, n_args, keywords, given) < 0)
		return -1;
	/* numpy's functions call methods of their own name with it. */
	if (given[5] && given[5] != Py_None) {
		PyErr_Format(PyExc_TypeError,
			"%s: dtype is the tensor's; cast it, t.to(%R), before",
			name, given[5]);
		return -1;
	}
	ret->n = dims_argument(name, given[0] ?: given[3], ret->dims);
	if (ret->n < 0 ||
		lent->optional_flag(given[1] ?: given[4], &keep) < 0 ||
		out_argument(name, given[2], &ret->to) < 0)
		return -1;
	ret->flags = keep ? TARN_KEEP_DIMS : 0;
	ret->out = given[2];
	return 0;
}

static PyObject *reduce_core(const char *name, int op, PyObject *object,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	struct reduce_arguments a;
	PyObject *x, *result;
	int r;

	if (reduce_arguments(name, args, n_args, keywords, &a) < 0)
		return NULL;
	x = tensor_argument(name, object);
	if (!x)
		return NULL;
	WITHOUT_GIL(tensor_of(x),
		r = tarn_reduce((enum tarn_reduce_op)op, tensor_of(x), a.n,
			a.dims, a.flags, &a.to));
	result = result_object(name, r, a.out, a.to);
	Py_DECREF(x);
	return result;
}

#define REDUCE(X)                                                              \
	X(sum, TARN_SUM, "The sum; of BOOL and integers in I64.")              \
	X(prod, TARN_PROD, "The product; of BOOL and integers in I64.")        \
	X(mean, TARN_MEAN, "The mean, of floats.")                             \
	X(amin, TARN_AMIN, "The least.")                                       \
	X(amax, TARN_AMAX, "The largest.")                                     \
	X(any, TARN_ANY, "BOOL: is one not 0?")                                \
	X(all, TARN_ALL, "BOOL: is none 0?")

#define DEFINE(name, op, text) FUNCTION_AND_METHOD(reduce_core, name, op)
REDUCE(DEFINE)
#undef DEFINE

#define ARGUMENTS                                                              \
	"dim=None, keepdim=False, out=None, axis=None, keepdims=None, dtype=None)"

PyMethodDef reduce_functions[] = {
#define ENTRY(name, op, text)                                                  \
	FUNCTION_ENTRY(name, #name "(x, /, " ARGUMENTS "\n--\n\n" text)
	REDUCE(ENTRY)
#undef ENTRY
		{0}};
PyMethodDef reduce_methods[] = {
#define ENTRY(name, op, text)                                                  \
	METHOD_ENTRY(name, #name "($self, /, " ARGUMENTS "\n--\n\n" text)
	REDUCE(ENTRY)
#undef ENTRY
		{0}};
