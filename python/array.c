// SPDX-License-Identifier: MIT
/*
 * The bytes of a tensor, given to others: by the buffer protocol, by numpy's
 * __array_interface__. Both keep the Tensor, and so the storage, the lease and
 * the bytes, for as long as an array over them lives. Who may not write gets
 * no writable array.
 */
#include "python/module.h"

static bool is_readonly(PyObject *self)
{
	return !tarn_storage_writable(tarn_tensor_storage(tensor_of(self)));
}

/* What keeps the bytes from being given away, or NULL. */
static const char *no_bytes(PyObject *self)
{
	if (!dtype_typestr(layout_of(self)->dtype))
		return "elements are smaller than bytes; use .bitcast(\"U8\") "
		       "or .to(\"F32\")";
	if (!tarn_storage_data(tarn_tensor_storage(tensor_of(self))))
		return "it is in a file and has no address; use .clone()";
	return NULL;
}

/* ---- the buffer protocol ------------------------------------------- */

/* shape and strides, in bytes, as long as the view lives. */
struct buffer_shape {
	Py_ssize_t shape[TARN_MAX_NDIM];
	Py_ssize_t strides[TARN_MAX_NDIM];
};

/* What the flags demand of the order, and how it is not met. */
static const char *wrong_order(const struct tarn_layout *l, int flags)
{
	bool c = tarn_layout_is_contiguous(l);
	bool f = tarn_layout_is_fortran(l);

	if ((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS && !c)
		return "it is not in C order; use .contiguous()";
	if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && !f)
		return "it is not in Fortran order";
	if ((flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS && !c && !f)
		return "it is not contiguous; use .contiguous()";
	if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !c)
		return "it is not in C order; use .contiguous()";
	return NULL;
}

static const char *refuse_buffer(PyObject *self, int flags)
{
	const char *why = no_bytes(self);

	if (!why && (flags & PyBUF_WRITABLE) && is_readonly(self))
		why = "it is read-only; use .clone()";
	return why ? why : wrong_order(layout_of(self), flags);
}

int tensor_get_buffer(PyObject *self, Py_buffer *view, int flags)
{
	const struct tarn_layout *l = layout_of(self);
	const char *why = refuse_buffer(self, flags);
	struct buffer_shape *shape;
	bool format = flags & PyBUF_FORMAT;

	view->obj = NULL;
	if (why) {
		PyErr_Format(PyExc_BufferError, "tensor: %s", why);
		return -1;
	}
	shape = PyMem_Malloc(sizeof(*shape));
	if (!shape) {
		PyErr_NoMemory();
		return -1;
	}
	view->itemsize = tarn_dtype_bits(l->dtype) / 8;
	for (int i = 0; i < l->ndim; i++) {
		shape->shape[i] = (Py_ssize_t)l->shape[i];
		shape->strides[i] = (Py_ssize_t)l->stride[i] * view->itemsize;
	}
	Py_INCREF(self);
	view->obj = self;
	view->buf = tarn_tensor_data(tensor_of(self));
	view->len = (Py_ssize_t)tarn_layout_nbytes(l);
	view->readonly = is_readonly(self);
	view->ndim = l->ndim;
	view->format = format ? (char *)dtype_buffer_format(l->dtype) : NULL;
	view->shape = flags & PyBUF_ND ? shape->shape : NULL;
	view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES
				? shape->strides
				: NULL;
	view->suboffsets = NULL;
	view->internal = shape;
	return 0;
}

void tensor_release_buffer(PyObject *self, Py_buffer *view)
{
	PyMem_Free(view->internal);
}

/* ---- __array_interface__ ------------------------------------------- */

static PyObject *array_interface(PyObject *self, void *closure)
{
	const struct tarn_layout *l = layout_of(self);
	const char *why = no_bytes(self);
	PyObject *shape, *strides, *address;

	if (why) {
		PyErr_Format(PyExc_AttributeError,
			"tensor has no __array_interface__: %s", why);
		return NULL;
	}
	shape = numbers_tuple(l->ndim, l->shape, 1);
	strides = numbers_tuple(
		l->ndim, l->stride, tarn_dtype_bits(l->dtype) / 8);
	address = PyLong_FromVoidPtr(tarn_tensor_data(tensor_of(self)));
	if (!shape || !strides || !address) {
		Py_XDECREF(shape);
		Py_XDECREF(strides);
		Py_XDECREF(address);
		return NULL;
	}
	return Py_BuildValue("{s:i,s:N,s:N,s:s,s:(N,O)}", "version", 3, "shape",
		shape, "strides", strides, "typestr", dtype_typestr(l->dtype),
		"data", address, is_readonly(self) ? Py_True : Py_False);
}

PyGetSetDef array_properties[] = {
	{"__array_interface__", array_interface, NULL,
		"How numpy finds the bytes.", NULL},
	{0},
};

/* ---- whole arrays, made in Python ---------------------------------- */

static PyObject *call_helper(PyObject *self, const char *name)
{
	PyObject *helpers = PyImport_ImportModule("tarn._arrays"), *array;

	if (!helpers)
		return NULL;
	array = PyObject_CallMethod(helpers, name, "O", self);
	Py_DECREF(helpers);
	return array;
}

static PyObject *as_numpy(PyObject *self, PyObject *none)
{
	return call_helper(self, "to_numpy");
}

static PyObject *as_torch(PyObject *self, PyObject *none)
{
	return call_helper(self, "to_torch");
}

/* ---- copies, and other processes ----------------------------------- */

static PyObject *reduce(PyObject *self, PyObject *protocol)
{
	PyObject *helpers = PyImport_ImportModule("tarn._copies"), *how;

	if (!helpers)
		return NULL;
	how = PyObject_CallMethod(
		helpers, "reduce_tensor", "OO", self, protocol);
	Py_DECREF(helpers);
	return how;
}

/* What never changes needs no second one. */
static PyObject *copy(PyObject *self, PyObject *none)
{
	Py_INCREF(self);
	return self;
}

static PyObject *deep_copy(PyObject *self, PyObject *memo)
{
	return PyObject_CallMethod(self, "clone", NULL);
}

PyMethodDef array_methods[] = {
	{"numpy", as_numpy, METH_NOARGS,
		"numpy($self, /)\n--\n\n"
		"A numpy array over the same bytes, read-only if the tensor "
		"is.\n"
		"numpy has no BF16 and no F8: these are unsigned integers "
		"there,"
		"\nand array.dtype.metadata[\"tarn\"] is the dtype's name. "
		"What\n"
		"is in a file, not mapped, is read into new memory."},
	{"torch", as_torch, METH_NOARGS,
		"torch($self, /)\n--\n\n"
		"A PyTorch tensor over the same bytes, of the same dtype. "
		"PyTorch\n"
		"knows no read-only tensors, so of one that is it is\n"
		"copy-on-write, see private(): writing to it changes this\n"
		"process's own pages. ValueError: PyTorch has no such dtype."},
	{"__reduce_ex__", reduce, METH_O, NULL},
	{"__copy__", copy, METH_NOARGS, NULL},
	{"__deepcopy__", deep_copy, METH_O, NULL},
	{0},
};
