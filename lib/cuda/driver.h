/* SPDX-License-Identifier: MIT */
/*
 * The functions of the driver that this room calls. Only its files include this
 * header, or the toolkit's. Call these with the room's lock held.
 */
#pragma once

#include <cuda.h>

#include "base/cleanup.h"

/* The header renames a function to its version: so these have the types that
 * go with the versions asked for in driver.c. */
struct cuda_driver {
	__typeof__(cuInit) *init;
	__typeof__(cuGetErrorName) *error_name;
	__typeof__(cuGetErrorString) *error_string;
	__typeof__(cuDeviceGetCount) *device_count;
	__typeof__(cuDeviceGet) *device_get;
	__typeof__(cuDeviceGetName) *device_name;
	__typeof__(cuDeviceGetUuid) *device_uuid;
	__typeof__(cuDeviceGetPCIBusId) *device_pci;
	__typeof__(cuDeviceGetAttribute) *device_attribute;
	__typeof__(cuDevicePrimaryCtxRetain) *context_retain;
	__typeof__(cuDevicePrimaryCtxRelease) *context_release;
	__typeof__(cuCtxPushCurrent) *context_push;
	__typeof__(cuCtxPopCurrent) *context_pop;
	__typeof__(cuMemHostRegister) *host_register;
	__typeof__(cuMemHostUnregister) *host_unregister;
	__typeof__(cuMemHostGetDevicePointer) *host_device_pointer;
};

/* Loads the driver and initialises it, at the first call that succeeds.
 * -ENOTSUP: there is none, or it is too old; -ENODEV: it has no device. */
int cuda_driver_load(const struct cuda_driver **ret);

/* An error of the driver, as tarn_fail: the text, then the driver's own name
 * for it. driver: NULL before its functions are known. */
int cuda_fail(const struct cuda_driver *driver, CUresult error, const char *fmt,
	...) _printf_(3, 4);
