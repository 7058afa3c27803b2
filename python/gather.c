// SPDX-License-Identifier: MIT
/*
 * Rows by their numbers: tarn_gather, without the GIL. The list may be whatever
 * shares its bytes (a Tensor, an array), which are read where they are; or
 * numbers in Python's lists.
 */
#include "python/module.h"

#include <limits.h>
#include <string.h>

/* As many as there are numbers, with the table's dtype. NULL with an
 * exception. */
static PyObject *new_rows(const tarn_tensor *table, const tarn_tensor *index)
{
	const struct tarn_layout *l = tarn_tensor_layout(table);
	const struct tarn_layout *numbers = tarn_tensor_layout(index);
	int64_t shape[TARN_NDIM_MAX] = {0};
	tarn_tensor *made;
	int r;

	memcpy(shape, l->shape, sizeof(shape));
	/* Where these do not belong together, tarn_gather says so. */
	shape[0] = numbers->ndim == 1 ? numbers->shape[0] : 0;
	r = new_tensor(l->dtype, l->ndim, shape, &made);
	return r < 0 ? raise_view_as("gather", r) : tensor_wrap_consume(made);
}

static int threads_argument(PyObject *object, int *ret)
{
	int64_t threads = 1;

	if (object && int_argument(object, &threads) < 0)
		return -1;
	if (threads < 0 || threads > INT_MAX) {
		PyErr_Format(PyExc_ValueError,
			"gather: %lld threads; it must be 0 or more",
			(long long)threads);
		return -1;
	}
	*ret = (int)threads;
	return 0;
}

static PyObject *gather(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"index", "out", "threads", NULL};
	struct tarn_gather_options options = {0};
	PyObject *given[3], *index, *out;
	int r;

	if (named_arguments("gather", names, 1, args, n_args, keywords, given) <
			0 ||
		threads_argument(given[2], &options.threads) < 0)
		return NULL;
	index = tensor_source(given[0], TARN_I64);
	if (!index)
		return NULL;
	out = given[1] && given[1] != Py_None
		      ? tensor_from_object(given[1])
		      : new_rows(tensor_of(self), tensor_of(index));
	if (!out) {
		Py_DECREF(index);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS
	r = tarn_gather(
		tensor_of(out), tensor_of(self), tensor_of(index), &options);
	Py_END_ALLOW_THREADS
	Py_DECREF(index);
	if (r >= 0)
		return out;
	Py_DECREF(out);
	return raise_view(r);
}

PyMethodDef gather_methods[] = {
	{"gather", EXPORT(gather), FAST_KEYWORDS,
		"gather($self, /, index, out=None, threads=1)\n--\n\n"
		"The rows with these numbers (of the first dimension), in "
		"their order:\n"
		"numpy.take(self, index, 0), torch.index_select(self, 0, "
		"index).\n"
		"The index is one dimension of integers: a Tensor, an array or "
		"a list;\n"
		"negative ones count from the end. The rows are copied to out, "
		"a Tensor\n"
		"or an array of their shape and dtype, or to a new Tensor. Up "
		"to so many\n"
		"threads copy them, if they are many. Of a tensor in a file "
		"these rows\n"
		"alone are read."},
	{0},
};
