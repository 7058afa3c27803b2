// SPDX-License-Identifier: MIT
/*
 * Tensors in, by DLPack, in its old form and its versioned one. What was handed
 * over is kept until the last tensor over it is gone, and then given back as
 * the giver said, by its deleter.
 */
#include "python/dlpack.h"
#include "python/module.h"

#include <stdlib.h>

static int dtype_from_dl(struct dl_type type)
{
	if (type.lanes != 1)
		return 0;
	for (int i = 1; i <= TARN_DTYPE_MAX; i++)
		if (dl_types[i].bits && dl_types[i].bits == type.bits &&
			dl_types[i].code == type.code)
			return i;
	return 0;
}

/* In whatever thread the last view goes; deleters take the GIL if they need
 * it, which after the interpreter's end they cannot. */
static void release_old(void *arg)
{
	struct dl_managed *m = arg;

	if (m->deleter && Py_IsInitialized())
		m->deleter(m);
}

static void release_versioned(void *arg)
{
	struct dl_managed_versioned *m = arg;

	if (m->deleter && Py_IsInitialized())
		m->deleter(m);
}

/* The layout, counted from where the storage begins: the lowest element. */
static int layout_from_dl(
	const struct dl_tensor *dl, struct tarn_layout *ret, char **ret_data)
{
	int dtype = dtype_from_dl(dl->dtype), r;
	int64_t first, count;

	if (dl->device.type != DL_CPU && dl->device.type != DL_CUDA_HOST) {
		PyErr_Format(PyExc_BufferError,
			"from_dlpack: the tensor is on a device of type %d; "
			"copy it to the CPU first",
			(int)dl->device.type);
		return -1;
	}
	if (!dtype) {
		PyErr_Format(PyExc_ValueError,
			"from_dlpack: type %d of %d bits and %d lanes is none "
			"of tarn's",
			dl->dtype.code, dl->dtype.bits, dl->dtype.lanes);
		return -1;
	}
	r = dl->strides
		    ? tarn_layout_strided(
			      dtype, dl->ndim, dl->shape, dl->strides, 0, ret)
		    : tarn_layout_contiguous(dtype, dl->ndim, dl->shape, ret);
	if (r < 0) {
		raise_view(r);
		return -1;
	}
	tarn_layout_bounds(ret, &first, &count);
	first = count ? first : 0;
	ret->offset = -first;
	*ret_data = (char *)dl->data + dl->byte_offset +
		    first * (tarn_dtype_bits(dtype) / 8);
	return 0;
}

/* ret_storage's release has taken over what was handed over. */
static PyObject *borrow(const struct dl_tensor *dl, bool writable,
	void (*release)(void *arg), void *arg, bool *ret_taken)
{
	tarn_tensor *tensor = NULL;
	struct tarn_layout layout;
	tarn_storage *storage;
	int64_t first, count;
	char *data;
	int r;

	*ret_taken = false;
	if (layout_from_dl(dl, &layout, &data) < 0)
		return NULL;
	tarn_layout_bounds(&layout, &first, &count);
	r = tarn_storage_borrow(data,
		(uint64_t)(count * (tarn_dtype_bits(layout.dtype) / 8)),
		writable, release, arg, &storage);
	if (r < 0)
		return raise_view(r);
	*ret_taken = true;
	r = tarn_tensor_new(storage, 0, &layout, &tensor);
	tarn_storage_unref(storage);
	return tensor_wrap_result(r, &tensor);
}

static PyObject *take_old(PyObject *capsule)
{
	struct dl_managed *m = PyCapsule_GetPointer(capsule, DL_CAPSULE);
	PyObject *tensor;
	bool taken;

	if (!m)
		return NULL;
	tensor = borrow(&m->tensor, true, release_old, m, &taken);
	if (taken)
		PyCapsule_SetName(capsule, DL_CAPSULE_USED);
	return tensor;
}

static PyObject *take_versioned(PyObject *capsule)
{
	struct dl_managed_versioned *m =
		PyCapsule_GetPointer(capsule, DL_CAPSULE_VERSIONED);
	PyObject *tensor;
	bool taken;

	if (!m)
		return NULL;
	if (m->major != DL_MAJOR) {
		PyErr_Format(PyExc_BufferError,
			"from_dlpack: version %u.%u, not 1", m->major,
			m->minor);
		return NULL;
	}
	tensor = borrow(&m->tensor, !(m->flags & DL_READ_ONLY),
		release_versioned, m, &taken);
	if (taken)
		PyCapsule_SetName(capsule, DL_CAPSULE_VERSIONED_USED);
	return tensor;
}

/* Givers older than 2023 do not know max_version. */
static PyObject *ask(PyObject *object)
{
	PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
	PyObject *none = method ? PyTuple_New(0) : NULL;
	PyObject *version =
		Py_BuildValue("{s:(ii)}", "max_version", DL_MAJOR, DL_MINOR);
	PyObject *capsule = NULL;

	if (none && version)
		capsule = PyObject_Call(method, none, version);
	if (none && !capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
		PyErr_Clear();
		capsule = PyObject_Call(method, none, NULL);
	}
	Py_XDECREF(method);
	Py_XDECREF(none);
	Py_XDECREF(version);
	return capsule;
}

static PyObject *from_dlpack(PyObject *module, PyObject *object)
{
	PyObject *capsule, *tensor;

	if (is_tensor(object)) {
		Py_INCREF(object);
		return object;
	}
	capsule = ask(object);
	if (!capsule)
		return NULL;
	tensor = PyCapsule_IsValid(capsule, DL_CAPSULE_VERSIONED)
			 ? take_versioned(capsule)
			 : take_old(capsule);
	Py_DECREF(capsule);
	return tensor;
}

PyMethodDef dlpack_functions[] = {
	{"from_dlpack", from_dlpack, METH_O,
		"from_dlpack(object, /)\n--\n\n"
		"A Tensor over the bytes of another library's, by DLPack; those"
		"\nlive as long as the Tensor and its views."},
	{0},
};
