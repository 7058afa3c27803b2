// SPDX-License-Identifier: MIT
/*
 * Tensors out, by DLPack (lib/dlpack/to_dlpack.c). What is handed over owns a
 * reference to the tarn_tensor, not to Python's object, so that its deleter
 * needs no GIL.
 *
 * PyTorch writes to tensors that it gets, even if the flag says "read-only",
 * and the old form of the protocol has no such flag. So no read-only memory of
 * the host is exported: read-only tensors are exported copy-on-write. A device
 * has nothing of the kind: there the flag must do, and without it a copy.
 */
#include "python/dlpack.h"
#include "python/module.h"

enum copy { COPY_NEVER, COPY_IF_NEEDED, COPY_ALWAYS };

struct request {
	bool versioned;
	enum copy copy;
	DLDevice device; /* the consumer's wish, or the tensor's */
	struct place place;
	int64_t stream;
};

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
static PyObject *hand_over(
	tarn_tensor *tensor, const struct request *request, unsigned flags)
{
	DLManagedTensorVersioned *m = NULL;
	DLManagedTensor *old = NULL;
	PyObject *capsule = NULL;
	int r;

	/* The memory of a device may be mapped only now. */
	Py_BEGIN_ALLOW_THREADS
	r = request->versioned
		    ? tarn_tensor_to_dlpack(tensor, flags, &m)
		    : tarn_tensor_to_dlpack_unversioned(tensor, &old);
	Py_END_ALLOW_THREADS
	if (r < 0)
		raise_view_as("__dlpack__", r);
	else if (request->versioned)
		capsule =
			PyCapsule_New(m, DL_CAPSULE_VERSIONED, drop_versioned);
	else
		capsule = PyCapsule_New(old, DL_CAPSULE, drop_old);
	if (request->device.device_type == kDLCUDAHost && m)
		m->dl_tensor.device = request->device;
	if (request->device.device_type == kDLCUDAHost && old)
		old->dl_tensor.device = request->device;
	if (!capsule && m)
		m->deleter(m);
	if (!capsule && old)
		old->deleter(old);
	tarn_tensor_unref(tensor);
	return capsule;
}

PyObject *dlpack_consume(tarn_tensor *tensor)
{
	const struct request request = {.device = {kDLCPU, 0}};

	return hand_over(tensor, &request, 0);
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

static PyObject *refuse(const char *why)
{
	return PyErr_Format(PyExc_BufferError, "__dlpack__: %s", why);
}

static PyObject *give_copy(PyObject *self, const struct request *request)
{
	tarn_tensor *made = copy_to(
		tensor_of(self), &request->place, layout_of(self)->dtype, NULL);

	return made ? hand_over(made, request, TARN_DLPACK_COPIED) : NULL;
}

/* The old form has no flag "read-only", and its consumer may write: it gets a
 * private copy-on-write tensor. */
static PyObject *give_private(PyObject *self, const struct request *request)
{
	tarn_tensor *made;
	int r;

	Py_BEGIN_ALLOW_THREADS
	r = tarn_tensor_cow(tensor_of(self), &made);
	Py_END_ALLOW_THREADS
	return r < 0 ? raise_system(r) : hand_over(made, request, 0);
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
		return give_private(self, request);
	r = tensor_guard(self, &guard);
	if (r < 0)
		return NULL;
	if (r > 0 && request->copy == COPY_NEVER)
		return refuse("it is read-only memory of which there is no "
			      "copy-on-write; use .numpy(), copy=True or "
			      ".clone()");
	if (r > 0)
		return give_copy(self, request);
	return hand_over(
		tarn_tensor_ref(tensor_of(self)), request, TARN_DLPACK_GUARD);
}

static PyObject *give_host(PyObject *self, const struct request *request)
{
	tarn_storage *storage = tarn_tensor_storage(tensor_of(self));

	if (!tarn_storage_data(storage) && request->copy == COPY_NEVER)
		return refuse("it is in a file and has no address; use "
			      ".clone()");
	if (!tarn_storage_data(storage))
		return give_copy(self, request);
	if (!tarn_storage_writable(storage))
		return give_readonly(self, request);
	return hand_over(tarn_tensor_ref(tensor_of(self)), request, 0);
}

/* ---- on devices ---------------------------------------------------- */

/* The device has no copy-on-write: what is read-only is given as it is to a
 * consumer that learns of it, and else copied. */
static PyObject *give_on_device(PyObject *self, const struct request *request)
{
	bool readonly =
		!tarn_storage_writable(tarn_tensor_storage(tensor_of(self)));

	if (readonly && !request->versioned && request->copy == COPY_NEVER)
		return refuse("it is read-only, which this form of DLPack "
			      "cannot say; use copy=True or "
			      "max_version=(1, 0)");
	if (readonly && !request->versioned)
		return give_copy(self, request);
	if (dl_settle(tensor_of(self), request->stream) < 0)
		return NULL;
	return hand_over(tarn_tensor_ref(tensor_of(self)), request, 0);
}

/* Memory of the host that devices read in place: it is registered. Not its
 * copy-on-write form, which is other memory. */
static PyObject *give_pinned(PyObject *self, const struct request *request)
{
	bool readonly =
		!tarn_storage_writable(tarn_tensor_storage(tensor_of(self)));
	struct place device;
	uint64_t at;
	int r;

	if (readonly && !request->versioned)
		return refuse("it is read-only, which this form of DLPack "
			      "cannot say; use max_version=(1, 0)");
	if (place_of_dl_device("__dlpack__",
		    &(DLDevice) {kDLCUDA, request->device.device_id},
		    &device) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_tensor_device_pointer(tensor_of(self), &device.device, &at);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return refuse(tarn_error_message());
	return hand_over(tarn_tensor_ref(tensor_of(self)), request, 0);
}

static PyObject *give(PyObject *self, const struct request *request)
{
	struct place own = place_of(tensor_of(self));
	bool elsewhere = !same_place(&own, &request->place);
	bool pinned = request->device.device_type == kDLCUDAHost;

	if (pinned && (own.on_device || request->copy == COPY_ALWAYS))
		return refuse("a copy is not in registered memory; publish "
			      "the tensor in the memory of the host first");
	if (elsewhere && request->copy == COPY_NEVER)
		return refuse("it would have to be copied to that device");
	if (elsewhere || request->copy == COPY_ALWAYS)
		return give_copy(self, request);
	if (pinned)
		return give_pinned(self, request);
	return own.on_device ? give_on_device(self, request)
			     : give_host(self, request);
}

static int request_argument(
	PyObject *self, PyObject *const given[4], struct request *ret)
{
	int versioned = wants_versioned(given[1]);

	if (versioned < 0 || dl_device_of(self, &ret->device) < 0 ||
		dl_device_argument("__dlpack__", given[2], &ret->device) < 0 ||
		place_of_dl_device("__dlpack__", &ret->device, &ret->place) <
			0 ||
		copy_argument(given[3], &ret->copy) < 0)
		return -1;
	ret->versioned = versioned;
	if (ret->device.device_type == kDLCPU &&
		!place_of(tensor_of(self)).on_device)
		return dl_no_stream(given[0]);
	return dl_stream_argument(given[0], &ret->stream);
}

static PyObject *dlpack(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {
		"stream", "max_version", "dl_device", "copy", NULL};
	struct request request = {.stream = -1};
	PyObject *given[4];

	if (n_args > 0) {
		PyErr_SetString(PyExc_TypeError,
			"__dlpack__() takes its arguments by name");
		return NULL;
	}
	if (named_arguments("__dlpack__", names, 0, args, n_args, keywords,
		    given) < 0 ||
		request_argument(self, given, &request) < 0)
		return NULL;
	/* DLPack has 6-bit elements, and no library that takes them. */
	if (tarn_dtype_bits(layout_of(self)->dtype) == 6)
		return refuse("elements are smaller than bytes; use "
			      ".bitcast(\"U8\") or .to(\"F32\")");
	return give(self, &request);
}

static PyObject *dlpack_device(PyObject *self, PyObject *none)
{
	DLDevice device;

	if (dl_device_of(self, &device) < 0)
		return NULL;
	return Py_BuildValue(
		"(ii)", (int)device.device_type, (int)device.device_id);
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
		"copy=None copies what is in a file, and what goes to another "
		"device:\n"
		"dl_device is (1, 0), the CPU, (2, N), a GPU, or (3, 0), memory "
		"of a\n"
		"store's that is registered with the GPU of that index. On a "
		"GPU the\n"
		"bytes are there when it returns, whatever the stream; what is "
		"read-\n"
		"only is not copy-on-write there."},
	{"__dlpack_device__", dlpack_device, METH_NOARGS,
		"__dlpack_device__($self, /)\n--\n\n"
		"Where the bytes are: (1, 0), the CPU; (2, N), the GPU of index "
		"N."},
	{0},
};
