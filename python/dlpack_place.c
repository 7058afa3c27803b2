// SPDX-License-Identifier: MIT
/*
 * Devices and streams as DLPack's protocol has them.
 */
#include "python/dlpack.h"

#include <limits.h>

/* ---- devices ------------------------------------------------------- */

int dl_device_argument(const char *name, PyObject *device, DLDevice *ret)
{
	int64_t type, id;

	if (!device || device == Py_None)
		return 0;
	if (!PyTuple_Check(device) || PyTuple_Size(device) != 2) {
		PyErr_Format(PyExc_TypeError,
			"%s: a device is a pair of numbers", name);
		return -1;
	}
	if (int_argument(PyTuple_GetItem(device, 0), &type) < 0 ||
		int_argument(PyTuple_GetItem(device, 1), &id) < 0)
		return -1;
	if ((type != kDLCPU && type != kDLCUDA && type != kDLCUDAHost) ||
		id < 0 || id > INT_MAX) {
		PyErr_Format(PyExc_BufferError,
			"%s: a tarn.Tensor is in the memory of the host or on "
			"a device of CUDA, not on device %lld of type %lld",
			name, (long long)id, (long long)type);
		return -1;
	}
	*ret = (DLDevice) {(DLDeviceType)type, (int32_t)id};
	return 0;
}

int place_of_dl_device(
	const char *name, const DLDevice *device, struct place *ret)
{
	PyObject *index;
	int r;

	*ret = (struct place) {.on_device = false};
	if (device->device_type != kDLCUDA)
		return 0;
	index = PyLong_FromLong(device->device_id);
	r = index ? place_argument(name, index, ret) : -1;
	Py_XDECREF(index);
	return r;
}

int dl_device_of(PyObject *self, DLDevice *ret)
{
	struct place own = place_of(tensor_of(self));
	int index;

	*ret = (DLDevice) {kDLCPU, 0};
	if (!own.on_device)
		return 0;
	index = place_index(&own);
	if (index < 0) {
		PyErr_SetString(PyExc_BufferError,
			"DLPack: the tensor is on a device that this process "
			"does not see");
		return -1;
	}
	*ret = (DLDevice) {kDLCUDA, index};
	return 0;
}

/* ---- streams ------------------------------------------------------- */

int dl_stream_argument(PyObject *object, int64_t *ret)
{
	*ret = -1;
	if (!object || object == Py_None)
		return 0;
	if (PyLong_Check(object) && int_argument(object, ret) == 0 &&
		(*ret > 0 || *ret == -1))
		return 0;
	PyErr_Clear();
	PyErr_Format(PyExc_ValueError,
		"__dlpack__: stream is %R; of CUDA it is None, -1, 1 (the "
		"legacy default stream), 2 (the per-thread one) or a handle",
		object);
	return -1;
}

int dl_no_stream(PyObject *stream)
{
	if (!stream || stream == Py_None)
		return 0;
	PyErr_Format(PyExc_RuntimeError,
		"__dlpack__: stream is %R; the tensor is in the CPU's memory, "
		"where only None means anything",
		stream);
	return -1;
}

int dl_settle(tarn_tensor *tensor, int64_t stream)
{
	static const int64_t one[] = {1};
	tarn_storage *storage = tarn_tensor_storage(tensor);
	tarn_tensor *there, *here;
	struct tarn_layout layout;
	int r;

	if (stream <= 2 || !tarn_storage_size(storage))
		return 0;
	r = tarn_layout_contiguous(TARN_U8, 1, one, &layout);
	if (r >= 0)
		r = tarn_tensor_new(storage, 0, &layout, &there);
	if (r >= 0) {
		r = new_tensor(TARN_U8, 1, one, &here);
		if (r >= 0) {
			r = copy_tensor(here, there);
			tarn_tensor_unref(here);
		}
		tarn_tensor_unref(there);
	}
	if (r < 0 && !PyErr_Occurred())
		raise_system(r);
	return r < 0 ? -1 : 0;
}
