/* SPDX-License-Identifier: MIT */
/* Devices and their contexts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "tests/fakecuda/standin.h"

#define DEPTH 16

/* A context is the address of its device's place here. */
static char contexts[DEVICES];
static int retained[DEVICES], pushed;
static __thread CUcontext stack[DEPTH];
static __thread int depth;

int device_count(void)
{
	return (int)setting("DEVICES", -1, 1);
}

int device_of(CUcontext context)
{
	uintptr_t at = (uintptr_t)context - (uintptr_t)contexts;

	return at < DEVICES ? (int)at : -1;
}

CUcontext context_of(int device)
{
	return (CUcontext)&contexts[device];
}

int current_device(void)
{
	return depth ? device_of(stack[depth - 1]) : -1;
}

void judge_devices(void)
{
	if (pushed)
		account_fault("contexts were pushed %d times more than popped",
			pushed);
	for (int i = 0; i < DEVICES; i++)
		if (retained[i] && !broken(i) && !setting("LOST", i, 0))
			account_fault("the primary context of device %d is "
				      "retained %d times",
				i, retained[i]);
}

/* ---- the driver, devices ------------------------------------------------- */

CUresult cuInit(unsigned flags)
{
	CUresult e = begin();

	(void)flags;
	if (!e)
		e = refused("INIT", -1);
	return end(e);
}

CUresult cuDriverGetVersion(int *ret)
{
	CUresult e = begin();

	*ret = (int)setting("VERSION", -1, 13000);
	return end(e);
}

CUresult cuDeviceGetCount(int *ret)
{
	CUresult e = begin();

	*ret = device_count();
	return end(e);
}

static CUresult check_device(CUdevice device)
{
	return device >= 0 && device < device_count()
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGet(CUdevice *ret, int index)
{
	CUresult e = begin();

	if (!e)
		e = check_device(index);
	if (!e)
		*ret = index;
	return end(e);
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
	CUresult e = begin();

	snprintf(name, (size_t)size, "Stand-in %d", device);
	return end(e);
}

CUresult cuDeviceGetUuid(CUuuid *ret, CUdevice device)
{
	CUresult e = begin();

	memset(ret->bytes, 0xab, sizeof(ret->bytes));
	ret->bytes[15] = (char)device;
	return end(e);
}

CUresult cuDeviceGetPCIBusId(char *text, int size, CUdevice device)
{
	const char *other = getenv("FAKECUDA_PCI");
	CUresult e = begin();

	if (other && device == 0)
		snprintf(text, (size_t)size, "%s", other);
	else
		snprintf(text, (size_t)size, "0000:%02X:00.0", 0x3b + device);
	return end(e);
}

static const struct {
	CUdevice_attribute attribute;
	const char *name;
	int otherwise;
} attributes[] = {
	{CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, "REGISTERS", 1},
	{CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, "READ_ONLY", 0},
	{CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, "PAGEABLE", 0},
	{CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
		"PAGE_TABLES", 0},
	{CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, "UNIFIED", 1},
	{CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, "VIRTUAL", 1},
	{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
		"DESCRIPTORS", 1},
	{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, "MAJOR", 9},
	{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, "MINOR", 0},
	{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, "PROCESSORS", 4},
	{CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, "ENGINES", 2},
	{CU_DEVICE_ATTRIBUTE_MAX_PITCH, "PITCH", 0x7fffffff},
};

CUresult cuDeviceGetAttribute(
	int *ret, CUdevice_attribute attribute, CUdevice device)
{
	CUresult e = begin();

	if (e)
		return end(e);
	for (size_t i = 0; i < ARRAY_SIZE(attributes); i++)
		if (attributes[i].attribute == attribute) {
			*ret = (int)setting(attributes[i].name, device,
				attributes[i].otherwise);
			return end(CUDA_SUCCESS);
		}
	return end(CUDA_ERROR_INVALID_VALUE);
}

/* ---- contexts ------------------------------------------------------------ */

CUresult cuDevicePrimaryCtxRetain(CUcontext *ret, CUdevice device)
{
	CUresult e = begin();

	if (!e)
		e = check_device(device);
	if (!e)
		e = refused("CONTEXT_RETAIN", device);
	if (!e) {
		retained[device]++;
		*ret = context_of(device);
	}
	return end(e);
}

/* What the context has does not outlive it. */
static void judge_release(int device)
{
	int left = count_work(device) + count_modules(device);

	if (retained[device] < 0)
		account_fault("device %d is released too often", device);
	else if (!retained[device] && left && !broken(device))
		account_fault("the context of device %d is released while it "
			      "has %d streams, events, modules or work",
			device, left);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	CUresult e = begin();

	if (!e)
		e = check_device(device);
	if (!e) {
		retained[device]--;
		e = (CUresult)setting("LOST", device, 0);
		if (!e)
			judge_release(device);
	}
	return end(e);
}

static CUresult push(CUcontext context)
{
	int device = device_of(context);
	CUresult e;

	if (device < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	e = (CUresult)setting("LOST", device, 0);
	if (!e)
		e = (CUresult)setting("CONTEXT_PUSH", device, 0);
	if (e)
		return e;
	if (!retained[device]) {
		account_fault("the context of device %d is pushed, and not "
			      "retained",
			device);
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	}
	if (depth == DEPTH)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stack[depth++] = context;
	pushed++;
	return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context)
{
	CUresult e = begin();

	return end(e ? e : push(context));
}

CUresult cuCtxPopCurrent(CUcontext *ret)
{
	CUresult e = begin();

	if (!e && !depth) {
		account_fault("a context is popped where none is current");
		e = CUDA_ERROR_INVALID_CONTEXT;
	}
	if (!e) {
		*ret = stack[--depth];
		pushed--;
	}
	return end(e);
}
