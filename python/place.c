// SPDX-License-Identifier: MIT
/*
 * Places: the memory of the host, "cpu", and devices, "cuda:N". N is the
 * device's index in this process; other processes may count otherwise, so what
 * identifies a device is its UUID.
 */
#include "python/device.h"

#include <stdio.h>
#include <string.h>

/* ---- names ---------------------------------------------------------- */

static bool starts(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* No dtype's name begins so, or has a colon in it. */
static bool is_place_name(const char *text)
{
	return !strcmp(text, "cpu") || starts(text, "cuda") ||
	       starts(text, "GPU-") || starts(text, "MIG-") ||
	       strchr(text, ':');
}

static bool is_index(PyObject *object)
{
	return PyLong_Check(object) && !PyBool_Check(object);
}

bool is_place(PyObject *object)
{
	const char *name;
	PyObject *text;
	bool is;

	if (is_index(object))
		return true;
	if (PyType_Check(object) || PyBool_Check(object))
		return false;
	text = PyObject_Str(object);
	name = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
	is = name && is_place_name(name);
	if (is && !PyUnicode_Check(object))
		is = starts(name, "c"); /* torch.device("cuda:0") */
	Py_XDECREF(text);
	PyErr_Clear();
	return is;
}

/* "cuda:1" is the driver's device "1". */
static const char *driver_name(const char *name)
{
	if (!strcmp(name, "cuda"))
		return "0";
	return starts(name, "cuda:") ? name + strlen("cuda:") : name;
}

static int find_device(const char *name, struct tarn_cuda_device *ret)
{
	int r;

	Py_BEGIN_ALLOW_THREADS
	r = tarn_cuda_device(driver_name(name), ret);
	Py_END_ALLOW_THREADS
	if (r >= 0)
		return 0;
	raise_system(r);
	return -1;
}

static int place_of_name(const char *name, struct place *ret)
{
	*ret = (struct place) {.on_device = strcmp(name, "cpu") != 0};
	return ret->on_device ? find_device(name, &ret->device) : 0;
}

int place_argument(const char *verb, PyObject *object, struct place *ret)
{
	PyObject *text = NULL;
	const char *name;
	int r = -1;

	if (is_index(object) || PyUnicode_Check(object) || is_place(object))
		text = PyObject_Str(object);
	else
		PyErr_Format(PyExc_TypeError,
			"%s: %R is no device; \"cpu\", \"cuda:0\", an index, "
			"a PCI address and a UUID are",
			verb, object);
	name = text ? text_argument(text) : NULL;
	if (name)
		r = place_of_name(name, ret);
	Py_XDECREF(text);
	return r;
}

int optional_place(const char *verb, PyObject *object, struct place *ret)
{
	*ret = (struct place) {.on_device = false};
	if (!object || object == Py_None)
		return 0;
	return place_argument(verb, object, ret);
}

/* ---- of tensors ------------------------------------------------------ */

struct place place_of(const tarn_tensor *tensor)
{
	struct place place = {.on_device = false};

	place.on_device = tarn_storage_device(tarn_tensor_storage(tensor),
				  &place.device) > 0;
	return place;
}

bool same_place(const struct place *a, const struct place *b)
{
	if (!a->on_device || !b->on_device)
		return a->on_device == b->on_device;
	return !memcmp(a->device.uuid, b->device.uuid, sizeof(a->device.uuid));
}

int place_index(const struct place *place)
{
	struct place other = {.on_device = true};
	char name[16];
	int r;

	for (int i = 0;; i++) {
		snprintf(name, sizeof(name), "%d", i);
		Py_BEGIN_ALLOW_THREADS
		r = tarn_cuda_device(name, &other.device);
		Py_END_ALLOW_THREADS
		if (r < 0)
			return -1;
		if (same_place(place, &other))
			return i;
	}
}

static PyObject *uuid_name(const uint8_t uuid[16])
{
	char text[64], *at = text + sprintf(text, "GPU-");

	for (int i = 0; i < 16; i++) {
		bool dash = i == 4 || i == 6 || i == 8 || i == 10;

		at += sprintf(at, "%s%02x", dash ? "-" : "", uuid[i]);
	}
	return PyUnicode_FromString(text);
}

PyObject *place_name(const struct place *place)
{
	int index;

	if (!place->on_device)
		return PyUnicode_FromString("cpu");
	index = place_index(place);
	return index < 0 ? uuid_name(place->device.uuid)
			 : PyUnicode_FromFormat("cuda:%d", index);
}

/* ---- streams --------------------------------------------------------- */

/* A handle of the driver's: 0, 1 and 2 are its default streams. */
static int stream_number(PyObject *number, void **ret)
{
	int64_t value;

	if (!PyErr_Occurred() && PyLong_Check(number) &&
		!PyBool_Check(number) && int_argument(number, &value) == 0 &&
		value >= 0) {
		*ret = (void *)(uintptr_t)value;
		return 0;
	}
	PyErr_Clear();
	PyErr_Format(PyExc_ValueError,
		"stream: %R is no handle of a stream; those are numbers from "
		"0 on",
		number);
	return -1;
}

/* __cuda_stream__() is (0, handle). */
static int stream_of_pair(PyObject *object, void **ret)
{
	PyObject *pair = PyObject_CallMethod(object, "__cuda_stream__", NULL);
	int r = -1;

	if (!pair)
		return -1;
	if (PyTuple_Check(pair) && PyTuple_Size(pair) == 2)
		r = stream_number(PyTuple_GetItem(pair, 1), ret);
	else
		PyErr_Format(PyExc_TypeError,
			"stream: __cuda_stream__ of %R is no pair of numbers",
			object);
	Py_DECREF(pair);
	return r;
}

int stream_argument(PyObject *object, void **ret)
{
	PyObject *number;
	int r;

	*ret = NULL;
	if (!object || object == Py_None)
		return 0;
	if (PyLong_Check(object))
		return stream_number(object, ret);
	number = PyObject_GetAttrString(object, "cuda_stream");
	if (number) {
		r = stream_number(number, ret);
		Py_DECREF(number);
		return r;
	}
	PyErr_Clear();
	if (PyObject_HasAttrString(object, "__cuda_stream__"))
		return stream_of_pair(object, ret);
	PyErr_Format(PyExc_TypeError,
		"stream: %R is no stream: a number, or an object with "
		"cuda_stream or __cuda_stream__, is wanted",
		object);
	return -1;
}

/* ---- copies ---------------------------------------------------------- */

tarn_tensor *new_tensor_at(const char *verb, const struct place *place,
	int dtype, int ndim, const int64_t *shape)
{
	tarn_tensor *made;
	int r;

	if (!place->on_device) {
		r = new_tensor(dtype, ndim, shape, &made);
	} else {
		Py_BEGIN_ALLOW_THREADS
		r = tarn_cuda_zeros(&place->device, dtype, ndim, shape, &made);
		Py_END_ALLOW_THREADS
	}
	if (r >= 0)
		return made;
	if (place->on_device)
		raise_system(r);
	else
		raise_view_as(verb, r);
	return NULL;
}

tarn_tensor *copy_to(const tarn_tensor *tensor, const struct place *place,
	int dtype, void *stream)
{
	const struct tarn_layout *l = tarn_tensor_layout(tensor);
	tarn_tensor *copy =
		new_tensor_at("copy", place, dtype, l->ndim, l->shape);

	if (!copy || copy_tensor_after(copy, tensor, stream) == 0)
		return copy;
	return tarn_tensor_unref(copy);
}

PyObject *moved_consume(PyObject *tensor, const struct place *place)
{
	tarn_tensor *copy;

	if (!tensor || !place->on_device)
		return tensor;
	copy = copy_to(
		tensor_of(tensor), place, layout_of(tensor)->dtype, NULL);
	Py_DECREF(tensor);
	return copy ? tensor_wrap_consume(copy) : NULL;
}
