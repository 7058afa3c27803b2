/* SPDX-License-Identifier: MIT */
/*
 * The driver's library, found at run time.
 *
 * tarn is not linked with it, and uses no CUDA runtime: a machine without a GPU
 * needs neither. Functions are asked for by the version in which they had the
 * type that they have here. Newer versions would be refused by drivers that are
 * older than the header that this was built with.
 */
#include "lib/cuda/driver.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "base/checked.h"
#include "base/fail.h"

static const struct {
	const char *name;
	int version; /* 11040 is 11.4 */
	size_t at;   /* in struct cuda_driver */
} functions[] = {
#define FUNCTION(name, version, field)                                         \
	{                                                                      \
		name, version, offsetof(struct cuda_driver, field)             \
	}
	FUNCTION("cuInit", 2000, init),
	FUNCTION("cuGetErrorName", 6000, error_name),
	FUNCTION("cuGetErrorString", 6000, error_string),
	FUNCTION("cuDeviceGetCount", 2000, device_count),
	FUNCTION("cuDeviceGet", 2000, device_get),
	FUNCTION("cuDeviceGetName", 2000, device_name),
	FUNCTION("cuDeviceGetUuid", 11040, device_uuid),
	FUNCTION("cuDeviceGetPCIBusId", 4010, device_pci),
	FUNCTION("cuDeviceGetAttribute", 2000, device_attribute),
	FUNCTION("cuDevicePrimaryCtxRetain", 7000, context_retain),
	FUNCTION("cuDevicePrimaryCtxRelease", 11000, context_release),
	FUNCTION("cuCtxPushCurrent", 4000, context_push),
	FUNCTION("cuCtxPopCurrent", 4000, context_pop),
	FUNCTION("cuCtxSynchronize", 2000, context_synchronize),
	FUNCTION("cuMemHostRegister", 6050, host_register),
	FUNCTION("cuMemHostUnregister", 4000, host_unregister),
	FUNCTION("cuMemHostGetDevicePointer", 3020, host_device_pointer),
	FUNCTION("cuMemGetInfo", 3020, memory_info),
	FUNCTION("cuMemGetAllocationGranularity", 10020, memory_granularity),
	FUNCTION("cuMemAddressReserve", 10020, address_reserve),
	FUNCTION("cuMemAddressFree", 10020, address_free),
	FUNCTION("cuMemCreate", 10020, memory_create),
	FUNCTION("cuMemRelease", 10020, memory_release),
	FUNCTION("cuMemMap", 10020, memory_map),
	FUNCTION("cuMemUnmap", 10020, memory_unmap),
	FUNCTION("cuMemSetAccess", 10020, memory_set_access),
	FUNCTION("cuMemExportToShareableHandle", 10020, memory_export),
	FUNCTION("cuMemImportFromShareableHandle", 10020, memory_import),
	FUNCTION("cuMemGetAllocationPropertiesFromHandle", 10020,
		memory_properties),
	FUNCTION("cuPointerGetAttribute", 4000, pointer_attribute),
	FUNCTION("cuStreamCreate", 2000, stream_create),
	FUNCTION("cuStreamDestroy", 4000, stream_destroy),
	FUNCTION("cuStreamSynchronize", 2000, stream_synchronize),
	FUNCTION("cuStreamWaitEvent", 3020, stream_wait_event),
	FUNCTION("cuEventCreate", 2000, event_create),
	FUNCTION("cuEventDestroy", 4000, event_destroy),
	FUNCTION("cuEventRecord", 2000, event_record),
	FUNCTION("cuEventQuery", 2000, event_query),
	FUNCTION("cuEventSynchronize", 2000, event_synchronize),
	FUNCTION("cuMemcpyAsync", 4000, copy),
	FUNCTION("cuMemcpy2DAsync", 3020, copy_2d),
	FUNCTION("cuMemcpy3DAsync", 3020, copy_3d),
	FUNCTION("cuMemcpyPeerAsync", 4000, copy_peer),
	FUNCTION("cuMemsetD8Async", 3020, fill),
	FUNCTION("cuModuleLoadData", 2000, module_load),
	FUNCTION("cuModuleUnload", 2000, module_unload),
	FUNCTION("cuModuleGetFunction", 2000, module_function),
	FUNCTION("cuLaunchKernel", 4000, launch),
#undef FUNCTION
};

#define OLDEST 11040 /* the newest of these */

/* Its first form; since 12.0 there is one with a further result, and this one
 * stays. */
typedef CUresult get_address(
	const char *symbol, void **ret, int version, cuuint64_t flags);

/* ---- errors -------------------------------------------------------------- */

static int errno_of(CUresult error)
{
	switch (error) {
	case CUDA_ERROR_OUT_OF_MEMORY:
		return ENOMEM;
	case CUDA_ERROR_NO_DEVICE:
	case CUDA_ERROR_INVALID_DEVICE:
	case CUDA_ERROR_DEVICE_UNAVAILABLE:
		return ENODEV;
	case CUDA_ERROR_NOT_SUPPORTED:
	case CUDA_ERROR_NOT_INITIALIZED:
	case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
	case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
		return ENOTSUP;
	case CUDA_ERROR_NOT_PERMITTED:
		return EPERM;
	case CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
		return EBUSY;
	default:
		return EIO;
	}
}

int cuda_fail(
	const struct cuda_driver *driver, CUresult error, const char *fmt, ...)
{
	const char *name = NULL, *meaning = NULL;
	char what[TARN_MESSAGE_MAX / 2];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	if (driver) {
		driver->error_name(error, &name);
		driver->error_string(error, &meaning);
	}
	if (!name)
		return tarn_fail(errno_of(error), "%s: the driver returned %d",
			what, (int)error);
	return tarn_fail(errno_of(error), "%s: %s (%s)", what, name,
		meaning ? meaning : "no text");
}

/* ---- loading ------------------------------------------------------------- */

static int find_functions(void *library, struct cuda_driver *ret)
{
	get_address *get = NULL;

	*(void **)&get = dlsym(library, "cuGetProcAddress");
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
		void *fn = NULL;
		CUresult e = CUDA_ERROR_NOT_FOUND;

		if (get)
			e = get(functions[i].name, &fn, functions[i].version,
				CU_GET_PROC_ADDRESS_DEFAULT);
		if (e != CUDA_SUCCESS || !fn)
			return tarn_fail(ENOTSUP,
				"the driver in libcuda.so.1 has no %s of CUDA "
				"%d.%d; install one of CUDA %d.%d or newer",
				functions[i].name, functions[i].version / 1000,
				functions[i].version % 1000 / 10, OLDEST / 1000,
				OLDEST % 1000 / 10);
		*(void **)((char *)ret + functions[i].at) = fn;
	}
	return 0;
}

/* It stays loaded whatever comes: the driver may have started threads. */
static int load(struct cuda_driver *ret)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	const char *why;
	CUresult e;
	int r;

	if (!library) {
		why = dlerror();
		return tarn_fail(ENOTSUP,
			"no driver for CUDA: %s; install NVIDIA's driver, or "
			"run the container with --gpus all",
			why ? why : "libcuda.so.1 cannot be loaded");
	}
	r = find_functions(library, ret);
	if (r < 0)
		return r;
	e = ret->init(0);
	return e ? cuda_fail(ret, e,
			   "the driver for CUDA cannot be used "
			   "(nvidia-smi says more)")
		 : 0;
}

int cuda_driver_load(const struct cuda_driver **ret)
{
	static struct cuda_driver driver;
	static bool loaded;
	int r;

	if (!loaded) {
		r = load(&driver);
		if (r < 0)
			return r;
		loaded = true;
	}
	*ret = &driver;
	return 0;
}
