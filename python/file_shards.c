// SPDX-License-Identifier: MIT
/*
 * Where the bytes of an open file's tensors lie, for callers that decide
 * themselves what is read: the files that it consists of, and the range of each
 * tensor.
 */
#include "python/module.h"

#include <sys/stat.h>

/* All bytes of a shard's tensors. */
static PyObject *bytes_of(const tarn_file *shard)
{
	tarn_tensor *whole;
	int r = tarn_file_bytes(shard, &whole);

	return r < 0 ? raise_system(r) : tensor_wrap_consume(whole);
}

static PyObject *one_shard(tarn_file *shard)
{
	PyObject *bytes = bytes_of(shard);
	struct stat st;

	if (!bytes)
		return NULL;
	if (fstat(tarn_file_fd(shard), &st) < 0) {
		PyErr_SetFromErrno(PyExc_OSError);
		Py_DECREF(bytes);
		return NULL;
	}
	return Py_BuildValue("(NLLN)",
		PyUnicode_DecodeFSDefault(tarn_file_path(shard)),
		(long long)st.st_size,
		(long long)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
		bytes);
}

static int append_consume(PyObject *list, PyObject *item)
{
	int r = item ? PyList_Append(list, item) : -1;

	Py_XDECREF(item);
	return r;
}

PyObject *file_shards(PyObject *self, PyObject *none)
{
	size_t n = tarn_file_shard_count(file_of(self));
	PyObject *list = PyList_New(0);

	for (size_t i = 0; list && i < n; i++)
		if (append_consume(list,
			    one_shard(tarn_file_shard(file_of(self), i))) < 0)
			Py_CLEAR(list);
	return list;
}

static PyObject *one_extent(
	const tarn_file *file, const struct tarn_file_entry *t)
{
	uint64_t begin, size;

	tarn_file_data_range(tarn_file_shard(file, t->shard), &begin, &size);
	return Py_BuildValue("(s#IKKO)", t->name, (Py_ssize_t)t->name_size,
		(unsigned)t->shard,
		(unsigned long long)(t->file_offset - begin),
		(unsigned long long)t->nbytes,
		t->stride || t->fortran_order ? Py_False : Py_True);
}

PyObject *file_extents(PyObject *self, PyObject *none)
{
	size_t n = tarn_file_count(file_of(self));
	PyObject *list = PyList_New(0);

	for (size_t i = 0; list && i < n; i++)
		if (append_consume(
			    list, one_extent(file_of(self),
					  tarn_file_at(file_of(self), i))) < 0)
			Py_CLEAR(list);
	return list;
}
