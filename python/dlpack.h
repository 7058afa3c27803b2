/* SPDX-License-Identifier: MIT */
/*
 * DLPack: how array libraries hand memory to each other. The library does the
 * work; here is the protocol around it, which is that of the Python array API
 * standard.
 */
#pragma once

#include <tarn/dlpack.h>
#include <tarn/dlpack_abi.h>

#include "python/device.h"
#include "python/module.h"

#define DL_CAPSULE "dltensor"
#define DL_CAPSULE_USED "used_dltensor"
#define DL_CAPSULE_VERSIONED "dltensor_versioned"
#define DL_CAPSULE_VERSIONED_USED "used_dltensor_versioned"

/* DLPack's device, of the verb called name: None is *ret, which the caller has
 * set. 0 or -1. */
int dl_device_argument(const char *name, PyObject *device, DLDevice *ret);
/* Is it memory of the host's, or a device's? 0 or -1. */
int place_of_dl_device(
	const char *name, const DLDevice *device, struct place *ret);
/* Where the tensor is, as DLPack says it. BufferError: on a device that this
 * process does not see. 0 or -1. */
int dl_device_of(PyObject *tensor, DLDevice *ret);

/*
 * The stream of CUDA that a consumer works in: None, which is the legacy default
 * stream; -1: it wants no order; 1 and 2, the legacy and the per-thread default
 * stream; else a handle. 0 could be either default stream, so the protocol
 * forbids it.
 */
int dl_stream_argument(PyObject *object, int64_t *ret);
/* Only None: the memory of the host has no streams. 0 or -1. */
int dl_no_stream(PyObject *stream);

/*
 * All that tarn does on a device is complete when its calls return, so it has
 * queued nothing that a consumer must wait for. Other code may have, on memory
 * that it lent: in the legacy default stream, or ordered before that, since
 * from_dlpack asks for it so. Default streams wait for each other; another one
 * need not, so for its sake a byte is copied, which comes after all that and
 * ends when it is done. 0 or -1.
 */
int dl_settle(tarn_tensor *tensor, int64_t stream);
