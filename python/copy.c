// SPDX-License-Identifier: MIT
/*
 * Copies: tarn_copy, without the GIL. A long one looks for signals now and
 * then, so that Ctrl-C ends it.
 */
#include "python/module.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

/* Shorter ones are over before a user could press a key. */
#define INTERRUPTIBLE (64 << 20)

static int copy_as_said(tarn_tensor *dst, const tarn_tensor *src,
	struct tarn_copy_options *options)
{
	struct progress_call progress = {0};
	int r;

	if (tarn_layout_nbytes(tarn_tensor_layout(dst)) >= INTERRUPTIBLE) {
		options->progress = progress_step;
		options->arg = &progress;
	}
	progress.state = PyEval_SaveThread();
	r = tarn_copy(dst, src, options, NULL);
	r = progress_end(&progress, r);
	if (r >= 0)
		return 0;
	raise_view(r);
	return -1;
}

int copy_tensor_after(tarn_tensor *dst, const tarn_tensor *src, void *stream)
{
	struct tarn_copy_options options = {.cuda_stream = stream};

	return copy_as_said(dst, src, &options);
}

int copy_tensor(tarn_tensor *dst, const tarn_tensor *src)
{
	return copy_tensor_after(dst, src, NULL);
}

int new_tensor(int dtype, int ndim, const int64_t *shape, tarn_tensor **ret)
{
	tarn_storage *storage;
	struct tarn_layout layout;
	int r = tarn_layout_contiguous(dtype, ndim, shape, &layout);

	if (r >= 0)
		r = tarn_storage_alloc(
			(uint64_t)tarn_layout_nbytes(&layout), &storage);
	if (r < 0)
		return r;
	r = tarn_tensor_new(storage, 0, &layout, ret);
	tarn_storage_unref(storage);
	return r;
}

tarn_tensor *copy_as(const tarn_tensor *tensor, int dtype)
{
	const struct tarn_layout *l = tarn_tensor_layout(tensor);
	tarn_tensor *copy;
	int r = new_tensor(dtype, l->ndim, l->shape, &copy);

	if (r < 0) {
		raise_view_as("copy", r);
		return NULL;
	}
	if (copy_tensor(copy, tensor) < 0)
		return tarn_tensor_unref(copy);
	return copy;
}

/* Both count from the same byte, or that is unknown: they may overlap. */
static bool may_meet(tarn_tensor *a, tarn_tensor *b)
{
	if (!tarn_tensor_same_storage(a, b))
		return false;
	if (tarn_tensor_base(a) != tarn_tensor_base(b))
		return true;
	return tarn_layout_overlaps(
		tarn_tensor_layout(a), tarn_tensor_layout(b));
}

int copy_tensor_safely(tarn_tensor *dst, tarn_tensor *src)
{
	tarn_tensor *copy;
	int r;

	if (!may_meet(dst, src))
		return copy_tensor(dst, src);
	copy = copy_as(src, tarn_tensor_layout(src)->dtype);
	if (!copy)
		return -1;
	r = copy_tensor(dst, copy);
	tarn_tensor_unref(copy);
	return r;
}

/* ---- methods ------------------------------------------------------- */

static PyObject *clone_tensor(PyObject *self, PyObject *none)
{
	tarn_tensor *copy = copy_as(tensor_of(self), layout_of(self)->dtype);

	return copy ? tensor_wrap_consume(copy) : NULL;
}

static PyObject *contiguous(PyObject *self, PyObject *none)
{
	if (!tarn_layout_is_contiguous(layout_of(self)))
		return clone_tensor(self, NULL);
	Py_INCREF(self);
	return self;
}

static PyObject *cow(PyObject *self, PyObject *const *args, Py_ssize_t n_args,
	PyObject *keywords)
{
	static const char *const names[] = {"own", NULL};
	PyObject *given[1];
	tarn_tensor *made;
	int r, own;

	if (named_arguments("cow", names, 0, args, n_args, keywords, given) < 0)
		return NULL;
	own = given[0] ? PyObject_IsTrue(given[0]) : 0;
	if (own < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = own ? tarn_tensor_private(tensor_of(self), &made)
		: tarn_tensor_cow(tensor_of(self), &made);
	Py_END_ALLOW_THREADS
	return r < 0 ? raise_system(r) : tensor_wrap_consume(made);
}

static PyObject *to_dtype(PyObject *self, PyObject *object)
{
	int dtype = dtype_argument(object);
	tarn_tensor *copy;

	if (!dtype)
		return NULL;
	if (dtype == layout_of(self)->dtype) {
		Py_INCREF(self);
		return self;
	}
	copy = copy_as(tensor_of(self), dtype);
	return copy ? tensor_wrap_consume(copy) : NULL;
}

static PyObject *astype(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"dtype", "copy", NULL};
	PyObject *given[2];
	tarn_tensor *made;
	int always, dtype;

	if (named_arguments("astype", names, 1, args, n_args, keywords, given) <
		0)
		return NULL;
	always = given[1] ? PyObject_IsTrue(given[1]) : 1;
	if (always < 0)
		return NULL;
	if (!always)
		return to_dtype(self, given[0]);
	dtype = dtype_argument(given[0]);
	made = dtype ? copy_as(tensor_of(self), dtype) : NULL;
	return made ? tensor_wrap_consume(made) : NULL;
}

static PyObject *copy_from(PyObject *self, PyObject *object)
{
	PyObject *source = tensor_source(object, layout_of(self)->dtype);
	int r;

	if (!source)
		return NULL;
	r = copy_tensor_safely(tensor_of(self), tensor_of(source));
	Py_DECREF(source);
	if (r < 0)
		return NULL;
	Py_INCREF(self);
	return self;
}

PyMethodDef copy_methods[] = {
	{"clone", clone_tensor, METH_NOARGS,
		"clone($self, /)\n--\n\n"
		"The same values in new memory of the host, in C order, also of "
		"a\ntensor on a GPU, which stays there by .to(t.device, ...) "
		"alone."},
	{"contiguous", contiguous, METH_NOARGS,
		"contiguous($self, /)\n--\n\n"
		"Itself if it is in C order, else a clone, in memory of the "
		"host."},
	{"cow", EXPORT(cow), FAST_KEYWORDS,
		"cow($self, /, own=False)\n--\n\n"
		"A writable tensor over the same bytes, copy-on-write: what is"
		"\nwritten is seen by no other process, and costs the pages that "
		"are\nwritten. All tensors of one storage share what is "
		"written, as\nlong as one made so lives; it is itself if it is "
		"writable. With\nown=True it shares with its own views alone."},
	{"copy", clone_tensor, METH_NOARGS,
		"copy($self, /)\n--\n\n"
		"clone(), as numpy calls it."},
	{"astype", EXPORT(astype), FAST_KEYWORDS,
		"astype($self, /, dtype, copy=True)\n--\n\n"
		"The same values as another dtype, copied, as numpy has it. "
		"With\ncopy=False it is itself if it has that dtype already."},
	{"copy_", copy_from, METH_O,
		"copy_($self, source, /)\n--\n\n"
		"Fills this tensor with the source's values, repeated where "
		"it\n"
		"is smaller and converted where its dtype differs; the source\n"
		"is a Tensor, an array or nested lists. Returns itself."},
	{0},
};

/* ---- functions ----------------------------------------------------- */

static PyObject *equal(
	PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
	int r;

	if (n_args != 2 || !is_tensor(args[0]) || !is_tensor(args[1])) {
		PyErr_SetString(PyExc_TypeError, "equal() takes two tensors");
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS
	r = tarn_tensor_equal(tensor_of(args[0]), tensor_of(args[1]));
	Py_END_ALLOW_THREADS
	return r < 0 ? raise_view(r) : PyBool_FromLong(r);
}

/* To memory that nobody reads soon, as that of a save in the background. */
static PyObject *copy_past(
	PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
	struct tarn_copy_options options = {.past_cache = 1};

	(void)module;
	if (n_args != 2 || !is_tensor(args[0]) || !is_tensor(args[1])) {
		PyErr_SetString(
			PyExc_TypeError, "_copy_past() takes two tensors");
		return NULL;
	}
	if (copy_as_said(tensor_of(args[0]), tensor_of(args[1]), &options) < 0)
		return NULL;
	Py_INCREF(args[0]);
	return args[0];
}

/* Whole pages of private memory. The kernel takes none that are locked. */
static PyObject *spare(PyObject *module, PyObject *object)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const tarn_tensor *t;
	uintptr_t begin, end;
	int r = 0;

	(void)module;
	if (!is_tensor(object)) {
		PyErr_SetString(PyExc_TypeError, "_spare() takes a tensor");
		return NULL;
	}
	t = tensor_of(object);
	if (tarn_storage_kind(tarn_tensor_storage(t)) != TARN_STORAGE_OWNED ||
		!tarn_layout_is_contiguous(tarn_tensor_layout(t)))
		Py_RETURN_FALSE;
	begin = (uintptr_t)tarn_tensor_data(t);
	end = (begin + (uintptr_t)tarn_layout_nbytes(tarn_tensor_layout(t))) &
	      ~(page - 1);
	begin = (begin + page - 1) & ~(page - 1);
	Py_BEGIN_ALLOW_THREADS
	if (begin < end)
		r = madvise((void *)begin, end - begin, MADV_FREE);
	Py_END_ALLOW_THREADS
	return PyBool_FromLong(r == 0);
}

static PyObject *same_storage(
	PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
	if (n_args != 2 || !is_tensor(args[0]) || !is_tensor(args[1])) {
		PyErr_SetString(
			PyExc_TypeError, "same_storage() takes two tensors");
		return NULL;
	}
	return PyBool_FromLong(tarn_tensor_same_storage(
		tensor_of(args[0]), tensor_of(args[1])));
}

PyMethodDef copy_functions[] = {
	{"equal", EXPORT(equal), FAST,
		"equal(a, b, /)\n--\n\n"
		"Do dtype, shape and all values agree? NaN equals nothing."},
	{"_copy_past", EXPORT(copy_past), FAST,
		"_copy_past(dst, src, /)\n--\n\n"
		"dst.copy_(src) past the processor's cache, for a dst that is "
		"not read soon\nand does not overlap src. Returns dst."},
	{"_spare", EXPORT(spare), METH_O,
		"_spare(t, /)\n--\n\nThe kernel may have the pages of its "
		"bytes, of which nothing is to be\nread until they are written "
		"again: memory that tarn has allocated. False: it\nwill not "
		"have them, as those of a process that locks its memory."},
	{"same_storage", EXPORT(same_storage), FAST,
		"same_storage(a, b, /)\n--\n\nAre both views of one storage?"},
	{0},
};
