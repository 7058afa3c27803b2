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

/* The arguments for the exporter; a default is not passed. */
static PyObject *keywords_of(bool cpu, PyObject *copy)
{
	PyObject *all = Py_BuildValue("{s:(ii)}", "max_version",
		DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
	PyObject *device = all && cpu ? Py_BuildValue("(ii)", kDLCPU, 0) : NULL;
	int r = all && (device || !cpu) ? 0 : -1;

	if (r == 0 && device)
		r = PyDict_SetItemString(all, "dl_device", device);
	if (r == 0 && copy)
		r = PyDict_SetItemString(all, "copy", copy);
	Py_XDECREF(device);
	if (r == 0)
		return all;
	Py_XDECREF(all);
	return NULL;
}

/* Exporters older than 2023 do not know these arguments, and are called again
 * without them; the capsule is checked in both cases. */
static PyObject *call_dlpack(PyObject *object, bool cpu, PyObject *copy)
{
	PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
	PyObject *none = method ? PyTuple_New(0) : NULL;
	PyObject *all = none ? keywords_of(cpu, copy) : NULL;
	PyObject *capsule = NULL;

	if (all)
		capsule = PyObject_Call(method, none, all);
	if (all && !capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
		PyErr_Clear();
		capsule = PyObject_Call(method, none, NULL);
	}
	Py_XDECREF(method);
	Py_XDECREF(none);
	Py_XDECREF(all);
	return capsule;
}

/* None, "cpu", what calls itself so, or (kDLCPU, 0). 1: one was given. */
static int wants_cpu(PyObject *device)
{
	PyObject *text;
	int r;

	if (!device || device == Py_None)
		return 0;
	if (PyTuple_Check(device))
		return check_device("from_dlpack", device) < 0 ? -1 : 1;
	text = PyObject_Str(device);
	if (!text)
		return -1;
	r = PyUnicode_CompareWithASCIIString(text, "cpu");
	Py_DECREF(text);
	if (r == 0)
		return 1;
	PyErr_Format(PyExc_ValueError,
		"from_dlpack: device is %R; tarn's tensors are in the CPU's "
		"memory, \"cpu\"",
		device);
	return -1;
}

static PyObject *cloned(PyObject *tensor)
{
	PyObject *clone = PyObject_CallMethod(tensor, "clone", NULL);

	Py_DECREF(tensor);
	return clone;
}

static PyObject *from_dlpack(PyObject *module, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"object", "device", "copy", NULL};
	PyObject *given[3], *capsule, *tensor;
	bool copy, copied = false;
	int cpu;

	if (n_args > 1 || named_arguments("from_dlpack", names, 1, args, n_args,
				  keywords, given) < 0) {
		if (!PyErr_Occurred())
			PyErr_SetString(PyExc_TypeError,
				"from_dlpack() takes device and copy by name");
		return NULL;
	}
	cpu = wants_cpu(given[1]);
	if (cpu < 0 || optional_flag(given[2], &copy) < 0)
		return NULL;
	if (given[2] == Py_None)
		given[2] = NULL;
	if (is_tensor(given[0])) {
		Py_INCREF(given[0]);
		return copy ? cloned(given[0]) : given[0];
	}
	capsule = call_dlpack(given[0], cpu, given[2]);
	if (!capsule)
		return NULL;
	tensor = PyCapsule_IsValid(capsule, DL_CAPSULE_VERSIONED)
			 ? take_versioned(capsule, &copied)
			 : take_old(capsule);
	Py_DECREF(capsule);
	return tensor && copy && !copied ? cloned(tensor) : tensor;
}

PyMethodDef dlpack_functions[] = {
	{"from_dlpack", EXPORT(from_dlpack), FAST_KEYWORDS,
		"from_dlpack(object, /, *, device=None, copy=None)\n--\n\n"
		"A Tensor over the bytes of another library's, by DLPack; those"
		"\nlive as long as the Tensor and its views. device=\"cpu\" "
		"asks for\n"
		"what is elsewhere; copy=True for new memory, copy=False for "
		"an\n"
		"error where the giver would have to copy."},
	{0},
};
