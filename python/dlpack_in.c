// SPDX-License-Identifier: MIT
/*
 * Tensors in, by DLPack, in its old form and its versioned one
 * (lib/dlpack/from_dlpack.c). What was handed over is kept until the last
 * tensor over it is gone, and then given back by the giver's deleter.
 */
#include "python/dlpack.h"
#include "python/module.h"

#include <errno.h>
#include <stdlib.h>

/*
 * What was handed over, in either form, as the library takes it: with a deleter
 * that runs in whatever thread the last view goes. The giver's takes the GIL if
 * it needs it, which after the interpreter's end it cannot.
 */
struct loan {
	DLManagedTensorVersioned managed;
	DLManagedTensorVersioned *versioned; /* one of these; the other NULL */
	DLManagedTensor *old;
};

static void end_loan(DLManagedTensorVersioned *self)
{
	struct loan *loan = self->manager_ctx;
	DLManagedTensorVersioned *m = loan->versioned;
	DLManagedTensor *old = loan->old;

	free(loan);
	if (!Py_IsInitialized())
		return;
	if (m && m->deleter)
		m->deleter(m);
	if (old && old->deleter)
		old->deleter(old);
}

/* NULL, with an exception: nothing was taken over. */
static tarn_tensor *borrow(const struct loan *from)
{
	struct loan *loan = malloc(sizeof(*loan));
	tarn_tensor *tensor;
	int r;

	if (!loan) {
		PyErr_NoMemory();
		return NULL;
	}
	*loan = *from;
	loan->managed.manager_ctx = loan;
	loan->managed.deleter = end_loan;
	r = tarn_tensor_from_dlpack(&loan->managed, &tensor);
	if (r >= 0)
		return tensor;
	free(loan);
	if (r == -ENOTSUP)
		PyErr_SetString(PyExc_BufferError, tarn_error_message());
	else
		raise_view(r);
	return NULL;
}

static PyObject *take_old(PyObject *capsule)
{
	struct loan loan = {.managed.version = {DLPACK_MAJOR_VERSION, 0}};
	tarn_tensor *tensor;

	loan.old = PyCapsule_GetPointer(capsule, DL_CAPSULE);
	if (!loan.old)
		return NULL;
	loan.managed.dl_tensor = loan.old->dl_tensor;
	tensor = borrow(&loan);
	if (!tensor)
		return NULL;
	PyCapsule_SetName(capsule, DL_CAPSULE_USED);
	return tensor_wrap_consume(tensor);
}

static PyObject *take_versioned(PyObject *capsule, bool *ret_copied)
{
	struct loan loan = {0};
	tarn_tensor *tensor;

	loan.versioned = PyCapsule_GetPointer(capsule, DL_CAPSULE_VERSIONED);
	if (!loan.versioned)
		return NULL;
	/* Other versions may have other fields. */
	loan.managed.version = loan.versioned->version;
	if (loan.managed.version.major == DLPACK_MAJOR_VERSION)
		loan.managed = *loan.versioned;
	tensor = borrow(&loan);
	if (!tensor)
		return NULL;
	*ret_copied = loan.managed.flags & DLPACK_FLAG_BITMASK_IS_COPIED;
	PyCapsule_SetName(capsule, DL_CAPSULE_VERSIONED_USED);
	return tensor_wrap_consume(tensor);
}

/* ---- asking for it ------------------------------------------------- */

/* What the caller wants: a place if one was given, and copy as it was given. */
struct wish {
	bool has_place;
	struct place place;
	PyObject *copy; /* NULL: not given */
};

static bool wants_host(const struct wish *wish)
{
	return wish->has_place && !wish->place.on_device;
}

static int set_item(PyObject *dict, const char *name, PyObject *value)
{
	int r = value ? PyDict_SetItemString(dict, name, value) : -1;

	Py_XDECREF(value);
	return r;
}

/* Is it on a device of CUDA? Exporters older than 2023 may not say. */
static bool is_on_cuda(PyObject *object)
{
	PyObject *pair = PyObject_CallMethod(object, "__dlpack_device__", NULL);
	int64_t type = 0;
	bool is;

	is = pair && PyTuple_Check(pair) && PyTuple_Size(pair) == 2 &&
	     int_argument(PyTuple_GetItem(pair, 0), &type) == 0 &&
	     type == kDLCUDA;
	PyErr_Clear();
	Py_XDECREF(pair);
	return is;
}

/*
 * The arguments for the exporter; a default is not passed. tarn works on a
 * device after what is in the legacy default stream, 1, so that is the stream
 * in which the bytes are to be there.
 */
static PyObject *keywords_of(PyObject *object, const struct wish *wish)
{
	PyObject *all = Py_BuildValue("{s:(ii)}", "max_version",
		DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
	int r = all ? 0 : -1;

	if (r == 0 && wants_host(wish))
		r = set_item(
			all, "dl_device", Py_BuildValue("(ii)", kDLCPU, 0));
	else if (r == 0 && is_on_cuda(object))
		r = set_item(all, "stream", PyLong_FromLong(1));
	if (r == 0 && wish->copy)
		r = PyDict_SetItemString(all, "copy", wish->copy);
	if (r == 0)
		return all;
	Py_XDECREF(all);
	return NULL;
}

/* Only the stream: without it the bytes would come too early. */
static PyObject *old_keywords(PyObject *all)
{
	PyObject *stream = PyDict_GetItemString(all, "stream");

	return stream ? Py_BuildValue("{s:O}", "stream", stream) : PyDict_New();
}

/* Exporters older than 2023 do not know the other arguments, and are called
 * again without them; the capsule is checked in both cases. */
static PyObject *call_dlpack(PyObject *object, const struct wish *wish)
{
	PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
	PyObject *none = method ? PyTuple_New(0) : NULL;
	PyObject *all = none ? keywords_of(object, wish) : NULL;
	PyObject *capsule = NULL, *old;

	if (all)
		capsule = PyObject_Call(method, none, all);
	if (all && !capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
		PyErr_Clear();
		old = old_keywords(all);
		capsule = old ? PyObject_Call(method, none, old) : NULL;
		Py_XDECREF(old);
	}
	Py_XDECREF(method);
	Py_XDECREF(none);
	Py_XDECREF(all);
	return capsule;
}

/* None, the name of a place, or DLPack's pair. 0 or -1. */
static int wish_argument(PyObject *device, struct wish *ret)
{
	DLDevice pair = {kDLCPU, 0};

	ret->has_place = device && device != Py_None;
	if (!ret->has_place)
		return 0;
	if (!PyTuple_Check(device))
		return place_argument("from_dlpack", device, &ret->place);
	if (dl_device_argument("from_dlpack", device, &pair) < 0)
		return -1;
	return place_of_dl_device("from_dlpack", &pair, &ret->place);
}

/* Takes the tensor over, and copies it if it is elsewhere, or if copy is set. */
static PyObject *put_there(PyObject *tensor, const struct wish *wish, bool copy)
{
	struct place own = place_of(tensor_of(tensor));
	const struct place *place = wish->has_place ? &wish->place : &own;
	tarn_tensor *made;

	if (same_place(&own, place) && !copy)
		return tensor;
	if (wish->copy && PyObject_IsTrue(wish->copy) == 0) {
		Py_DECREF(tensor);
		PyErr_SetString(PyExc_BufferError,
			"from_dlpack: it would have to be copied to that "
			"device, and copy is False");
		return NULL;
	}
	made = copy_to(
		tensor_of(tensor), place, layout_of(tensor)->dtype, NULL);
	Py_DECREF(tensor);
	return made ? tensor_wrap_consume(made) : NULL;
}

static PyObject *from_dlpack(PyObject *module, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"object", "device", "copy", NULL};
	PyObject *given[3], *capsule, *tensor;
	bool copy, copied = false;
	struct wish wish = {.copy = NULL};

	if (n_args > 1 || named_arguments("from_dlpack", names, 1, args, n_args,
				  keywords, given) < 0) {
		if (!PyErr_Occurred())
			PyErr_SetString(PyExc_TypeError,
				"from_dlpack() takes device and copy by name");
		return NULL;
	}
	if (wish_argument(given[1], &wish) < 0 ||
		optional_flag(given[2], &copy) < 0)
		return NULL;
	if (given[2] != Py_None)
		wish.copy = given[2];
	if (is_tensor(given[0])) {
		Py_INCREF(given[0]);
		return put_there(given[0], &wish, copy);
	}
	capsule = call_dlpack(given[0], &wish);
	if (!capsule)
		return NULL;
	tensor = PyCapsule_IsValid(capsule, DL_CAPSULE_VERSIONED)
			 ? take_versioned(capsule, &copied)
			 : take_old(capsule);
	Py_DECREF(capsule);
	return tensor ? put_there(tensor, &wish, copy && !copied) : NULL;
}

PyMethodDef dlpack_functions[] = {
	{"from_dlpack", EXPORT(from_dlpack), FAST_KEYWORDS,
		"from_dlpack(object, /, *, device=None, copy=None)\n--\n\n"
		"A Tensor over the bytes of another library's, by DLPack; those"
		"\nlive as long as the Tensor and its views. device, as "
		"Tensor.to has it,\n"
		"asks for a copy of what is elsewhere; copy=True for new memory, "
		"copy=False\n"
		"for an error where it would have to be copied. What is on a GPU "
		"is there\n"
		"once the work in the giver's stream is done: tarn's copies come "
		"after that."},
	{0},
};
