/* SPDX-License-Identifier: MIT */
/* Where tensors are, as Python names it: "cpu", "cuda:0". */
#pragma once

#include "python/module.h"

/* The memory of the host, or a device. */
struct place {
	bool on_device;
	struct tarn_cuda_device device;
};

/* Is the object a place, and no dtype? An integer is a device. */
bool is_place(PyObject *object);
/*
 * "cpu", "cuda" (device 0), "cuda:1"; a PCI address, a UUID or an index, as
 * tarn_cuda_device takes them; or an object whose str() is such. verb is for
 * the exception. 0 or -1.
 */
int place_argument(const char *verb, PyObject *object, struct place *ret);
struct place place_of(const tarn_tensor *tensor);
bool same_place(const struct place *a, const struct place *b);
/* The index of a device among those that the process sees; -1: it sees it
 * not. */
int place_index(const struct place *place);
/* "cpu", "cuda:0", or the UUID of a device that this process does not see. */
PyObject *place_name(const struct place *place);

/* None, a number, or an object with cuda_stream or __cuda_stream__: what
 * tarn_copy_options.cuda_stream takes. 0 or -1. */
int stream_argument(PyObject *object, void **ret);

/* New memory in C order, of bytes that are 0; verb is for the exception. NULL
 * with one. */
tarn_tensor *new_tensor_at(const char *verb, const struct place *place,
	int dtype, int ndim, const int64_t *shape);
/* A copy of the tensor there, as dtype; stream is that of tarn_copy. NULL with
 * an exception. */
tarn_tensor *copy_to(const tarn_tensor *tensor, const struct place *place,
	int dtype, void *stream);
/* Moves a tensor that was just made. Takes the reference over. */
PyObject *moved_consume(PyObject *tensor, const struct place *place);

/* Makes *ret of an argument device that may be missing or None. */
int optional_place(const char *verb, PyObject *object, struct place *ret);
