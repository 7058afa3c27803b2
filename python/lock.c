// SPDX-License-Identifier: MIT
/*
 * Mutable tensors that processes write together: their locks, which end with
 * the process that holds one, and words of them that are read and written
 * whole. A process that reads a word also sees what was written before it.
 */
#include "python/module.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>

/* ---- locks ---------------------------------------------------------- */

/* Without the GIL. */
static int look_for_signals(void *arg)
{
	PyThreadState **state = arg;
	int r;

	PyEval_RestoreThread(*state);
	r = PyErr_CheckSignals();
	*state = PyEval_SaveThread();
	return r < 0 ? -EINTR : 0;
}

/* In one wait: between two, a writer would let readers in. */
static int lock_until(tarn_tensor *tensor, enum tarn_lock mode, double deadline)
{
	int r;

	do {
		int left = deadline_slice(deadline, INT_MAX);
		PyThreadState *state = PyEval_SaveThread();

		r = tarn_tensor_lock_while(
			tensor, mode, left, look_for_signals, &state);
		PyEval_RestoreThread(state);
	} while (r == -ETIMEDOUT && !deadline_passed(deadline));
	return r;
}

static PyObject *lock(PyObject *self, PyObject *const *args, Py_ssize_t n_args,
	PyObject *keywords)
{
	static const char *const names[] = {"write", "timeout", NULL};
	PyObject *given[2];
	double deadline;
	bool write;
	int r;

	if (named_arguments("lock", names, 0, args, n_args, keywords, given) <
			0 ||
		optional_flag(given[0], &write) < 0 ||
		deadline_argument(given[1], &deadline) < 0)
		return NULL;
	r = lock_until(tensor_of(self),
		write ? TARN_LOCK_WRITE : TARN_LOCK_READ, deadline);
	if (PyErr_Occurred())
		return NULL;
	if (r == -ETIMEDOUT) {
		PyErr_SetString(PyExc_TimeoutError,
			"lock: others had it until the timeout; try again, or "
			"give a longer one");
		return NULL;
	}
	if (r < 0)
		return raise_system(r);
	Py_RETURN_NONE;
}

static PyObject *unlock(PyObject *self, PyObject *none)
{
	int r = tarn_tensor_unlock(tensor_of(self));

	(void)none;
	if (r < 0)
		return raise_system(r);
	Py_RETURN_NONE;
}

PyMethodDef lock_methods[] = {
	{"lock", EXPORT(lock), FAST_KEYWORDS,
		"lock($self, /, write=False, timeout=None)\n--\n\n"
		"Waits until this thread has the lock of a published mutable "
		"tensor:\n"
		"beside other readers, or with write alone. It keeps out only "
		"threads of\n"
		"all processes that ask for it too. It ends with unlock(), "
		"with the last\n"
		"reference to the tensor in this process, and with the "
		"process, however\n"
		"that dies: then the bytes may be half written. timeout is in "
		"seconds:\n"
		"TimeoutError. ValueError: the tensor is not mutable, or not "
		"published.\n"
		"OSError: this thread has it for writing (EDEADLK), or the "
		"tensor may\n"
		"only be read (EROFS)."},
	{"unlock", unlock, METH_NOARGS,
		"unlock($self, /)\n--\n\n"
		"Gives the lock back. OSError: this thread has it not."},
	{0},
};

/* ---- words ---------------------------------------------------------- */

/* The words of a tensor: I64, in a row, in memory. NULL with an exception. */
static _Atomic int64_t *words_of(PyObject *object, int64_t *ret_n)
{
	const struct tarn_layout *l;
	void *at = NULL;

	if (is_tensor(object)) {
		l = layout_of(object);
		if (l->dtype == TARN_I64 && tarn_layout_is_contiguous(l)) {
			at = tarn_tensor_data(tensor_of(object));
			*ret_n = tarn_layout_numel(l);
		}
	}
	if (!at || (uintptr_t)at % sizeof(int64_t) != 0) {
		PyErr_SetString(PyExc_TypeError,
			"words are a contiguous I64 Tensor in memory");
		return NULL;
	}
	return at;
}

static PyObject *read_words(PyObject *module, PyObject *object)
{
	int64_t n;
	const _Atomic int64_t *words = words_of(object, &n);
	PyObject *tuple = words ? PyTuple_New((Py_ssize_t)n) : NULL;

	(void)module;
	/* What was read before is read before the words: pairs with the second
	 * fence of write_word(). */
	atomic_thread_fence(memory_order_seq_cst);
	for (int64_t i = 0; tuple && i < n; i++) {
		/* In their order: pairs with the fences of write_word(). */
		int64_t word =
			atomic_load_explicit(&words[i], memory_order_acquire);
		PyObject *number = PyLong_FromLongLong(word);

		if (number && PyTuple_SetItem(tuple, i, number) == 0)
			continue;
		Py_DECREF(tuple);
		tuple = NULL;
	}
	/* What is read afterwards is read after the words: pairs with the first
	 * fence of write_word(). */
	atomic_thread_fence(memory_order_seq_cst);
	return tuple;
}

static PyObject *write_word(
	PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
	_Atomic int64_t *words;
	int64_t n, i, value;

	(void)module;
	if (n_args != 3) {
		PyErr_SetString(PyExc_TypeError,
			"_write_word takes a tensor, an index and a number");
		return NULL;
	}
	words = words_of(args[0], &n);
	if (!words || int_argument(args[1], &i) < 0 ||
		int_argument(args[2], &value) < 0)
		return NULL;
	if (i < 0 || i >= n ||
		!tarn_storage_writable(
			tarn_tensor_storage(tensor_of(args[0])))) {
		PyErr_SetString(PyExc_ValueError,
			"there is no such word, or it is read-only");
		return NULL;
	}
	/* Others see what was written before no later than the word: pairs with
	 * the acquire load, and the second fence, of read_words(). */
	atomic_thread_fence(memory_order_seq_cst);
	atomic_store_explicit(&words[i], value, memory_order_relaxed);
	/* What is written afterwards they see no earlier: pairs with the first
	 * fence of read_words(). */
	atomic_thread_fence(memory_order_seq_cst);
	Py_RETURN_NONE;
}

PyMethodDef lock_functions[] = {
	{"_read_words", read_words, METH_O,
		"The numbers of an I64 tensor that others write."},
	{"_write_word", EXPORT(write_word), FAST,
		"Writes one of them: tensor, index, number."},
	{0},
};
