/* SPDX-License-Identifier: MIT */
/* The functions by name, and the errors. */
#include <cuda.h>
#include <string.h>

#include "base/checked.h"
#include "tests/fakecuda/standin.h"

/* ---- errors -------------------------------------------------------------- */

static const struct {
	CUresult error;
	const char *name, *text;
} errors[] = {
#define ERROR(name, text)                                                      \
	{                                                                      \
		CUDA_ERROR_##name, "CUDA_ERROR_" #name, text                   \
	}
	ERROR(INVALID_VALUE, "invalid argument"),
	ERROR(OUT_OF_MEMORY, "out of memory"),
	ERROR(NOT_INITIALIZED, "initialization error"),
	ERROR(NO_DEVICE, "no CUDA-capable device is detected"),
	ERROR(INVALID_DEVICE, "invalid device ordinal"),
	ERROR(INVALID_IMAGE, "device kernel image is invalid"),
	ERROR(INVALID_CONTEXT, "invalid device context"),
	ERROR(NO_BINARY_FOR_GPU,
		"no kernel image is available for execution on the device"),
	ERROR(ECC_UNCORRECTABLE, "uncorrectable ECC error encountered"),
	ERROR(OPERATING_SYSTEM, "OS call failed or operation not supported on "
				"this OS"),
	ERROR(INVALID_HANDLE, "invalid resource handle"),
	ERROR(NOT_FOUND, "named symbol not found"),
	ERROR(NOT_READY, "device not ready"),
	ERROR(ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
	ERROR(LAUNCH_OUT_OF_RESOURCES,
		"too many resources requested for launch"),
	ERROR(CONTEXT_IS_DESTROYED, "context is destroyed"),
	ERROR(HOST_MEMORY_ALREADY_REGISTERED,
		"part or all of the requested memory range is already mapped"),
	ERROR(HOST_MEMORY_NOT_REGISTERED,
		"pointer does not correspond to a registered memory region"),
	ERROR(LAUNCH_FAILED, "unspecified launch failure"),
	ERROR(NOT_PERMITTED, "operation not permitted"),
	ERROR(NOT_SUPPORTED, "operation not supported"),
	ERROR(UNKNOWN, "unknown error"),
#undef ERROR
};

CUresult cuGetErrorName(CUresult error, const char **ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		if (errors[i].error == error) {
			*ret = errors[i].name;
			return CUDA_SUCCESS;
		}
	*ret = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		if (errors[i].error == error) {
			*ret = errors[i].text;
			return CUDA_SUCCESS;
		}
	*ret = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

/* ---- functions ----------------------------------------------------------- */

static const struct {
	const char *name;
	int since;
	void *function;
} functions[] = {
	{"cuInit", 2000, cuInit},
	{"cuDriverGetVersion", 2020, cuDriverGetVersion},
	{"cuGetErrorName", 6000, cuGetErrorName},
	{"cuGetErrorString", 6000, cuGetErrorString},
	{"cuDeviceGetCount", 2000, cuDeviceGetCount},
	{"cuDeviceGet", 2000, cuDeviceGet},
	{"cuDeviceGetName", 2000, cuDeviceGetName},
	{"cuDeviceGetUuid", 11040, cuDeviceGetUuid},
	{"cuDeviceGetPCIBusId", 4010, cuDeviceGetPCIBusId},
	{"cuDeviceGetAttribute", 2000, cuDeviceGetAttribute},
	{"cuDevicePrimaryCtxRetain", 7000, cuDevicePrimaryCtxRetain},
	{"cuDevicePrimaryCtxRelease", 11000, cuDevicePrimaryCtxRelease},
	{"cuCtxPushCurrent", 4000, cuCtxPushCurrent},
	{"cuCtxPopCurrent", 4000, cuCtxPopCurrent},
	{"cuMemHostRegister", 6050, cuMemHostRegister},
	{"cuMemHostUnregister", 4000, cuMemHostUnregister},
	{"cuMemHostGetDevicePointer", 3020, cuMemHostGetDevicePointer},
	{"cuMemGetInfo", 3020, cuMemGetInfo},
	{"cuMemGetAllocationGranularity", 10020, cuMemGetAllocationGranularity},
	{"cuMemAddressReserve", 10020, cuMemAddressReserve},
	{"cuMemAddressFree", 10020, cuMemAddressFree},
	{"cuMemCreate", 10020, cuMemCreate},
	{"cuMemRelease", 10020, cuMemRelease},
	{"cuMemMap", 10020, cuMemMap},
	{"cuMemUnmap", 10020, cuMemUnmap},
	{"cuMemSetAccess", 10020, cuMemSetAccess},
	{"cuMemExportToShareableHandle", 10020, cuMemExportToShareableHandle},
	{"cuMemImportFromShareableHandle", 10020,
		cuMemImportFromShareableHandle},
	{"cuMemGetAllocationPropertiesFromHandle", 10020,
		cuMemGetAllocationPropertiesFromHandle},
	{"cuPointerGetAttribute", 4000, cuPointerGetAttribute},
	{"cuStreamCreate", 2000, cuStreamCreate},
	{"cuStreamDestroy", 4000, cuStreamDestroy},
	{"cuCtxSynchronize", 2000, cuCtxSynchronize},
	{"cuStreamSynchronize", 2000, cuStreamSynchronize},
	{"cuStreamWaitEvent", 3020, cuStreamWaitEvent},
	{"cuEventCreate", 2000, cuEventCreate},
	{"cuEventDestroy", 4000, cuEventDestroy},
	{"cuEventRecord", 2000, cuEventRecord},
	{"cuEventQuery", 2000, cuEventQuery},
	{"cuEventSynchronize", 2000, cuEventSynchronize},
	{"cuMemcpyAsync", 4000, cuMemcpyAsync},
	{"cuMemcpy2DAsync", 3020, cuMemcpy2DAsync},
	{"cuMemcpy3DAsync", 3020, cuMemcpy3DAsync},
	{"cuMemcpyPeerAsync", 4000, cuMemcpyPeerAsync},
	{"cuMemsetD8Async", 3020, cuMemsetD8Async},
	{"cuModuleLoadData", 2000, cuModuleLoadData},
	{"cuModuleUnload", 2000, cuModuleUnload},
	{"cuModuleGetFunction", 2000, cuModuleGetFunction},
	{"cuLaunchKernel", 4000, cuLaunchKernel},
};

/* In its first form, which the header renames. */
#undef cuGetProcAddress
CUresult cuGetProcAddress(
	const char *symbol, void **ret, int version, cuuint64_t flags);
CUresult cuGetProcAddress(
	const char *symbol, void **ret, int version, cuuint64_t flags)
{
	(void)flags;
	*ret = NULL;
	if (version > setting("VERSION", -1, 13000))
		return CUDA_ERROR_INVALID_VALUE;
	if (setting("OLD", -1, 0))
		return CUDA_ERROR_NOT_FOUND;
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		if (!strcmp(functions[i].name, symbol) &&
			functions[i].since <= version)
			*ret = functions[i].function;
	return *ret ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
