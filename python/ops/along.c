// SPDX-License-Identifier: MIT
/* Operations along dimensions. Names and arguments are PyTorch's; of dim and
 * keepdim numpy's do as well. */
#include "python/ops/methods.h"

/* ---- reductions with one argument more ---------------------------------- */

/* The first argument, if there is one, is an operation's own; the rest are
 * reduce_arguments. As a keyword it has that name. Takes it out: 0 or -1. */
static int number_and_rest(const char *name, const char *own, double *number,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords,
	struct reduce_arguments *ret)
{
	const char *const names[] = {
		own, "dim", "keepdim", "out", "axis", "keepdims", NULL};
	PyObject *given[6], *rest[5];
	PyObject *none = NULL;

	if (lent->named_arguments(
		    name, names, 0, args, n_args, keywords, given) < 0)
		return -1;
	if (given[0] && given[0] != Py_None &&
		lent->real_argument(name, given[0], number) < 0)
		return -1;
	for (int i = 0; i < 5; i++)
		rest[i] = given[i + 1] ?: Py_None;
	if (rest[0] == Py_None)
		rest[0] = rest[3];
	if (rest[1] == Py_None)
		rest[1] = rest[4];
	return reduce_arguments(name, rest, 3, none, ret);
}

static PyObject *norm_core(const char *name, int op, PyObject *object,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	struct reduce_arguments a;
	PyObject *x, *result;
	double p = 2;
	int r;

	if (number_and_rest(name, "p", &p, args, n_args, keywords, &a) < 0)
		return NULL;
	x = tensor_argument(name, object);
	if (!x)
		return NULL;
	WITHOUT_GIL(tensor_of(x),
		r = tarn_norm(tensor_of(x), a.n, a.dims, p, a.flags, &a.to));
	result = result_object(name, r, a.out, a.to);
	Py_DECREF(x);
	return result;
}

/* var(dim=None, correction=1, keepdim=False, out=None). op: 1: its root. */
static PyObject *variance_core(const char *name, int op, PyObject *object,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"dim", "correction", "keepdim",
		"out", "axis", "keepdims", "dtype", "ddof", NULL};
	PyObject *given[8], *rest[3], *x, *result;
	struct reduce_arguments a;
	double correction = 1;
	int r;

	if (lent->named_arguments(
		    name, names, 0, args, n_args, keywords, given) < 0 ||
		(given[1] &&
			lent->real_argument(name, given[1], &correction) < 0))
		return NULL;
	rest[0] = given[0] ?: given[4] ?: Py_None;
	rest[1] = given[2] ?: given[5] ?: Py_None;
	rest[2] = given[3] ?: Py_None;
	if (reduce_arguments(name, rest, 3, NULL, &a) < 0)
		return NULL;
	x = tensor_argument(name, object);
	if (!x)
		return NULL;
	WITHOUT_GIL(tensor_of(x), r = tarn_variance(tensor_of(x), a.n, a.dims,
					  correction, op, a.flags, &a.to));
	result = result_object(name, r, a.out, a.to);
	Py_DECREF(x);
	return result;
}

static PyObject *log_sum_exp_core(const char *name, int op, PyObject *object,
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
	WITHOUT_GIL(tensor_of(x), r = tarn_log_sum_exp(tensor_of(x), a.n,
					  a.dims, a.flags, &a.to));
	result = result_object(name, r, a.out, a.to);
	Py_DECREF(x);
	return result;
}

/* ---- the least and the largest ------------------------------------------- */

/* One dimension, or all. 0 or -1. */
static int one_dim(const char *name, const struct reduce_arguments *a, int *ret)
{
	*ret = a->n ? a->dims[0] : TARN_ALL_DIMS;
	if (a->n < 2)
		return 0;
	PyErr_Format(PyExc_ValueError, "%s: one dimension, or none", name);
	return -1;
}

static PyObject *arg_core(const char *name, int op, PyObject *object,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	struct reduce_arguments a;
	PyObject *x, *result;
	int r, dim;

	if (reduce_arguments(name, args, n_args, keywords, &a) < 0 ||
		one_dim(name, &a, &dim) < 0)
		return NULL;
	x = tensor_argument(name, object);
	if (!x)
		return NULL;
	WITHOUT_GIL(tensor_of(x), r = tarn_arg_reduce((enum tarn_reduce_op)op,
					  tensor_of(x), dim, a.flags, &a.to));
	result = result_object(name, r, a.out, a.to);
	Py_DECREF(x);
	return result;
}

/* As PyTorch's: without dim a value, with it a pair of values and indices. */
static PyObject *extreme_core(const char *name, int op, PyObject *object,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	struct reduce_arguments a;
	tarn_tensor *where = NULL;
	PyObject *x, *values, *indices = NULL, *pair = NULL;
	int r, dim;

	if (reduce_arguments(name, args, n_args, keywords, &a) < 0 ||
		one_dim(name, &a, &dim) < 0)
		return NULL;
	x = tensor_argument(name, object);
	if (!x)
		return NULL;
	/* The places first: out may be a part of x. */
	if (a.n) {
		WITHOUT_GIL(tensor_of(x),
			r = tarn_arg_reduce((enum tarn_reduce_op)op,
				tensor_of(x), dim, a.flags, &where));
		indices = result_object(name, r, NULL, where);
		if (!indices) {
			Py_DECREF(x);
			return NULL;
		}
	}
	WITHOUT_GIL(tensor_of(x),
		r = tarn_reduce((enum tarn_reduce_op)op, tensor_of(x), a.n,
			a.dims, a.flags, &a.to));
	values = result_object(name, r, a.out, a.to);
	Py_DECREF(x);
	if (!a.n)
		return values;
	if (values)
		pair = PyTuple_Pack(2, values, indices);
	Py_XDECREF(values);
	Py_DECREF(indices);
	return pair;
}

/* ---- rows that stay rows --------------------------------------------------- */

typedef int row_function(const tarn_tensor *x, int dim, tarn_tensor **out);

static PyObject *along_core(const char *name, int op, PyObject *object,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	static row_function *const functions[] = {tarn_softmax,
		tarn_log_softmax, tarn_cumulative_sum, tarn_cumulative_product};
	static const char *const names[] = {"dim", "out", "axis", NULL};
	PyObject *given[3], *x, *result;
	tarn_tensor *to;
	int dim = -1, r;

	if (lent->named_arguments(
		    name, names, 0, args, n_args, keywords, given) < 0 ||
		out_argument(name, given[1], &to) < 0)
		return NULL;
	given[0] = given[0] ?: given[2];
	if (!given[0]) {
		PyErr_Format(PyExc_TypeError, "%s() misses the argument 'dim'",
			name);
		return NULL;
	}
	if (lent->dim_argument(name, given[0], &dim) < 0)
		return NULL;
	x = tensor_argument(name, object);
	if (!x)
		return NULL;
	WITHOUT_GIL(tensor_of(x), r = functions[op](tensor_of(x), dim, &to));
	result = result_object(name, r, given[1], to);
	Py_DECREF(x);
	return result;
}

/* An argument that may be missing: a tensor, or NULL in *ret. 0 or -1. */
static int optional_tensor(const char *name, PyObject *object, PyObject **ret)
{
	*ret = NULL;
	if (!object || object == Py_None)
		return 0;
	*ret = tensor_argument(name, object);
	return *ret ? 0 : -1;
}

/* layer_norm(x, dims=1, weight=None, bias=None, eps=1e-5, out=None) and
 * rms_norm, which has no bias. op: 1: that. */
static PyObject *norms_core(const char *name, int op, PyObject *object,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[2][7] = {
		{"dims", "weight", "bias", "eps", "out", NULL},
		{"dims", "weight", "eps", "out", NULL},
	};
	PyObject *given[6] = {NULL}, *x, *weight = NULL, *bias = NULL;
	PyObject *result = NULL;
	int64_t dims = 1;
	double epsilon = op ? 1e-6 : 1e-5;
	tarn_tensor *to;
	int r;

	if (lent->named_arguments(
		    name, names[op], 0, args, n_args, keywords, given) < 0)
		return NULL;
	if (op) {
		given[4] = given[3];
		given[3] = given[2];
		given[2] = NULL;
	}
	if ((given[0] && lent->int_argument(given[0], &dims) < 0) ||
		(given[3] &&
			lent->real_argument(name, given[3], &epsilon) < 0) ||
		out_argument(name, given[4], &to) < 0)
		return NULL;
	x = tensor_argument(name, object);
	if (x && optional_tensor(name, given[1], &weight) >= 0 &&
		optional_tensor(name, given[2], &bias) >= 0) {
		const tarn_tensor *w = weight ? tensor_of(weight) : NULL;
		const tarn_tensor *b = bias ? tensor_of(bias) : NULL;
		int n = dims < 0 || dims > TARN_NDIM_MAX ? -1 : (int)dims;

		WITHOUT_GIL(tensor_of(x),
			r = op ? tarn_rms_norm(tensor_of(x), n, w, epsilon, &to)
			       : tarn_layer_norm(
					 tensor_of(x), n, w, b, epsilon, &to));
		result = result_object(name, r, given[4], to);
	}
	Py_XDECREF(x);
	Py_XDECREF(weight);
	Py_XDECREF(bias);
	return result;
}

/* ---- tables ------------------------------------------------------------------ */

FUNCTION_AND_METHOD(norm_core, norm, 0)
FUNCTION_AND_METHOD(variance_core, var, 0)
FUNCTION_AND_METHOD(variance_core, std, 1)
FUNCTION_AND_METHOD(log_sum_exp_core, logsumexp, 0)
FUNCTION_AND_METHOD(arg_core, argmin, TARN_AMIN)
FUNCTION_AND_METHOD(arg_core, argmax, TARN_AMAX)
FUNCTION_AND_METHOD(extreme_core, min, TARN_AMIN)
FUNCTION_AND_METHOD(extreme_core, max, TARN_AMAX)
FUNCTION_AND_METHOD(along_core, softmax, 0)
FUNCTION_AND_METHOD(along_core, log_softmax, 1)
FUNCTION_AND_METHOD(along_core, cumsum, 2)
FUNCTION_AND_METHOD(along_core, cumprod, 3)
FUNCTION_AND_METHOD(norms_core, layer_norm, 0)
FUNCTION_AND_METHOD(norms_core, rms_norm, 1)

#define REDUCED "keepdim=False, out=None, axis=None, keepdims=None, dtype=None)"
#define VARIED                                                                 \
	"keepdim=False, out=None, axis=None, keepdims=None, dtype=None, "      \
	"ddof=None)"
#define ALONG "dim=None, out=None, axis=None)"

#define ROWS(X, first)                                                         \
	X(norm, "norm(" first ", /, p=2, dim=None, " REDUCED                   \
		"\n--\n\nThe p-norm, of floats.")                              \
	X(var, "var(" first ", /, dim=None, correction=1, " VARIED             \
	       "\n--\n\nThe variance, of floats.")                             \
	X(std, "std(" first ", /, dim=None, correction=1, " VARIED             \
	       "\n--\n\nThe standard deviation, of floats.")                   \
	X(logsumexp, "logsumexp(" first ", /, dim=None, " REDUCED              \
		     "\n--\n\nlog(sum(exp(x))) without overflow.")             \
	X(argmin, "argmin(" first ", /, dim=None, " REDUCED                    \
		  "\n--\n\nThe index of the first least element.")             \
	X(argmax, "argmax(" first ", /, dim=None, " REDUCED                    \
		  "\n--\n\nThe index of the first largest element.")           \
	X(min, "min(" first ", /, dim=None, " REDUCED                          \
	       "\n--\n\nThe least; with dim a pair of values and indices.")    \
	X(max, "max(" first ", /, dim=None, " REDUCED                          \
	       "\n--\n\nThe largest; with dim a pair of values and "           \
	       "indices.")                                                     \
	X(softmax, "softmax(" first ", /, " ALONG                              \
		   "\n--\n\nexp(x) / sum(exp(x)) along dim, of floats.")       \
	X(log_softmax, "log_softmax(" first ", /, " ALONG                      \
		       "\n--\n\nThe logarithm of softmax.")                    \
	X(cumsum, "cumsum(" first ", /, " ALONG                                \
		  "\n--\n\nSums of the elements up to each.")                  \
	X(cumprod, "cumprod(" first ", /, " ALONG                              \
		   "\n--\n\nProducts of the elements up to each.")             \
	X(layer_norm, "layer_norm(" first ", /, dims=1, weight=None, "         \
		      "bias=None, eps=1e-05, out=None)\n--\n\nOver the last "  \
		      "dims dimensions.")                                      \
	X(rms_norm, "rms_norm(" first ", /, dims=1, weight=None, "             \
		    "eps=1e-06, out=None)\n--\n\nOver the last dims "          \
		    "dimensions.")

PyMethodDef along_functions[] = {ROWS(FUNCTION_ENTRY, "x") {0}};
PyMethodDef along_methods[] = {ROWS(METHOD_ENTRY, "$self") {0}};
