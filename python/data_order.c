// SPDX-License-Identifier: MIT
/* Functions of tarn.data that need no dataset: what comes where follows from
 * their arguments alone. */
#include "python/data.h"

static PyObject *order(PyObject *module, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"seed", "epoch", "n", "g", NULL};
	PyObject *given[4];
	uint64_t number[4], sample;

	if (named_arguments("order", names, 4, args, n_args, keywords, given) <
		0)
		return NULL;
	for (int i = 0; i < 4; i++)
		if (data_count_argument(names[i], given[i], &number[i]) < 0)
			return NULL;
	sample = tarn_data_order(number[0], number[1], number[2], number[3]);
	if (sample != TARN_DATA_NONE)
		return PyLong_FromUnsignedLongLong(sample);
	PyErr_Format(PyExc_IndexError,
		"order: there is no position %llu among %llu samples, of which "
		"there are 2^63 at most",
		(unsigned long long)number[3], (unsigned long long)number[2]);
	return NULL;
}

static PyObject *rank_part(PyObject *module, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {
		"global_batch", "rank", "world", NULL};
	PyObject *given[3];
	uint64_t batch, first, n;
	uint32_t rank, world;
	int r;

	if (named_arguments(
		    "rank_part", names, 3, args, n_args, keywords, given) < 0 ||
		data_count_argument("global_batch", given[0], &batch) < 0 ||
		data_limited_argument("rank", given[1], &rank) < 0 ||
		data_limited_argument("world", given[2], &world) < 0)
		return NULL;
	r = tarn_data_rank_part(batch, rank, world, &first, &n);
	if (r < 0)
		return data_raise(r);
	return Py_BuildValue(
		"(KK)", (unsigned long long)first, (unsigned long long)n);
}

PyMethodDef data_order_functions[] = {
	{"_data_order", EXPORT(order), FAST_KEYWORDS,
		"_data_order($module, seed, epoch, n, g)\n--\n\n"
		"The sample at position g of an epoch of n samples, all of "
		"which are\nshuffled: a function of these numbers alone."},
	{"_data_rank_part", EXPORT(rank_part), FAST_KEYWORDS,
		"_data_rank_part($module, global_batch, rank, world)\n--\n\n"
		"(first, n): a rank takes the n positions from first on of each "
		"global\nbatch."},
	{0},
};
