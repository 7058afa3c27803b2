// SPDX-License-Identifier: MIT
/*
 * Making arrays of what was unpacked: views of the bytes that were received, as
 * what they were. Each keeps the Tensor that it lies in, or a reference to its
 * storage, and so the slot, which is given back when the last of them is gone.
 */
#include "python/pack.h"

/* Up to this many bytes a copy takes no longer than mapping them. */
#define COPY_MAX (64u << 10)

/* ---- as numpy's ---------------------------------------------------- */

/* A reference to object is taken over. 0 or -1. */
static int set_argument(PyObject *tuple, Py_ssize_t i, PyObject *object)
{
	return object ? PyTuple_SetItem(tuple, i, object) : -1;
}

/* A tensor that numpy takes a buffer of: base, which is in C order, or its
 * bytes, where it is of a dtype that buffers have not. */
static PyObject *with_buffer(PyObject *base)
{
	const struct tarn_layout *l = layout_of(base);
	struct tarn_layout bytes, flat;
	int64_t whole = -1;
	int r;

	if (dtype_buffer_format(l->dtype)) {
		Py_INCREF(base);
		return base;
	}
	r = tarn_layout_view(l, 1, &whole, &flat);
	if (r >= 0)
		r = tarn_layout_bitcast(&flat, TARN_U8, &bytes);
	return tensor_view(base, r, &bytes);
}

/* The bytes of a small array, a private copy that holds no slot: less work than
 * making memory copy-on-write. */
static PyObject *small_copy(const struct unpack_found *f)
{
	const char *data = tarn_tensor_data(tensor_of(f->base));
	int64_t size = tarn_layout_nbytes(&f->layout);

	return PyBytes_FromStringAndSize(data + f->at, (Py_ssize_t)size);
}

static bool is_small_readonly(const struct unpack_found *f)
{
	tarn_storage *storage = tarn_tensor_storage(tensor_of(f->base));

	return !f->strided && !tarn_storage_writable(storage) &&
	       tarn_layout_nbytes(&f->layout) <= COPY_MAX;
}

static PyObject *numpy_args(const struct unpack_found *f, PyObject *dtype)
{
	const struct tarn_layout *l = &f->layout;
	int size = tarn_dtype_bits(l->dtype) / 8;
	PyObject *args = PyTuple_New(f->strided ? 5 : 4);
	bool small = is_small_readonly(f);

	if (!args)
		return NULL;
	Py_INCREF(dtype);
	set_argument(args, 1, dtype);
	if (set_argument(args, 2,
		    small ? small_copy(f) : with_buffer(f->base)) == 0 &&
		set_argument(args, 0, numbers_tuple(l->ndim, l->shape, 1)) ==
			0 &&
		set_argument(args, 3, PyLong_FromLongLong(small ? 0 : f->at)) ==
			0 &&
		(!f->strided ||
			set_argument(args, 4,
				numbers_tuple(l->ndim, l->stride, size)) == 0))
		return args;
	Py_DECREF(args);
	return NULL;
}

/* ndarray(shape, dtype, buffer, offset, strides) looks at the bounds again,
 * and keeps the buffer's owner. */
static PyObject *as_numpy(const struct unpack_found *f)
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

static PyObject *as_numpy_scalar(const struct unpack_found *f)
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

/* Counted from the lowest of its elements. The array was checked to lie inside
 * of base, so nothing here overflows. */
static int as_tensor(const struct unpack_found *f, tarn_tensor **ret)
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

static PyObject *cloned_torch(tarn_tensor *tensor)
{
	tarn_tensor *copy = copy_as(tensor, tarn_tensor_layout(tensor)->dtype);
	PyObject *capsule, *made;

	if (!copy)
		return NULL;
	capsule = dlpack_consume(copy);
	if (!capsule)
		return NULL;
	made = PyObject_CallFunctionObjArgs(torch_face()->take, capsule, NULL);
	Py_DECREF(capsule);
	return made;
}

/* A receiver that may not write gets private memory: for large arrays, pages
 * that are copied when they are written. */
static PyObject *readonly_torch(tarn_tensor *tensor)
{
	PyObject *self, *made;

	if (tarn_layout_nbytes(tarn_tensor_layout(tensor)) <= COPY_MAX) {
		made = cloned_torch(tensor);
		tarn_tensor_unref(tensor);
		return made;
	}
	self = tensor_wrap_consume(tensor);
	made = self ? PyObject_CallMethod(self, "torch", NULL) : NULL;
	Py_XDECREF(self);
	return made;
}

static PyObject *as_torch(const struct unpack_found *f)
{
	const struct torch_face *torch = torch_face();
	int dtype = f->layout.dtype;
	struct unpack_found carried = *f;
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

static PyObject *as_bytes(const struct unpack_found *f, bool array)
{
	const char *data = tarn_tensor_data(tensor_of(f->base));
	Py_ssize_t n = (Py_ssize_t)f->layout.shape[0];

	data += f->at;
	return array ? PyByteArray_FromStringAndSize(data, n)
		     : PyBytes_FromStringAndSize(data, n);
}

static PyObject *as_memory(const struct unpack_found *f)
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

PyObject *unpack_make(const struct unpack_found *f)
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
