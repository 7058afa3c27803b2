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

/* ---- several tables at once ----------------------------------------- */

/* PyTorch's memory: its address, without its other ways, which take as long as
 * some hundred rows. */
static void *address_of(PyObject *torch_tensor)
{
	PyObject *number = PyObject_CallMethod(torch_tensor, "data_ptr", NULL);
	void *at = number ? PyLong_AsVoidPtr(number) : NULL;

	Py_XDECREF(number);
	return at;
}

/* A tensor over PyTorch's contiguous memory, [n, ...] as rows of the table or,
 * without a table, numbers. NULL with an exception. */
static PyObject *over_torch(PyObject *torch_tensor, PyObject *table, int64_t n)
{
	void *at = address_of(torch_tensor);
	int64_t shape[TARN_NDIM_MAX] = {n};
	const struct tarn_layout *l = table ? layout_of(table) : NULL;

	if (PyErr_Occurred())
		return NULL;
	for (int i = 1; l && i < l->ndim; i++)
		shape[i] = l->shape[i];
	return borrow_memory(torch_tensor, at, l ? l->dtype : TARN_I64,
		l ? l->ndim : 1, shape, NULL, true);
}

static int gather_one(PyObject *table, PyObject *torch_out, PyObject *index)
{
	PyObject *out =
		over_torch(torch_out, table, layout_of(index)->shape[0]);
	int r;

	if (!out)
		return -1;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_gather(
		tensor_of(out), tensor_of(table), tensor_of(index), NULL);
	Py_END_ALLOW_THREADS
	Py_DECREF(out);
	if (r < 0)
		raise_view(r);
	return r < 0 ? -1 : 0;
}

static PyObject *gather_all(
	PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
	PyObject *index = NULL;
	Py_ssize_t n;
	int64_t rows;
	int r = 0;

	(void)module;
	if (n_args != 4 || !PyList_Check(args[0]) || !PyList_Check(args[1]) ||
		PyList_Size(args[0]) != PyList_Size(args[1])) {
		PyErr_SetString(PyExc_TypeError,
			"_gather_all takes two lists, numbers, and how many");
		return NULL;
	}
	n = PyList_Size(args[0]);
	if (int_argument(args[3], &rows) < 0)
		return NULL;
	index = over_torch(args[2], NULL, rows);
	if (!index)
		return NULL;
	for (Py_ssize_t i = 0; r >= 0 && i < n; i++)
		r = gather_one(PyList_GetItem(args[0], i),
			PyList_GetItem(args[1], i), index);
	Py_DECREF(index);
	if (r < 0)
		return NULL;
	Py_RETURN_NONE;
}

PyMethodDef gather_functions[] = {
	{"_gather_all", EXPORT(gather_all), FAST,
		"Rows of Tensors to contiguous tensors of PyTorch's, which the "
		"caller\nhas made for them, by contiguous int64 numbers of "
		"PyTorch's."},
	{0},
};
