// SPDX-License-Identifier: MIT
/*
 * Tensors out, by DLPack. What is handed over owns a reference to the
 * tarn_tensor, not to Python's object, so that whoever drops it needs no GIL.
 * The old form of the protocol cannot say "read-only": in it only what may be
 * written is handed over.
 */
#include "python/dlpack.h"
#include "python/module.h"

#include <stdlib.h>

const struct dl_type dl_types[TARN_DTYPE_MAX + 1] = {
	[TARN_BOOL] = {DL_BOOL, 8, 1},
	[TARN_U8] = {DL_UINT, 8, 1},
	[TARN_I8] = {DL_INT, 8, 1},
	[TARN_F8_E5M2] = {DL_F8_E5M2, 8, 1},
	[TARN_F8_E4M3] = {DL_F8_E4M3FN, 8, 1},
	[TARN_F8_E8M0] = {DL_F8_E8M0FNU, 8, 1},
	[TARN_F8_E4M3FNUZ] = {DL_F8_E4M3FNUZ, 8, 1},
	[TARN_F8_E5M2FNUZ] = {DL_F8_E5M2FNUZ, 8, 1},
	[TARN_I16] = {DL_INT, 16, 1},
	[TARN_U16] = {DL_UINT, 16, 1},
	[TARN_F16] = {DL_FLOAT, 16, 1},
	[TARN_BF16] = {DL_BFLOAT, 16, 1},
	[TARN_I32] = {DL_INT, 32, 1},
	[TARN_U32] = {DL_UINT, 32, 1},
	[TARN_F32] = {DL_FLOAT, 32, 1},
	[TARN_C64] = {DL_COMPLEX, 64, 1},
	[TARN_F64] = {DL_FLOAT, 64, 1},
	[TARN_I64] = {DL_INT, 64, 1},
	[TARN_U64] = {DL_UINT, 64, 1},
};

/* What is handed over, in either form, with the numbers it points to. */
struct handover {
	union {
		struct dl_managed old;
		struct dl_managed_versioned versioned;
	};
	tarn_tensor *tensor;
	int64_t shape[TARN_MAX_NDIM];
	int64_t strides[TARN_MAX_NDIM];
};

static void free_handover(struct handover *h)
{
	tarn_tensor_unref(h->tensor);
	free(h);
}

static void delete_old(struct dl_managed *self)
{
	free_handover(self->context);
}

static void delete_versioned(struct dl_managed_versioned *self)
{
	free_handover(self->context);
}

/* Of a capsule that nobody took anything out of; who does renames it. */
static void drop_old(PyObject *capsule)
{
	struct dl_managed *m;

	if (!PyCapsule_IsValid(capsule, DL_CAPSULE))
		return;
	m = PyCapsule_GetPointer(capsule, DL_CAPSULE);
	m->deleter(m);
}

static void drop_versioned(PyObject *capsule)
{
	struct dl_managed_versioned *m;

	if (!PyCapsule_IsValid(capsule, DL_CAPSULE_VERSIONED))
		return;
	m = PyCapsule_GetPointer(capsule, DL_CAPSULE_VERSIONED);
	m->deleter(m);
}

static void fill_tensor(struct handover *h, struct dl_tensor *dl)
{
	const struct tarn_layout *l = tarn_tensor_layout(h->tensor);

	for (int i = 0; i < l->ndim; i++) {
		h->shape[i] = l->shape[i];
		h->strides[i] = l->stride[i];
	}
	*dl = (struct dl_tensor) {
		.data = tarn_tensor_data(h->tensor),
		.device = {DL_CPU, 0},
		.ndim = l->ndim,
		.dtype = dl_types[l->dtype],
		.shape = h->shape,
		.strides = h->strides,
	};
}

static PyObject *hand_over_old(struct handover *h)
{
	fill_tensor(h, &h->old.tensor);
	h->old.context = h;
	h->old.deleter = delete_old;
	return PyCapsule_New(&h->old, DL_CAPSULE, drop_old);
}

static PyObject *hand_over_versioned(struct handover *h, uint64_t flags)
{
	fill_tensor(h, &h->versioned.tensor);
	h->versioned.major = DL_MAJOR;
	h->versioned.minor = DL_MINOR;
	h->versioned.context = h;
	h->versioned.deleter = delete_versioned;
	h->versioned.flags = flags;
	return PyCapsule_New(
		&h->versioned, DL_CAPSULE_VERSIONED, drop_versioned);
}

/* Takes the tensor over. */
static PyObject *hand_over(tarn_tensor *tensor, bool versioned, uint64_t flags)
{
	struct handover *h = calloc(1, sizeof(*h));
	PyObject *capsule;

	if (!h) {
		tarn_tensor_unref(tensor);
		return PyErr_NoMemory();
	}
	h->tensor = tensor;
	capsule = versioned ? hand_over_versioned(h, flags) : hand_over_old(h);
	if (!capsule)
		free_handover(h);
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

/* None, or (DL_CPU, 0). */
static int check_device(PyObject *device)
{
	int64_t type;

	if (!device || device == Py_None)
		return 0;
	if (!PyTuple_Check(device) || PyTuple_Size(device) != 2) {
		PyErr_SetString(PyExc_TypeError,
			"__dlpack__: dl_device is a pair of numbers");
		return -1;
	}
	if (int_argument(PyTuple_GetItem(device, 0), &type) < 0)
		return -1;
	if (type == DL_CPU)
		return 0;
	PyErr_Format(PyExc_BufferError,
		"__dlpack__: the tensor is in the CPU's memory, not on a "
		"device of type %lld",
		(long long)type);
	return -1;
}

static const char *refuse(
	PyObject *self, bool copy, bool versioned, bool readonly)
{
	const struct tarn_layout *l = layout_of(self);

	if (dl_types[l->dtype].bits == 0)
		return "elements are smaller than bytes; use .bitcast(\"U8\") "
		       "or .to(\"F32\")";
	if (copy)
		return NULL;
	if (!tarn_storage_data(tarn_tensor_storage(tensor_of(self))))
		return "it is in a file and has no address; use .clone()";
	if (readonly && !versioned)
		return "it is read-only, which this form of DLPack cannot say; "
		       "use .clone(), copy=True or max_version=(1, 0)";
	return NULL;
}

static PyObject *dlpack(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {
		"stream", "max_version", "dl_device", "copy", NULL};
	bool readonly, copy;
	PyObject *given[4];
	tarn_tensor *made;
	const char *why;
	int versioned;

	if (named_arguments(
		    "__dlpack__", names, 0, args, n_args, keywords, given) < 0)
		return NULL;
	versioned = wants_versioned(given[1]);
	if (versioned < 0 || check_device(given[2]) < 0 ||
		optional_flag(given[3], &copy) < 0)
		return NULL;
	readonly = !tarn_storage_writable(tarn_tensor_storage(tensor_of(self)));
	why = refuse(self, copy, versioned, readonly);
	if (why) {
		PyErr_Format(PyExc_BufferError, "__dlpack__: %s", why);
		return NULL;
	}
	if (copy) {
		made = copy_as(tensor_of(self), layout_of(self)->dtype);
		return made ? hand_over(made, versioned, DL_IS_COPIED) : NULL;
	}
	return hand_over(tarn_tensor_ref(tensor_of(self)), versioned,
		readonly ? DL_READ_ONLY : 0);
}

static PyObject *dlpack_device(PyObject *self, PyObject *none)
{
	return Py_BuildValue("(ii)", DL_CPU, 0);
}

PyMethodDef dlpack_methods[] = {
	{"__dlpack__", EXPORT(dlpack), FAST_KEYWORDS,
		"__dlpack__($self, /, *, stream=None, max_version=None, "
		"dl_device=None, copy=None)\n--\n\n"
		"The tensor for another array library, by DLPack."},
	{"__dlpack_device__", dlpack_device, METH_NOARGS,
		"__dlpack_device__($self, /)\n--\n\n"
		"Where the bytes are: (1, 0), the CPU."},
	{0},
};
