// SPDX-License-Identifier: MIT
/*
 * Tensors on GPUs: where they are, and copies from place to place. Calls that
 * may register memory or wait for a device are made without the GIL.
 */
#include "python/device.h"

#include <stdlib.h>

/* ---- to() ------------------------------------------------------------ */

struct target {
	struct place place;
	int dtype;
	void *stream;
};

/* to(device), to(dtype), to(device, dtype); the same by names. */
static int sort_arguments(PyObject *const *args, Py_ssize_t n_args,
	PyObject *keywords, PyObject *rets[3])
{
	static const char *const names[] = {"device", "dtype", "stream", NULL};
	PyObject *first = n_args > 0 ? args[0] : NULL;
	bool place = first && is_place(first);

	if (n_args > 2 || (n_args == 2 && !place && first != Py_None)) {
		PyErr_SetString(PyExc_TypeError,
			"to() takes a device, a dtype, or a device and a "
			"dtype");
		return -1;
	}
	if (named_arguments("to", names, 0, args + n_args, 0, keywords, rets) <
		0)
		return -1;
	/* named_arguments reads the values behind the n_args positional ones,
	 * of which it was told there are none. */
	for (Py_ssize_t i = 0; i < n_args; i++) {
		PyObject **ret = &rets[i == 1 || (!place && n_args == 1)];

		if (*ret) {
			PyErr_SetString(PyExc_TypeError,
				"to() got an argument by position and by name");
			return -1;
		}
		*ret = args[i];
	}
	if (rets[0] || rets[1])
		return 0;
	PyErr_SetString(PyExc_TypeError, "to() misses a device or a dtype");
	return -1;
}

static int target_argument(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords, struct target *ret)
{
	PyObject *given[3];

	if (sort_arguments(args, n_args, keywords, given) < 0)
		return -1;
	ret->place = place_of(tensor_of(self));
	ret->dtype = layout_of(self)->dtype;
	if (given[0] && given[0] != Py_None &&
		place_argument("to", given[0], &ret->place) < 0)
		return -1;
	if (given[1] && given[1] != Py_None) {
		ret->dtype = dtype_argument(given[1]);
		if (!ret->dtype)
			return -1;
	}
	return stream_argument(given[2], &ret->stream);
}

static PyObject *move(PyObject *self, const struct target *target)
{
	struct place own = place_of(tensor_of(self));
	tarn_tensor *copy;

	if (same_place(&own, &target->place) &&
		target->dtype == layout_of(self)->dtype) {
		Py_INCREF(self);
		return self;
	}
	copy = copy_to(
		tensor_of(self), &target->place, target->dtype, target->stream);
	return copy ? tensor_wrap_consume(copy) : NULL;
}

static PyObject *to(PyObject *self, PyObject *const *args, Py_ssize_t n_args,
	PyObject *keywords)
{
	struct target target;

	if (target_argument(self, args, n_args, keywords, &target) < 0)
		return NULL;
	return move(self, &target);
}

static PyObject *cpu(PyObject *self, PyObject *const *args, Py_ssize_t n_args,
	PyObject *keywords)
{
	static const char *const names[] = {"stream", NULL};
	struct target target = {.dtype = layout_of(self)->dtype};
	PyObject *given[1];

	if (n_args > 0) {
		PyErr_SetString(
			PyExc_TypeError, "cpu() takes its stream by name");
		return NULL;
	}
	if (named_arguments("cpu", names, 0, args, 0, keywords, given) < 0 ||
		stream_argument(given[0], &target.stream) < 0)
		return NULL;
	return move(self, &target);
}

static PyObject *cuda(PyObject *self, PyObject *const *args, Py_ssize_t n_args,
	PyObject *keywords)
{
	static const char *const names[] = {"index", "stream", NULL};
	struct target target = {.dtype = layout_of(self)->dtype};
	PyObject *given[2], *zero;
	int r;

	if (named_arguments("cuda", names, 0, args, n_args, keywords, given) <
			0 ||
		stream_argument(given[1], &target.stream) < 0)
		return NULL;
	zero = PyLong_FromLong(0);
	r = zero ? place_argument("cuda",
			   given[0] && given[0] != Py_None ? given[0] : zero,
			   &target.place)
		 : -1;
	Py_XDECREF(zero);
	return r < 0 ? NULL : move(self, &target);
}

/* ---- device_pointer() ------------------------------------------------ */

static PyObject *device_pointer(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"device", NULL};
	struct place place;
	PyObject *given[1], *zero = PyLong_FromLong(0);
	uint64_t at = 0;
	int r = -1;

	if (zero && named_arguments("device_pointer", names, 0, args, n_args,
			    keywords, given) >= 0)
		r = place_argument(
			"device_pointer", given[0] ? given[0] : zero, &place);
	Py_XDECREF(zero);
	if (r < 0)
		return NULL;
	if (!place.on_device) {
		PyErr_SetString(PyExc_ValueError,
			"device_pointer: \"cpu\" is no device of CUDA; "
			".numpy() and .torch() have the address there");
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS
	r = tarn_tensor_device_pointer(tensor_of(self), &place.device, &at);
	Py_END_ALLOW_THREADS
	return r < 0 ? raise_system(r) : PyLong_FromUnsignedLongLong(at);
}

/* ---- whole files ----------------------------------------------------- */

/* Takes all tensors over. */
static PyObject *tensors_dict(
	const tarn_file *file, tarn_tensor **tensors, size_t n)
{
	PyObject *dict = PyDict_New();

	for (size_t i = 0; i < n; i++) {
		const struct tarn_file_entry *e = tarn_file_at(file, i);
		PyObject *tensor = tensor_wrap_consume(tensors[i]);
		PyObject *name = PyUnicode_FromStringAndSize(
			e->name, (Py_ssize_t)e->name_size);

		if (dict && (!tensor || !name ||
				    PyDict_SetItem(dict, name, tensor) < 0)) {
			Py_DECREF(dict);
			dict = NULL;
		}
		Py_XDECREF(name);
		Py_XDECREF(tensor);
	}
	return dict;
}

static PyObject *load_to(
	PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
	struct progress_call progress = {0};
	struct tarn_copy_options options = {
		.progress = progress_step,
		.arg = &progress,
	};
	tarn_tensor **tensors;
	struct place place;
	PyObject *dict;
	size_t n;
	int r;

	if (n_args != 3 || !PyObject_TypeCheck(args[0], file_type)) {
		PyErr_SetString(PyExc_TypeError,
			"_load_to: a File, a device, and progress or None");
		return NULL;
	}
	if (place_argument("load", args[1], &place) < 0 ||
		optional_callable(args[2], &progress.call) < 0)
		return NULL;
	if (!place.on_device) {
		PyErr_SetString(
			PyExc_ValueError, "load: \"cpu\" is no device of CUDA");
		return NULL;
	}
	n = tarn_file_count(file_of(args[0]));
	tensors = calloc(n + 1, sizeof(tarn_tensor *));
	if (!tensors)
		return PyErr_NoMemory();
	progress.state = PyEval_SaveThread();
	r = tarn_cuda_load(
		file_of(args[0]), &place.device, &options, NULL, tensors);
	r = progress_end(&progress, r);
	/* After a failure of the caller's progress they are there. */
	for (size_t i = 0; r < 0 && i < n; i++)
		tarn_tensor_unref(tensors[i]);
	dict = r < 0 ? raise_system(r)
		     : tensors_dict(file_of(args[0]), tensors, n);
	free(tensors);
	return dict;
}

static PyObject *is_host(PyObject *module, PyObject *object)
{
	struct place place;

	if (place_argument("device", object, &place) < 0)
		return NULL;
	return PyBool_FromLong(!place.on_device);
}

PyMethodDef device_functions[] = {
	{"_load_to", EXPORT(load_to), FAST,
		"All tensors of a File on a device, a dict by name."},
	{"_is_host", is_host, METH_O,
		"Does the name of a device mean the memory of the host?"},
	{0},
};

PyMethodDef device_methods[] = {
	{"to", EXPORT(to), FAST_KEYWORDS,
		"to($self, device=None, dtype=None, *, stream=None)\n--\n\n"
		"The same values elsewhere, as another dtype, or both; itself "
		"if it\nis that. device is \"cpu\", \"cuda:1\" (\"cuda\" is "
		"\"cuda:0\"), an index,\na PCI address, a UUID, or a "
		"torch.device; a dtype may be the only\nargument. The copy "
		"begins after the work that is in stream by now: a\nhandle, a "
		"torch.cuda.Stream, or what has __cuda_stream__; without one\n"
		"the legacy default stream, which is PyTorch's. It is done "
		"when to()\nreturns. OSError: there is no such device; "
		"MemoryError or OSError: it\nhas not so much memory."},
	{"cpu", EXPORT(cpu), FAST_KEYWORDS,
		"cpu($self, /, *, stream=None)\n--\n\n"
		"to(\"cpu\"): itself, or a copy in the memory of the host."},
	{"cuda", EXPORT(cuda), FAST_KEYWORDS,
		"cuda($self, /, index=0, *, stream=None)\n--\n\n"
		"to(\"cuda:INDEX\"): itself, or a copy on that device."},
	{"device_pointer", EXPORT(device_pointer), FAST_KEYWORDS,
		"device_pointer($self, /, device=0)\n--\n\n"
		"The address at which a kernel of a GPU reads the element at "
		"index\n(0, 0, ...), registering the memory if that is needed. "
		"device is an\nindex, \"cuda:0\", a PCI address or a UUID. It "
		"is valid as long as the\ntensor's memory is held. See "
		"tarn-cuda(7)."},
	{0},
};
