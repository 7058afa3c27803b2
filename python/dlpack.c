// SPDX-License-Identifier: MIT
/*
 * Tensors out, by DLPack (lib/dlpack/to_dlpack.c). What is handed over owns a
 * reference to the tarn_tensor, not to Python's object, so that its deleter
 * needs no GIL.
 *
 * PyTorch writes to tensors that it gets, even if the flag says "read-only",
 * and the old form of the protocol has no such flag. So no read-only memory is
 * exported: read-only tensors are exported copy-on-write.
 */
#include "python/dlpack.h"
#include "python/module.h"

/* For a capsule that no consumer has taken the tensor out of: a consumer
 * renames the capsule. */
static void drop_old(PyObject *capsule)
{
	DLManagedTensor *m;

	if (!PyCapsule_IsValid(capsule, DL_CAPSULE))
		return;
	m = PyCapsule_GetPointer(capsule, DL_CAPSULE);
	m->deleter(m);
}

static void drop_versioned(PyObject *capsule)
{
	DLManagedTensorVersioned *m;

	if (!PyCapsule_IsValid(capsule, DL_CAPSULE_VERSIONED))
		return;
	m = PyCapsule_GetPointer(capsule, DL_CAPSULE_VERSIONED);
	m->deleter(m);
}

/* flags are tarn_tensor_to_dlpack's. Takes the tensor over. */
static PyObject *hand_over(tarn_tensor *tensor, bool versioned, unsigned flags)
{
	DLManagedTensorVersioned *m = NULL;
	DLManagedTensor *old = NULL;
	PyObject *capsule = NULL;
	int r = versioned ? tarn_tensor_to_dlpack(tensor, flags, &m)
			  : tarn_tensor_to_dlpack_unversioned(tensor, &old);

	if (r < 0)
		raise_view_as("__dlpack__", r);
	else if (versioned)
		capsule =
			PyCapsule_New(m, DL_CAPSULE_VERSIONED, drop_versioned);
	else
		capsule = PyCapsule_New(old, DL_CAPSULE, drop_old);
	if (!capsule && m)
		m->deleter(m);
	if (!capsule && old)
		old->deleter(old);
	tarn_tensor_unref(tensor);
	return capsule;
}

PyObject *dlpack_consume(tarn_tensor *tensor)
{
	return hand_over(tensor, false, 0);
}

/* ---- arguments ----------------------------------------------------- */

/* (major, minor) that the caller understands. 1: the versioned form. */
static int wants_versioned(PyObject *max_version)
{
	int64_t major;

	if (!max_version || max_version == Py_None)
		return 0;
	if (!PyTuple_Check(max_version) || PyTuple_Size(max_version) != 2) {
		PyErr_SetString(PyExc_TypeError,
			"__dlpack__: max_version is a pair of numbers");
		return -1;
	}
	if (int_argument(PyTuple_GetItem(max_version, 0), &major) < 0)
		return -1;
	return major >= 1;
}

int check_device(const char *name, PyObject *device)
{
	int64_t type;

	if (!device || device == Py_None)
		return 0;
	if (!PyTuple_Check(device) || PyTuple_Size(device) != 2) {
		PyErr_Format(PyExc_TypeError,
			"%s: a device is a pair of numbers", name);
		return -1;
	}
	if (int_argument(PyTuple_GetItem(device, 0), &type) < 0)
		return -1;
	if (type == kDLCPU)
		return 0;
	PyErr_Format(PyExc_BufferError,
		"%s: a tarn.Tensor is in the CPU's memory, not on a device of "
		"type %lld",
		name, (long long)type);
	return -1;
}

/* None: CPU's memory has no streams. */
static int check_stream(PyObject *stream)
{
	if (!stream || stream == Py_None)
		return 0;
	PyErr_Format(PyExc_RuntimeError,
		"__dlpack__: stream is %R; the tensor is in the CPU's memory, "
		"where only None means anything",
		stream);
	return -1;
}

enum copy { COPY_NEVER, COPY_IF_NEEDED, COPY_ALWAYS };

static int copy_argument(PyObject *object, enum copy *ret)
{
	int r;

	*ret = COPY_IF_NEEDED;
	if (!object || object == Py_None)
		return 0;
	r = PyObject_IsTrue(object);
	*ret = r > 0 ? COPY_ALWAYS : COPY_NEVER;
	return r < 0 ? -1 : 0;
}

struct request {
	bool versioned;
	enum copy copy;
};

static PyObject *refuse(const char *why)
{
	return PyErr_Format(PyExc_BufferError, "__dlpack__: %s", why);
}

static PyObject *give_copy(PyObject *self, bool versioned)
{
	tarn_tensor *made = copy_as(tensor_of(self), layout_of(self)->dtype);

	return made ? hand_over(made, versioned, TARN_DLPACK_COPIED) : NULL;
}

/* The old form has no flag "read-only", and its consumer may write: it gets a
 * private copy-on-write tensor. */
static PyObject *give_private(PyObject *self)
{
	tarn_tensor *made;
	int r;

	Py_BEGIN_ALLOW_THREADS
	r = tarn_tensor_cow(tensor_of(self), &made);
	Py_END_ALLOW_THREADS
	return r < 0 ? raise_system(r) : hand_over(made, false, 0);
}

static PyObject *give_readonly(PyObject *self, const struct request *request)
{
	void *guard; /* made here, without the GIL */
	int r;

	if (!request->versioned && request->copy == COPY_NEVER)
		return refuse("it is read-only, which this form of DLPack "
			      "cannot say; use copy=True, .clone() or "
			      "max_version=(1, 0)");
	if (!request->versioned)
		return give_private(self);
	r = tensor_guard(self, &guard);
	if (r < 0)
		return NULL;
	if (r > 0 && request->copy == COPY_NEVER)
		return refuse("it is read-only memory of which there is no "
			      "copy-on-write; use .numpy(), copy=True or "
			      ".clone()");
	if (r > 0)
		return give_copy(self, true);
	return hand_over(
		tarn_tensor_ref(tensor_of(self)), true, TARN_DLPACK_GUARD);
}

static PyObject *give(PyObject *self, const struct request *request)
{
	tarn_storage *storage = tarn_tensor_storage(tensor_of(self));

	if (request->copy == COPY_ALWAYS)
		return give_copy(self, request->versioned);
	if (!tarn_storage_data(storage) && request->copy == COPY_NEVER)
		return refuse("it is in a file and has no address; use "
			      ".clone()");
	if (!tarn_storage_data(storage))
		return give_copy(self, request->versioned);
	if (!tarn_storage_writable(storage))
		return give_readonly(self, request);
	return hand_over(
		tarn_tensor_ref(tensor_of(self)), request->versioned, 0);
}

static PyObject *dlpack(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {
		"stream", "max_version", "dl_device", "copy", NULL};
	int versioned;
	struct request request;
	PyObject *given[4];

	if (n_args > 0) {
		PyErr_SetString(PyExc_TypeError,
			"__dlpack__() takes its arguments by name");
		return NULL;
	}
	if (named_arguments(
		    "__dlpack__", names, 0, args, n_args, keywords, given) < 0)
		return NULL;
	versioned = wants_versioned(given[1]);
	if (versioned < 0 || check_stream(given[0]) < 0 ||
		check_device("__dlpack__", given[2]) < 0 ||
		copy_argument(given[3], &request.copy) < 0)
		return NULL;
	request.versioned = versioned;
	/* DLPack has 6-bit elements, and no library that takes them. */
	if (tarn_dtype_bits(layout_of(self)->dtype) == 6)
		return refuse("elements are smaller than bytes; use "
			      ".bitcast(\"U8\") or .to(\"F32\")");
	return give(self, &request);
}

static PyObject *dlpack_device(PyObject *self, PyObject *none)
{
	return Py_BuildValue("(ii)", kDLCPU, 0);
}

PyMethodDef dlpack_methods[] = {
	{"__dlpack__", EXPORT(dlpack), FAST_KEYWORDS,
		"__dlpack__($self, /, *, stream=None, max_version=None, "
		"dl_device=None, copy=None)\n--\n\n"
		"The tensor for another array library, by DLPack. What is "
		"read-only\n"
		"says so, and is copy-on-write for those who write to it all "
		"the\n"
		"same; without a max_version, which cannot say it, it is "
		"cow().\n"
		"copy=None copies what is in a file."},
	{"__dlpack_device__", dlpack_device, METH_NOARGS,
		"__dlpack_device__($self, /)\n--\n\n"
		"Where the bytes are: (1, 0), the CPU."},
	{0},
};
