// SPDX-License-Identifier: MIT
/*
 * The bytes of a tensor, exported by the buffer protocol and by numpy's
 * __array_interface__. Both keep the Tensor, and so the storage, the lease and
 * the bytes, for as long as an array over them lives. The array of a read-only
 * tensor is read-only, and its memory is copy-on-write (tarn_tensor_guard),
 * since PyTorch writes to arrays that are marked read-only.
 */
#include "python/device.h"
#include "python/module.h"

static bool is_readonly(PyObject *self)
{
	return !tarn_storage_writable(tarn_tensor_storage(tensor_of(self)));
}

int tensor_guard(PyObject *self, void **ret)
{
	int r;

	if (!is_readonly(self)) {
		*ret = tarn_tensor_data(tensor_of(self));
		return 0;
	}
	Py_BEGIN_ALLOW_THREADS
	r = tarn_tensor_guard(tensor_of(self), ret);
	Py_END_ALLOW_THREADS
	if (r >= 0)
		return r;
	raise_system(r);
	return -1;
}

/* The reason why the bytes cannot be exported, or NULL. */
static const char *no_bytes(PyObject *self)
{
	int dtype = layout_of(self)->dtype;

	if (place_of(tensor_of(self)).on_device)
		return "it is on a device; use .cpu()";
	if (tarn_dtype_bits(dtype) % 8)
		return "elements are smaller than bytes; use .to(\"F32\") for "
		       "the values, .bitcast(\"U8\") for their bits";
	if (!dtype_typestr(dtype))
		return dtype == TARN_BF16
			       ? "it has no BF16; use .to(\"F32\") for the "
				 "values, .bitcast(\"U16\") for their bits, or "
				 ".torch()"
			       : "it has no F8; use .to(\"F32\") for the "
				 "values, .bitcast(\"U8\") for their bits, or "
				 ".torch()";
	if (!tarn_storage_data(tarn_tensor_storage(tensor_of(self))))
		return "it is in a file and has no address; use .clone()";
	return NULL;
}

/* ---- the buffer protocol ------------------------------------------- */

/* shape and strides, in bytes, as long as the view lives. */
struct buffer_shape {
	Py_ssize_t shape[TARN_NDIM_MAX];
	Py_ssize_t strides[TARN_NDIM_MAX];
};

/* The order that the flags demand, and why the tensor does not have it. */
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

/*
 * A consumer that asks for neither shape nor format sees a row of bytes.
 * torch.asarray does,
 * and made a row of it, of the default dtype where it is an old one. So only
 * what is such a row is given; a memoryview of any tensor is, too.
 */
static const char *wrong_row(const struct tarn_layout *l, int flags)
{
	bool row =
		l->ndim == 1 && (l->dtype == TARN_U8 || (flags & PyBUF_FORMAT));

	return (flags & PyBUF_ND) || row
		       ? NULL
		       : "bytes were asked for, without shape and dtype, and "
			 "it is no row of U8; use memoryview(t) for its bytes, "
			 ".numpy() or .torch() for an array";
}

static const char *refuse_buffer(PyObject *self, int flags)
{
	const char *why = no_bytes(self);

	if (!why && (flags & PyBUF_WRITABLE) && is_readonly(self))
		why = "it is read-only; use .clone()";
	if (!why)
		why = wrong_order(layout_of(self), flags);
	return why ? why : wrong_row(layout_of(self), flags);
}

int tensor_get_buffer(PyObject *self, Py_buffer *view, int flags)
{
	const struct tarn_layout *l = layout_of(self);
	const char *why = refuse_buffer(self, flags);
	struct buffer_shape *shape;
	bool format = flags & PyBUF_FORMAT;
	void *data;

	view->obj = NULL;
	if (why) {
		PyErr_Format(PyExc_BufferError, "Python's buffer: %s", why);
		return -1;
	}
	if (tensor_guard(self, &data) < 0)
		return -1;
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
	view->buf = data;
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
	void *data;

	if (why) {
		PyErr_Format(PyExc_AttributeError,
			"tensor has no __array_interface__: %s", why);
		return NULL;
	}
	if (tensor_guard(self, &data) < 0)
		return NULL;
	shape = numbers_tuple(l->ndim, l->shape, 1);
	strides = numbers_tuple(
		l->ndim, l->stride, tarn_dtype_bits(l->dtype) / 8);
	address = PyLong_FromVoidPtr(data);
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
	PyObject *helpers = PyImport_ImportModule("tarn._conversions"), *array;

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

static PyObject *as_array(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"dtype", "copy", NULL};
	PyObject *given[2], *helpers, *array;

	if (named_arguments(
		    "__array__", names, 0, args, n_args, keywords, given) < 0)
		return NULL;
	helpers = PyImport_ImportModule("tarn._conversions");
	if (!helpers)
		return NULL;
	array = PyObject_CallMethod(helpers, "to_array", "OOO", self,
		given[0] ? given[0] : Py_None, given[1] ? given[1] : Py_None);
	Py_DECREF(helpers);
	return array;
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

/* An object that never changes needs no copy. */
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
		"Code that writes to it all the same, as torch.from_numpy's "
		"tensor\n"
		"does, changes pages of this process alone, which the "
		"tensor's\n"
		"arrays share, and not the tensor itself. Pools in huge pages "
		"and\n"
		"memory that was lent read-only have no such pages: there that "
		"write\n"
		"ends the process. .torch(), torch.from_dlpack(t) and\n"
		"torch.as_tensor(t) copy there.\n"
		"numpy has no BF16, F8, F6 and F4. BF16 and F8 are dtypes of\n"
		"ml_dtypes where that is installed. Else, and for F6 and F4,\n"
		"TypeError: .to(\"F32\").numpy() has the values,\n"
		".bitcast(\"U16\").numpy() the bits. What is in a file, not\n"
		"mapped, is read into new memory. TypeError of what is on a "
		"GPU:\n.cpu().numpy()."},
	{"__array__", EXPORT(as_array), FAST_KEYWORDS,
		"__array__($self, dtype=None, copy=None)\n--\n\n"
		"What numpy.asarray makes of it: numpy(), as another dtype, or "
		"copied."},
	{"torch", as_torch, METH_NOARGS,
		"torch($self, /)\n--\n\n"
		"A PyTorch tensor over the same bytes, of the same dtype. "
		"PyTorch\n"
		"knows no read-only tensors, so of one that is it is\n"
		"copy-on-write, see cow(): writing to it changes this\n"
		"process's own pages. F4 is float4_e2m1fn_x2, whose last "
		"dimension\n"
		"is half as long. Of a tensor on a GPU it is the memory itself, "
		"also\nif that is read-only: what is written there all "
		"processes see.\nValueError: PyTorch has no such dtype; "
		"RuntimeError: it has no CUDA."},
	{"__reduce_ex__", reduce, METH_O, NULL},
	{"__copy__", copy, METH_NOARGS, NULL},
	{"__deepcopy__", deep_copy, METH_O, NULL},
	{0},
};
