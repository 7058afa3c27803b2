/* SPDX-License-Identifier: MIT */
/* The real driver of CUDA, for programs that look at a device themselves. What a
 * driver does not have stays NULL. */
#pragma once

#include <cuda.h>
#include <stdbool.h>

#define REAL_FUNCTIONS(X)                                                      \
	X(cuInit)                                                              \
	X(cuDriverGetVersion)                                                  \
	X(cuGetErrorName)                                                      \
	X(cuDeviceGetCount)                                                    \
	X(cuDeviceGet)                                                         \
	X(cuDeviceGetName)                                                     \
	X(cuDeviceGetAttribute)                                                \
	X(cuDevicePrimaryCtxRetain)                                            \
	X(cuDevicePrimaryCtxRelease)                                           \
	X(cuCtxPushCurrent)                                                    \
	X(cuCtxPopCurrent)                                                     \
	X(cuMemHostRegister)                                                   \
	X(cuMemHostUnregister)                                                 \
	X(cuMemHostGetDevicePointer)                                           \
	X(cuMemAlloc)                                                          \
	X(cuMemHostAlloc)                                                      \
	X(cuMemFreeHost)                                                       \
	X(cuMemFree)                                                           \
	X(cuMemcpy)                                                            \
	X(cuMemCreate)                                                         \
	X(cuMemRelease)                                                        \
	X(cuMemExportToShareableHandle)                                        \
	X(cuMemImportFromShareableHandle)                                      \
	X(cuMemGetAllocationGranularity)

struct real {
#define REAL_FIELD(fn) __typeof__(fn) *p_##fn;
	REAL_FUNCTIONS(REAL_FIELD)
#undef REAL_FIELD
};

extern struct real real;

/* How many devices there are; *ret_why says why there are none. */
int real_load(const char **ret_why);

/* Calls one; CUDA_ERROR_NOT_FOUND if the driver does not have it. */
#define REAL(fn, ...)                                                          \
	(real.p_##fn ? real.p_##fn(__VA_ARGS__) : CUDA_ERROR_NOT_FOUND)

/* "ok", or the name of the error. */
const char *real_result(CUresult e);
