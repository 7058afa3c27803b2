/* SPDX-License-Identifier: MIT */
/* The functions of the driver that tarn uses, as cuda.h describes them, with
 * registration as far as it can be told from outside. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "tests/fakecuda/account.h"
#include "tests/fakecuda/fakecuda.h"

#define DEVICES 64
#define DEPTH 16

/* A context is the address of its device's place here. */
static char contexts[DEVICES];
static __thread CUcontext stack[DEPTH];
static __thread int depth;

static int devices(void)
{
	return setting("DEVICES", -1, 1);
}

static int device_of(CUcontext context)
{
	return (int)((char *)context - contexts);
}

/* The device whose context is current; or -1. */
static int current(void)
{
	return depth ? device_of(stack[depth - 1]) : -1;
}

static CUresult lost(int device)
{
	return (CUresult)setting("LOST", device, 0);
}

/* ---- devices ------------------------------------------------------------- */

CUresult cuInit(unsigned flags)
{
	(void)flags;
	account_call();
	return (CUresult)setting("INIT", -1, 0);
}

CUresult cuDriverGetVersion(int *ret)
{
	account_call();
	*ret = setting("VERSION", -1, 13000);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *ret)
{
	account_call();
	*ret = devices();
	return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *ret, int index)
{
	account_call();
	if (index < 0 || index >= devices())
		return CUDA_ERROR_INVALID_DEVICE;
	*ret = index;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
	account_call();
	snprintf(name, (size_t)size, "Stand-in %d", device);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *ret, CUdevice device)
{
	account_call();
	memset(ret->bytes, 0xab, sizeof(ret->bytes));
	ret->bytes[15] = (char)device;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *text, int size, CUdevice device)
{
	account_call();
	snprintf(text, (size_t)size, "0000:%02X:00.0", 0x3b + device);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(
	int *ret, CUdevice_attribute attribute, CUdevice device)
{
	static const struct {
		CUdevice_attribute attribute;
		const char *name;
		int otherwise;
	} known[] = {
		{CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, "REGISTERS", 1},
		{CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED,
			"READ_ONLY", 0},
		{CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, "PAGEABLE", 0},
		{CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
			"PAGE_TABLES", 0},
	};

	account_call();
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].attribute == attribute) {
			*ret = setting(
				known[i].name, device, known[i].otherwise);
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_INVALID_VALUE;
}

/* ---- contexts ------------------------------------------------------------ */

CUresult cuDevicePrimaryCtxRetain(CUcontext *ret, CUdevice device)
{
	account_call();
	if (lost(device))
		return lost(device);
	account_retained(device, 1);
	*ret = (CUcontext)&contexts[device];
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	account_call();
	account_retained(device, -1);
	return lost(device);
}

CUresult cuCtxPushCurrent(CUcontext context)
{
	account_call();
	if (lost(device_of(context)))
		return lost(device_of(context));
	if (depth == DEPTH)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stack[depth++] = context;
	account_pushed(1);
	return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *ret)
{
	account_call();
	if (!depth) {
		account_fault("a context is popped where none is current");
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	*ret = stack[--depth];
	account_pushed(-1);
	return CUDA_SUCCESS;
}

/* ---- memory -------------------------------------------------------------- */

static CUresult can_register(
	int device, uintptr_t start, size_t size, unsigned flags)
{
	bool read_only = flags & CU_MEMHOSTREGISTER_READ_ONLY, writable;

	if (!account_mapped(start, size, &writable))
		return CUDA_ERROR_INVALID_VALUE;
	if (read_only && !setting("READ_ONLY", device, 0))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!writable && !read_only && !setting("PAGE_TABLES", device, 0))
		return CUDA_ERROR_INVALID_VALUE;
	if (account_find(start, size))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void *start, size_t size, unsigned flags)
{
	struct registration r = {.start = (uintptr_t)start,
		.size = size,
		.flags = flags,
		.device = current()};
	CUresult e;

	account_call();
	if (r.device < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	e = lost(r.device);
	if (!e)
		e = (CUresult)setting("REGISTER", r.device, 0);
	if (!e)
		e = can_register(r.device, r.start, size, flags);
	if (!e && !account_add(&r))
		e = CUDA_ERROR_OUT_OF_MEMORY;
	return e;
}

CUresult cuMemHostUnregister(void *start)
{
	account_call();
	if (current() < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (lost(current()))
		return lost(current());
	return account_remove((uintptr_t)start)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult cuMemHostGetDevicePointer(
	CUdeviceptr *ret, void *start, unsigned flags)
{
	const struct registration *r = account_find((uintptr_t)start, 1);

	(void)flags;
	account_call();
	if (current() < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (lost(current()))
		return lost(current());
	if (!r || !(r->flags & CU_MEMHOSTREGISTER_DEVICEMAP) ||
		(r->device != current() &&
			!(r->flags & CU_MEMHOSTREGISTER_PORTABLE)))
		return CUDA_ERROR_INVALID_VALUE;
	*ret = (uintptr_t)start + FAKECUDA_OFFSET(current());
	return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *ret, size_t size)
{
	account_call();
	*ret = (uintptr_t)malloc(size);
	return *ret ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFree(CUdeviceptr at)
{
	account_call();
	free((void *)at);
	return CUDA_SUCCESS;
}

/* An address of the device's as one of the host's: no process has so high ones
 * itself. */
static void *host_address(CUdeviceptr at)
{
	return (void *)(at >> 47 ? at - FAKECUDA_OFFSET(current()) : at);
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	account_call();
	if (current() < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	memcpy(host_address(to), host_address(from), size);
	return CUDA_SUCCESS;
}

/* ---- names --------------------------------------------------------------- */

static const struct {
	CUresult error;
	const char *name, *text;
} errors[] = {
	{CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE",
		"invalid argument"},
	{CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE",
		"no CUDA-capable device is detected"},
	{CUDA_ERROR_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE",
		"uncorrectable ECC error encountered"},
	{CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
		"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
		"part or all of the requested memory range is already mapped"},
	{CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED",
		"operation not supported"},
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
