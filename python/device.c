// SPDX-License-Identifier: MIT
/*
 * tensor.device_pointer(): where a GPU reads the tensor. Registering memory may
 * take a while, so it is done without the GIL.
 */
#include "python/module.h"

#include <stdio.h>

/* An index, or a name. 0 or -1. */
static int device_argument(PyObject *object, struct tarn_cuda_device *ret)
{
	const char *name;
	char text[24];
	int64_t index = 0;
	int r;

	if (object && PyUnicode_Check(object)) {
		name = text_argument(object);
		if (!name)
			return -1;
	} else {
		if (object && int_argument(object, &index) < 0)
			return -1;
		snprintf(text, sizeof(text), "%lld", (long long)index);
		name = text;
	}
	Py_BEGIN_ALLOW_THREADS
	r = tarn_cuda_device(name, ret);
	Py_END_ALLOW_THREADS
	if (r >= 0)
		return 0;
	raise_system(r);
	return -1;
}

static PyObject *device_pointer(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"device", NULL};
	struct tarn_cuda_device device;
	PyObject *given[1];
	uint64_t at = 0;
	int r;

	if (named_arguments("device_pointer", names, 0, args, n_args, keywords,
		    given) < 0 ||
		device_argument(given[0], &device) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_tensor_device_pointer(tensor_of(self), &device, &at);
	Py_END_ALLOW_THREADS
	return r < 0 ? raise_system(r) : PyLong_FromUnsignedLongLong(at);
}

PyMethodDef device_methods[] = {
	{"device_pointer", EXPORT(device_pointer), FAST_KEYWORDS,
		"device_pointer($self, /, device=0)\n--\n\n"
		"The address at which a kernel of a GPU reads the element at "
		"index\n(0, 0, ...), registering the memory if that is needed. "
		"device is an\nindex, a PCI address or a UUID. It is valid as "
		"long as the tensor's\nmemory is held. See tarn-cuda(7)."},
	{0},
};
