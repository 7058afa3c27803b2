/* SPDX-License-Identifier: MIT */
#include "tests/cuda/device_memory.h"

#include "base/fail.h"
#include "tests/kit/tap.h"

const struct cuda_driver *device_driver;
struct cuda_device *device_used;

static struct cuda_devices devices;

static void must(int r)
{
	if (r < 0)
		bail("%s", tarn_fail_message());
}

void device_must(CUresult e, const char *what)
{
	if (e)
		must(cuda_fail(device_driver, e, "%s", what));
}

void device_begin(void)
{
	must(cuda_devices_list(&devices));
	device_driver = devices.driver;
	device_used = &devices.at[0];
	must(cuda_device_hold(device_driver, device_used));
	must(cuda_device_enter(device_driver, device_used));
}

void device_end(void)
{
	cuda_device_leave(device_driver);
	cuda_device_drop(device_driver, device_used);
}

struct device_memory device_memory_new(size_t size)
{
	const CUmemLocation here = {
		.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device_used->handle};
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes =
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = here};
	const CUmemAccessDesc access = {
		.location = here, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	const struct cuda_driver *d = device_driver;
	struct device_memory m = {.size = size};

	device_must(d->memory_create(&m.handle, size, &prop, 0), "memory");
	device_must(d->address_reserve(&m.at, size, 0, 0, 0), "addresses");
	device_must(d->memory_map(m.at, size, 0, m.handle, 0), "a mapping");
	device_must(d->memory_set_access(m.at, size, &access, 1), "access");
	return m;
}

void device_memory_free(const struct device_memory *m)
{
	const struct cuda_driver *d = device_driver;

	device_must(d->memory_unmap(m->at, m->size), "unmapping");
	device_must(d->address_free(m->at, m->size), "freeing addresses");
	device_must(d->memory_release(m->handle), "freeing memory");
}

void device_put(CUdeviceptr dst, const void *src, size_t size, CUstream stream)
{
	device_must(device_driver->copy(dst, (uintptr_t)src, size, stream),
		"copying to the device");
}

void device_get(void *dst, CUdeviceptr src, size_t size, CUstream stream)
{
	device_must(device_driver->copy((uintptr_t)dst, src, size, stream),
		"copying from the device");
	device_must(device_driver->stream_synchronize(stream), "waiting");
}
