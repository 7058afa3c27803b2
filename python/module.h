/* SPDX-License-Identifier: MIT */
/*
 * Declarations that the files of the Python module share. The module uses
 * libtarn only through its public headers, and of Python only the stable ABI
 * where that suffices (CPython 3.11 on), so that one binary serves all
 * versions.
 *
 * Errors: a function that returns PyObject * returns NULL with an exception
 * set; one that returns int is negative with one. A function that returns a
 * number of tarn's is documented as such.
 */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <structmember.h>

#include <tarn/tarn.h>

#define EXPORT(fn) ((PyCFunction)(void (*)(void))(fn))
#define FAST METH_FASTCALL
#define FAST_KEYWORDS (METH_FASTCALL | METH_KEYWORDS)

/* A tensor as Python sees it. It never changes, so that any thread may use it
 * without a lock, as a tarn_tensor. */
struct tensor {
	PyObject_HEAD
	tarn_tensor *tensor;
	PyObject *weak_references;
};

/* An open file, and a connection to a daemon: bases of Python's own classes. */
struct file {
	PyObject_HEAD
	tarn_file *file;
	bool map; /* are its tensors mapped? */
};

struct store {
	PyObject_HEAD
	tarn_store *store;
};

/* The types: made once, when the module is loaded. */
extern PyTypeObject *tensor_type, *file_type, *store_type;

static inline bool is_tensor(PyObject *object)
{
	return Py_TYPE(object) == tensor_type;
}

static inline tarn_tensor *tensor_of(PyObject *object)
{
	return ((struct tensor *)object)->tensor;
}

static inline const struct tarn_layout *layout_of(PyObject *object)
{
	return tarn_tensor_layout(tensor_of(object));
}

static inline tarn_file *file_of(PyObject *object)
{
	return ((struct file *)object)->file;
}

static inline tarn_store *store_of(PyObject *object)
{
	return ((struct store *)object)->store;
}

/* Parts of the module: each adds its types and functions. */
int add_tensor_type(PyObject *module);
int add_dtypes(PyObject *module);
int add_errors(PyObject *module);
int add_file_type(PyObject *module);
/* Methods of it: where its tensors' bytes lie. */
PyObject *file_shards(PyObject *self, PyObject *none);
PyObject *file_extents(PyObject *self, PyObject *none);
int add_store_type(PyObject *module);
int add_channel_types(PyObject *module);
int add_interface(PyObject *module);
int add_refit_type(PyObject *module);
int add_follow_type(PyObject *module);
int add_data_types(PyObject *module);
extern PyMethodDef create_functions[];
extern PyMethodDef copy_functions[];
extern PyMethodDef device_functions[];
extern PyMethodDef borrow_functions[];
extern PyMethodDef dlpack_functions[];
extern PyMethodDef gather_functions[];
extern PyMethodDef lock_functions[];
extern PyMethodDef save_functions[];
extern PyMethodDef nodes_functions[];
extern PyMethodDef pack_functions[];

/* Parts of the type Tensor, joined in tensor.c. */
extern PyMethodDef view_methods[];
extern PyMethodDef shape_methods[];
extern PyMethodDef element_methods[];
extern PyMethodDef copy_methods[];
extern PyMethodDef gather_methods[];
extern PyMethodDef lock_methods[];
extern PyMethodDef array_methods[];
extern PyMethodDef dlpack_methods[];
extern PyMethodDef device_methods[];
extern PyMethodDef set_tensor_methods[];
extern PyMethodDef standard_methods[];
extern PyGetSetDef array_properties[], standard_properties[];

/* The other parts of Store. */
extern PyMethodDef publish_methods[];
extern PyMethodDef snapshot_methods[];
extern PyMethodDef nodes_methods[];
extern PyMethodDef set_methods[];

/* ---- errors.c ------------------------------------------------------ */

/* An exception from a number of tarn's and its sentence; returns NULL. Of
 * tensors: IndexError (-ERANGE), MemoryError, else ValueError. */
PyObject *raise_view(int r);
/* The same in the caller's words: name replaces the function of the library
 * that the sentence begins with; "" drops it. */
PyObject *raise_view_as(const char *name, int r);
/* OverflowError: the library refused a number as an element. */
PyObject *raise_too_large(void);
/* Of the world: OSError or the subclass that belongs to the number; what is
 * wrong with arguments or a file's content is a ValueError. */
PyObject *raise_system(int r);
/* -ETIMEDOUT of a wait in slices, of which the library knows only the last: the
 * event that was waited for, "channel", its name, and further text. */
PyObject *raise_timeout(const char *what, const char *name, const char *more);
/* -ENOENT of a mapping: NotFoundError, a FileNotFoundError and a KeyError. */
PyObject *raise_lookup(int r);
/* The same for a name that was looked up in a mapping: the message lists, when
 * it is read, the names that exist. */
PyObject *raise_missing(int r, PyObject *mapping, PyObject *name);

/* ---- tensor.c ------------------------------------------------------ */

/* Takes the reference over, also when it fails. */
PyObject *tensor_wrap_consume(tarn_tensor *tensor);
/* The result of a function of the library: raise_view if r < 0. By address, so
 * that the call may stand in the same line: it is read after that. */
PyObject *tensor_wrap_result(int r, tarn_tensor *const *tensor);
/* A view of self. r: of the function that made the layout. */
PyObject *tensor_view(PyObject *self, int r, const struct tarn_layout *layout);

/* A tuple of n numbers. */
PyObject *numbers_tuple(int n, const int64_t *numbers, int64_t factor);

/* ---- arguments.c --------------------------------------------------- */

/* An integer, or what has __index__. 0 or -1. */
int int_argument(PyObject *object, int64_t *ret);

/* A dimension. ValueError for an integer that no int holds: cut to an int it
 * would name another dimension. 0 or -1. */
int dim_argument(const char *name, PyObject *object, int *ret);

/* f(0, 2) or f((0, 2)): up to TARN_NDIM_MAX dimensions. Their count, or -1. */
int dims_arguments(const char *name, PyObject *const *args, Py_ssize_t n_args,
	int ret[TARN_NDIM_MAX]);

/* A number; what: the argument, for the exception. 0 or -1. */
int real_argument(const char *what, PyObject *object, double *ret);

/* f(2, 3) or f((2, 3)): up to TARN_NDIM_MAX numbers. Their count, or -1. */
int shape_arguments(const char *name, PyObject *const *args, Py_ssize_t n_args,
	int64_t ret[TARN_NDIM_MAX]);

/* A number or a sequence of them. Their count, or -1. */
int shape_argument(
	const char *name, PyObject *object, int64_t ret[TARN_NDIM_MAX]);

/*
 * Arguments by position or name, into rets, which has room for as many as
 * names (ended by NULL) has; what is not given stays NULL. Those before
 * required must be. 0 or -1.
 */
int named_arguments(const char *name, const char *const *names, int required,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords,
	PyObject **rets);

/* The same for integers; rets contains the defaults. Where bit i of dims is
 * set, argument i is a dimension, and fits an int. */
int named_numbers(const char *name, const char *const *names, int required,
	unsigned dims, PyObject *const *args, Py_ssize_t n_args,
	PyObject *keywords, int64_t *rets);

/* ---- dtype.c ------------------------------------------------------- */

/* From a name, or a dtype of numpy's, PyTorch's or Python's own. 0: none of
 * ours, with an exception. */
int dtype_argument(PyObject *object);
/* A new reference to its name. */
PyObject *dtype_object(int dtype);
/* How the buffer protocol calls it. NULL: it has no such numbers. */
const char *dtype_buffer_format(int dtype);
/* The same for numpy: "<f4". */
const char *dtype_typestr(int dtype);
/* From a format of the buffer protocol and its item size. 0: none. */
int dtype_from_format(const char *format, Py_ssize_t size);

/* ---- subscript.c --------------------------------------------------- */

PyObject *tensor_subscript(PyObject *self, PyObject *key);
int tensor_assign_subscript(PyObject *self, PyObject *key, PyObject *value);
PyObject *tensor_item_at(PyObject *self, Py_ssize_t i);
PyObject *tensor_iterate(PyObject *self);

/* ---- view.c -------------------------------------------------------- */

PyObject *tensor_transposed(PyObject *self, void *closure);

/* ---- element.c ----------------------------------------------------- */

/* The Python type of a dtype's elements. */
enum number_kind {
	KIND_BOOL,
	KIND_INT,
	KIND_UNSIGNED,
	KIND_FLOAT,
	KIND_COMPLEX
};

enum number_kind element_kind(int dtype);
/* One element as a Python number; index has ndim numbers. */
PyObject *element_get(tarn_tensor *tensor, const int64_t *index);
int element_set(tarn_tensor *tensor, const int64_t *index, PyObject *value);
/* The element of a tensor of one element, of any rank. */
PyObject *tensor_single(PyObject *self, const char *what);
int tensor_truth(PyObject *self);
PyObject *tensor_float(PyObject *self);
PyObject *tensor_int(PyObject *self);
/* Is it what tensors consist of: a bool, int, float, complex, or one's like? */
bool is_number(PyObject *object);

/* ---- standard.c ----------------------------------------------------- */

PyObject *tensor_index(PyObject *self);
/* Is it an int, or one's like? Of tensors: an integer one without dimensions. */
bool is_whole_number(PyObject *object);

/* ---- operators.c --------------------------------------------------- */

PyObject *tensor_compare(PyObject *self, PyObject *other, int op);
Py_hash_t tensor_hash(PyObject *self);
PyObject *tensor_attribute(PyObject *self, PyObject *name);
/* The slots of the type Tensor that are operators; the last one is 0. */
extern const PyType_Slot operator_slots[];

/* ---- elements.c ---------------------------------------------------- */

PyObject *tensor_tolist(PyObject *self, PyObject *none);
int tensor_contains(PyObject *self, PyObject *value);

/* ---- create.c ------------------------------------------------------ */

/* From nested lists; dtype 0: that of their numbers. */
PyObject *tensor_from_lists(PyObject *data, int dtype);
/* A source for assignments and copies: a Tensor, an array, or nested lists,
 * which become a tensor of that dtype. */
PyObject *tensor_source(PyObject *value, int dtype);

/* ---- copy.c -------------------------------------------------------- */

/* New memory in C order with bytes of 0, which need not be the number 0:
 * F8_E8M0 has none. A number of tarn's. */
int new_tensor(int dtype, int ndim, const int64_t *shape, tarn_tensor **ret);
/* tarn_copy without the GIL. 0 or -1; ends early when a signal comes. */
int copy_tensor(tarn_tensor *dst, const tarn_tensor *src);
/* The same, after the work that is in a stream of CUDA's: see
 * tarn_copy_options. */
int copy_tensor_after(tarn_tensor *dst, const tarn_tensor *src, void *stream);
/* The same where both may share bytes: as if src were read first. */
int copy_tensor_safely(tarn_tensor *dst, tarn_tensor *src);
/* Its elements in new memory, as dtype. NULL with an exception. */
tarn_tensor *copy_as(const tarn_tensor *tensor, int dtype);

/* ---- array.c, borrow.c --------------------------------------------- */

/* The address to be given to others, where a write is no signal: that of
 * tarn_tensor_guard. 1: it is the read-only memory itself. -1. */
int tensor_guard(PyObject *self, void **ret);

int tensor_get_buffer(PyObject *self, Py_buffer *view, int flags);
void tensor_release_buffer(PyObject *self, Py_buffer *view);

/* Memory of a Python object as a tensor; the object is kept until the last
 * tensor over it is gone. strides are in bytes, NULL: C order. */
PyObject *borrow_memory(PyObject *owner, void *data, int dtype, int ndim,
	const int64_t *shape, const int64_t *strides, bool writable);

/* A tensor as it is, or one over the bytes of an object that shares its own:
 * the buffer protocol, __array_interface__. A new reference. */
PyObject *tensor_from_object(PyObject *object);
/* Does it share its bytes in one of these ways? */
bool shares_bytes(PyObject *object);

/* ---- dlpack.c ------------------------------------------------------ */

/* A capsule in the old form, of a tensor that may be written. Takes the
 * reference over, also when it fails. */
PyObject *dlpack_consume(tarn_tensor *tensor);

/* ---- deadline.c ---------------------------------------------------- */

/* The deadline of a caller that does not wait: it has passed. */
#define DEADLINE_NOW 0.

/* Seconds, or None for ever, as a moment. 0 or -1. */
int deadline_argument(PyObject *timeout, double *ret);
bool deadline_passed(double deadline);
/* Milliseconds until then, but at most so many, and not less than 0. */
int deadline_slice(double deadline, int most);

/* ---- progress.c ---------------------------------------------------- */

/* A call that works without the GIL. The caller stores its thread state here
 * when it releases the GIL; progress_end takes it back. */
struct progress_call {
	PyThreadState *state;
	PyObject *call; /* call(done, total), of a load with phase; or NULL */
};

/* Progress functions for the library; arg is a struct progress_call. Not 0: an
 * exception is set. */
int progress_step(void *arg, uint64_t done, uint64_t total);
int progress_load_step(
	void *arg, enum tarn_load_phase phase, uint64_t done, uint64_t total);
/* Takes the GIL back. Returns the result of the call; or a negative number, if
 * it succeeded though an exception was set: then the caller drops its
 * result. */
int progress_end(struct progress_call *p, int r);

/* ---- nodes.c ------------------------------------------------------- */

/* The number of a NUMA node: -1 for None, and what the library refuses for a
 * number that is none. 0 or -1. */
int node_argument(PyObject *object, int *ret);

/* ---- arguments that long calls share ------------------------------- */

/* UTF-8 without a 0 inside, as long as the object lives. NULL. */
const char *text_argument(PyObject *object);
/* For arguments that may be missing, or None. 0 or -1. */
int optional_text(PyObject *object, const char **ret);
int optional_flag(PyObject *object, bool *ret);
int optional_callable(PyObject *object, PyObject **ret);
/* Its pairs, a list; the TypeError names the argument. */
PyObject *mapping_items(const char *what, PyObject *mapping);

/* Names and tensors of a mapping, which may also have arrays as values: a list
 * that keeps both, and its contents. */
PyObject *tensor_pairs(PyObject *mapping);
const char *pair_name(PyObject *pairs, Py_ssize_t i);
tarn_tensor *pair_tensor(PyObject *pairs, Py_ssize_t i);
