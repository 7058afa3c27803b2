/* SPDX-License-Identifier: MIT */
/* Memory of the stand-in's device 0, and bytes put there and got back. */
#pragma once

#include "lib/cuda/device.h"

extern const struct cuda_driver *device_driver;
extern struct cuda_device *device_used;

/* The device's context is held and current in between. */
void device_begin(void);
void device_end(void);
/* Ends the case if that is an error. */
void device_must(CUresult e, const char *what);

struct device_memory {
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;
	size_t size;
};

/* A multiple of 2 MiB. */
struct device_memory device_memory_new(size_t size);
void device_memory_free(const struct device_memory *memory);

/* In the stream's order; get waits. */
void device_put(CUdeviceptr dst, const void *src, size_t size, CUstream stream);
void device_get(void *dst, CUdeviceptr src, size_t size, CUstream stream);
