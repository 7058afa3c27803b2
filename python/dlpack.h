/* SPDX-License-Identifier: MIT */
/*
 * DLPack: how array libraries hand memory to each other. The library does the
 * work; here is the protocol around it, which is that of the Python array API
 * standard.
 */
#pragma once

#include <tarn/dlpack.h>
#include <tarn/dlpack_abi.h>

#include "python/module.h"

#define DL_CAPSULE "dltensor"
#define DL_CAPSULE_USED "used_dltensor"
#define DL_CAPSULE_VERSIONED "dltensor_versioned"
#define DL_CAPSULE_VERSIONED_USED "used_dltensor_versioned"

/* Of the verb called name: None, or the pair (kDLCPU, 0). 0 or -1. */
int check_device(const char *name, PyObject *device);
