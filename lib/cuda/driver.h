/* SPDX-License-Identifier: MIT */
/*
 * The functions of the driver that this room calls. Only its files include this
 * header, or the toolkit's. Loading it takes the room's lock; what was loaded
 * never changes, and may be called without.
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
	__typeof__(cuCtxSynchronize) *context_synchronize;
	__typeof__(cuMemHostRegister) *host_register;
	__typeof__(cuMemHostUnregister) *host_unregister;
	__typeof__(cuMemHostGetDevicePointer) *host_device_pointer;
	/* Memory of a device: made, mapped and shared in separate steps. */
	__typeof__(cuMemGetInfo) *memory_info;
	__typeof__(cuMemGetAllocationGranularity) *memory_granularity;
	__typeof__(cuMemAddressReserve) *address_reserve;
	__typeof__(cuMemAddressFree) *address_free;
	__typeof__(cuMemCreate) *memory_create;
	__typeof__(cuMemRelease) *memory_release;
	__typeof__(cuMemMap) *memory_map;
	__typeof__(cuMemUnmap) *memory_unmap;
	__typeof__(cuMemSetAccess) *memory_set_access;
	__typeof__(cuMemExportToShareableHandle) *memory_export;
	__typeof__(cuMemImportFromShareableHandle) *memory_import;
	__typeof__(cuMemGetAllocationPropertiesFromHandle) *memory_properties;
	__typeof__(cuPointerGetAttribute) *pointer_attribute;
	/* Work in order. */
	__typeof__(cuStreamCreate) *stream_create;
	__typeof__(cuStreamDestroy) *stream_destroy;
	__typeof__(cuStreamSynchronize) *stream_synchronize;
	__typeof__(cuStreamWaitEvent) *stream_wait_event;
	__typeof__(cuEventCreate) *event_create;
	__typeof__(cuEventDestroy) *event_destroy;
	__typeof__(cuEventRecord) *event_record;
	__typeof__(cuEventQuery) *event_query;
	__typeof__(cuEventSynchronize) *event_synchronize;
	/* Copies, by addresses that are valid in one space. */
	__typeof__(cuMemcpyAsync) *copy;
	__typeof__(cuMemcpy2DAsync) *copy_2d;
	__typeof__(cuMemcpy3DAsync) *copy_3d;
	__typeof__(cuMemcpyPeerAsync) *copy_peer;
	__typeof__(cuMemsetD8Async) *fill;
	/* Kernels. */
	__typeof__(cuModuleLoadData) *module_load;
	__typeof__(cuModuleUnload) *module_unload;
	__typeof__(cuModuleGetFunction) *module_function;
	__typeof__(cuLaunchKernel) *launch;
};

/* Loads the driver and initialises it, at the first call that succeeds.
 * -ENOTSUP: there is none, or it is too old; -ENODEV: it has no device. */
int cuda_driver_load(const struct cuda_driver **ret);

/* An error of the driver, as tarn_fail: the text, then the driver's own name
 * for it. driver: NULL before its functions are known. */
int cuda_fail(const struct cuda_driver *driver, CUresult error, const char *fmt,
	...) _printf_(3, 4);
