/* SPDX-License-Identifier: MIT */
/* Data in Python: what its files share. tarn/data.py is made of it. */
#pragma once

#include "python/module.h"

#include <sys/types.h>

#include <tarn/data.h>

struct data_source {
	PyObject_HEAD
	tarn_data_source *source;
	pid_t process; /* that has made it */
	/* What makes the same source again, in another process: the name of a
	 * class method, or a function; and its arguments. */
	PyObject *how, *arguments;
};

/*
 * A dataset keeps what it was made of: the child of a fork makes its own, since
 * another thread may have been in a call, with the lock, at that moment.
 */
struct dataset {
	PyObject_HEAD
	tarn_data *data;
	pid_t process;                    /* that has made it */
	PyObject *sources;                /* a tuple */
	struct tarn_data_options options; /* without tables */
	struct tarn_data_weights *periods;
	double *weights; /* of all periods */
};

extern PyTypeObject *data_source_type, *dataset_type;

static inline struct data_source *data_source_of(PyObject *object)
{
	return (struct data_source *)object;
}

static inline struct dataset *dataset_of(PyObject *object)
{
	return (struct dataset *)object;
}

int add_data_source_type(PyObject *module);
int add_data_loader_type(PyObject *module);
int add_data_fields_type(PyObject *module);

extern PyMethodDef data_order_functions[];

/* The dataset of this process. NULL with an exception. */
tarn_data *data_of(PyObject *self);

/* A number from 0 up; what: the argument, for the exception. 0 or -1. */
int data_count_argument(const char *what, PyObject *object, uint64_t *ret);

/* The same of 32 bits: 2^32 - 1 for larger ones, which the library refuses. */
int data_limited_argument(const char *what, PyObject *object, uint32_t *ret);

/* The number of a word in a list that ends with NULL. -1. */
int data_word_argument(
	const char *what, PyObject *object, const char *const *words);

/* -EMEDIUMTYPE is a ValueError here, and -ERANGE an IndexError. */
PyObject *data_raise(int r);

/* ---- data_source_open.c --------------------------------------------- */

/* Takes all but the type over, also when it fails; how and arguments may be
 * NULL, with an exception. */
PyObject *data_source_wrap_consume(PyObject *type, tarn_data_source *source,
	PyObject *how, PyObject *arguments);

/* What makes a Source: its class methods. */
PyObject *data_source_new(
	PyTypeObject *type, PyObject *args, PyObject *keywords);
PyObject *data_source_open(PyObject *type, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords);
PyObject *data_source_tokens(PyObject *type, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords);
PyObject *data_source_rows(PyObject *type, PyObject *tensor);

/* ---- data_columns.c ------------------------------------------------- */

PyObject *data_source_ragged(PyObject *type, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords);
PyObject *data_source_columns(PyObject *type, PyObject *mapping);
PyObject *data_source_chain(PyObject *type, PyObject *sources);

/* ---- data_record.c -------------------------------------------------- */

/*
 * The source of this process: in the child of a fork one of records is made
 * again, since another thread may have been in a call, with the lock, at that
 * moment. NULL with an exception.
 */
tarn_data_source *data_source_here(PyObject *self);

/* Methods of Source. */
PyObject *data_source_record(PyObject *self, PyObject *number);
PyObject *data_source_index(PyObject *self, PyObject *number);

/* ---- data_get.c ---------------------------------------------------- */

/* What comes with tokens, ored: the numbers of tarn/loader.h. */
#define DATA_POSITIONS 1u
#define DATA_SEGMENTS 2u
#define DATA_CU_SEQLENS 4u
#define DATA_DOCUMENT 8u

/* Methods: read(positions, parts, many), a dict; and place(position), a tuple of
 * epoch, source and sample. */
PyObject *data_read(PyObject *self, PyObject *const *args, Py_ssize_t n_args);
PyObject *data_place(PyObject *self, PyObject *position);
