// SPDX-License-Identifier: MIT
/*
 * Unpacking arrays: views of the bytes that were received, as what they were.
 * Each keeps the Tensor that it lies in, or a reference to its storage, and so
 * the slot: it is given back when the last of them is gone.
 */
#include "python/pack.h"

#include <string.h>

/* An array of base, a Tensor in C order. */
struct found {
	enum pack_tag tag;
	PyObject *base;
	int64_t at; /* the byte of base where the element (0, 0, ...) is */
	struct tarn_layout layout; /* counted from there */
	bool strided;              /* strides stand behind the shape */
};

/* ---- as numpy's ---------------------------------------------------- */

static PyObject *numpy_args(const struct found *f, PyObject *dtype)
{
	const struct tarn_layout *l = &f->layout;
	PyObject *shape = numbers_tuple(l->ndim, l->shape, 1);
	PyObject *strides = Py_None;

	Py_INCREF(strides);
	if (f->strided && l->ndim) {
		Py_DECREF(strides);
		strides = numbers_tuple(
			l->ndim, l->stride, tarn_dtype_bits(l->dtype) / 8);
	}
	if (shape && strides)
		return Py_BuildValue("(NOOLN)", shape, dtype, f->base,
			(long long)f->at, strides);
	Py_XDECREF(shape);
	Py_XDECREF(strides);
	return NULL;
}

/* ndarray(shape, dtype, buffer, offset, strides) looks at the bounds again,
 * and keeps the buffer's owner. */
static PyObject *as_numpy(const struct found *f)
{
	const struct numpy_face *numpy = numpy_face();
	PyObject *args, *array;

	if (!numpy)
		return NULL;
	if (!numpy->dtypes[f->layout.dtype])
		return unpack_fail("numpy has no such dtype");
	args = numpy_args(f, numpy->dtypes[f->layout.dtype]);
	array = args ? PyObject_Call(numpy->array, args, NULL) : NULL;
	Py_XDECREF(args);
	return array;
}

static PyObject *as_numpy_scalar(const struct found *f)
{
	PyObject *array = as_numpy(f), *none, *scalar = NULL;

	none = array ? PyTuple_New(0) : NULL;
	if (none)
		scalar = PyObject_GetItem(array, none);
	Py_XDECREF(array);
	Py_XDECREF(none);
	return scalar;
}

/* ---- as a Tensor, and PyTorch's ------------------------------------ */

/* Counted from the lowest of its elements. What was read is inside of base, so
 * nothing here overflows. */
static int as_tensor(const struct found *f, tarn_tensor **ret)
{
	const struct tarn_layout *of = layout_of(f->base);
	tarn_tensor *base = tensor_of(f->base);
	struct tarn_layout layout = f->layout;
	int64_t first, count, begin;

	tarn_layout_bounds(&layout, &first, &count);
	layout.offset = count ? -first : 0;
	begin = (int64_t)tarn_tensor_base(base) +
		of->offset * tarn_dtype_bits(of->dtype) / 8 + f->at -
		layout.offset * (tarn_dtype_bits(layout.dtype) / 8);
	return tarn_tensor_new(
		tarn_tensor_storage(base), (uint64_t)begin, &layout, ret);
}

/* Of a dtype that not all versions have by DLPack. */
static PyObject *viewed(PyObject *tensor, PyObject *dtype)
{
	PyObject *view =
		tensor ? PyObject_CallMethod(tensor, "view", "(O)", dtype)
		       : NULL;

	Py_XDECREF(tensor);
	return view;
}

/* Whoever may not write gets what Tensor.torch gives him, where the bytes can
 * be had so, or else a copy. */
static PyObject *readonly_torch(tarn_tensor *tensor)
{
	PyObject *self = tensor_wrap_consume(tensor), *copy, *made;

	made = self ? PyObject_CallMethod(self, "torch", NULL) : NULL;
	if (self && !made && PyErr_ExceptionMatches(PyExc_ValueError)) {
		PyErr_Clear();
		copy = PyObject_CallMethod(self, "clone", NULL);
		made = copy ? PyObject_CallMethod(copy, "torch", NULL) : NULL;
		Py_XDECREF(copy);
	}
	Py_XDECREF(self);
	return made;
}

static PyObject *as_torch(const struct found *f)
{
	const struct torch_face *torch = torch_face();
	int dtype = f->layout.dtype;
	struct found carried = *f;
	PyObject *capsule, *made;
	tarn_tensor *tensor;
	int r;

	if (!torch)
		return NULL;
	if (!torch->dtypes[dtype])
		return unpack_fail("this PyTorch has no such dtype");
	if (torch->carriers[dtype])
		carried.layout.dtype = (uint8_t)torch->carriers[dtype];
	r = as_tensor(&carried, &tensor);
	if (r < 0)
		return raise_view(r);
	if (!tarn_storage_writable(tarn_tensor_storage(tensor))) {
		made = readonly_torch(tensor);
	} else {
		capsule = dlpack_consume(tensor);
		made = capsule ? PyObject_CallFunctionObjArgs(
					 torch->take, capsule, NULL)
			       : NULL;
		Py_XDECREF(capsule);
	}
	return torch->carriers[dtype] ? viewed(made, torch->dtypes[dtype])
				      : made;
}

/* ---- as bytes ------------------------------------------------------ */

static PyObject *as_bytes(const struct found *f, bool array)
{
	const char *data = tarn_tensor_data(tensor_of(f->base));
	Py_ssize_t n = (Py_ssize_t)f->layout.shape[0];

	data += f->at;
	return array ? PyByteArray_FromStringAndSize(data, n)
		     : PyBytes_FromStringAndSize(data, n);
}

static PyObject *as_memory(const struct found *f)
{
	PyObject *self = NULL, *view;
	tarn_tensor *tensor;
	int r = as_tensor(f, &tensor);

	if (r < 0)
		return raise_view(r);
	self = tensor_wrap_consume(tensor);
	view = self ? PyMemoryView_FromObject(self) : NULL;
	Py_XDECREF(self);
	return view;
}

static PyObject *make(const struct found *f)
{
	tarn_tensor *tensor = NULL;
	int r;

	switch (f->tag) {
	case PACK_NUMPY:
		return as_numpy(f);
	case PACK_NUMPY_SCALAR:
		return as_numpy_scalar(f);
	case PACK_TORCH:
		return as_torch(f);
	case PACK_TENSOR:
		r = as_tensor(f, &tensor);
		return tensor_wrap_result(r, &tensor);
	case PACK_MEMORY:
		return as_memory(f);
	default:
		return as_bytes(f, f->tag == PACK_LONG_BYTEARRAY);
	}
}

/* ---- what the tree says -------------------------------------------- */

static bool is_row_of_bytes(enum pack_tag tag)
{
	return tag == PACK_LONG_BYTES || tag == PACK_LONG_BYTEARRAY ||
	       tag == PACK_MEMORY;
}

/* dtype, rank, shape: a layout in C order, if no strides follow. */
static int read_layout(struct unpacker *u, struct found *f)
{
	uint64_t dtype, ndim, extent;
	int64_t shape[TARN_MAX_NDIM];

	if (unpack_number(u, &dtype) < 0 || unpack_number(u, &ndim) < 0)
		return -1;
	f->strided = dtype & PACK_STRIDED;
	dtype &= ~(uint64_t)PACK_STRIDED;
	if (dtype == 0 || dtype > TARN_DTYPE_MAX || ndim > TARN_MAX_NDIM) {
		unpack_fail("an array is of no dtype, or of too high a rank");
		return -1;
	}
	for (uint64_t i = 0; i < ndim; i++) {
		if (unpack_number(u, &extent) < 0)
			return -1;
		shape[i] = (int64_t)(extent & INT64_MAX);
	}
	if (is_row_of_bytes(f->tag) && (dtype != TARN_U8 || ndim != 1)) {
		unpack_fail("bytes are no bytes");
		return -1;
	}
	if (tarn_layout_contiguous((int)dtype, (int)ndim, shape, &f->layout) >=
		0)
		return 0;
	unpack_fail(tarn_error_message());
	return -1;
}

/* Strides instead of those of C order, and the bytes that they reach, which
 * are between begin and end of base. */
static int read_strides(
	struct unpacker *u, struct found *f, int64_t begin, int64_t end)
{
	int64_t size = tarn_dtype_bits(f->layout.dtype) / 8;
	int64_t strides[TARN_MAX_NDIM], first, count, low, high;
	struct tarn_layout l;
	int r;

	for (int i = 0; i < f->layout.ndim; i++)
		if (unpack_signed(u, &strides[i]) < 0)
			return -1;
	r = tarn_layout_strided(f->layout.dtype, f->layout.ndim,
		f->layout.shape, strides, 0, &l);
	if (r < 0 || tarn_dtype_bits(l.dtype) % 8)
		goto outside;
	tarn_layout_bounds(&l, &first, &count);
	if (__builtin_mul_overflow(first, size, &low) ||
		__builtin_add_overflow(low, f->at, &low) ||
		__builtin_mul_overflow(count, size, &high) ||
		__builtin_add_overflow(low, high, &high))
		goto outside;
	if (f->at < begin || f->at > end ||
		(count && (low < begin || high > end)))
		goto outside;
	f->layout = l;
	return 0;
outside:
	unpack_fail("strides reach out of an array's memory");
	return -1;
}

/* Among the packed bytes, after strides if there are any: so they are read
 * twice, now to get past them. */
PyObject *unpack_array(struct unpacker *u, enum pack_tag tag)
{
	struct found f = {.tag = tag, .base = u->whole};
	struct unpacker strides;
	uint64_t where, begin, end;
	int64_t stride;

	if (tag < PACK_TENSOR || tag > PACK_MEMORY)
		return unpack_fail("a value is of no kind");
	if (read_layout(u, &f) < 0)
		return NULL;
	strides = *u;
	for (int i = 0; f.strided && i < f.layout.ndim; i++)
		if (unpack_signed(u, &stride) < 0)
			return NULL;
	if (unpack_number(u, &where) < 0)
		return NULL;
	if (__builtin_mul_overflow(where, PACK_ALIGN, &begin) ||
		__builtin_add_overflow(begin, u->bytes, &begin) ||
		__builtin_add_overflow(
			begin, (uint64_t)tarn_layout_nbytes(&f.layout), &end) ||
		end > u->size)
		return unpack_fail("an array ends outside of it");
	f.at = (int64_t)begin;
	if (f.strided && read_strides(&strides, &f, f.at, (int64_t)end) < 0)
		return NULL;
	return make(&f);
}

static PyObject *record_of(struct unpacker *u)
{
	uint64_t number;

	if (unpack_number(u, &number) < 0)
		return NULL;
	if (!u->records || number >= (uint64_t)PyTuple_Size(u->records))
		return unpack_fail("it has fewer tensors than it says");
	return PyTuple_GetItem(u->records, (Py_ssize_t)number);
}

PyObject *unpack_view(struct unpacker *u)
{
	struct found f = {.base = record_of(u)};
	int64_t size;
	int tag;

	if (!f.base || unpack_signed(u, &f.at) < 0 || unpack_byte(u, &tag) < 0)
		return NULL;
	if (tag < PACK_TENSOR || tag > PACK_MEMORY)
		return unpack_fail("a value is of no kind");
	f.tag = (enum pack_tag)tag;
	if (read_layout(u, &f) < 0)
		return NULL;
	size = tarn_layout_nbytes(layout_of(f.base));
	if (!f.strided || !tarn_layout_is_contiguous(layout_of(f.base)))
		return unpack_fail("a view is of no tensor in C order");
	if (read_strides(u, &f, 0, size) < 0)
		return NULL;
	if (is_row_of_bytes(f.tag) && !tarn_layout_is_contiguous(&f.layout))
		return unpack_fail("bytes are no bytes");
	return make(&f);
}

PyObject *unpack_whole(struct unpacker *u)
{
	PyObject *record = record_of(u);

	Py_XINCREF(record);
	return record;
}
