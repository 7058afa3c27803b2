/* SPDX-License-Identifier: MIT */
/*
 * What a device and its driver do with memory of the host: a table for people,
 * and no test. Each line is a question and the answer of the driver. The exit
 * status is 77 where there is no device.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fd.h"
#include "tests/gpu/real.h"
#include "tests/kit/tap.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define PINNED (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)

static void row(const char *question, const char *answer)
{
	printf("%-58s %s\n", question, answer);
}

/* ---- what it says of itself ---------------------------------------------- */

static void attributes(CUdevice device)
{
	static const struct {
		CUdevice_attribute attribute;
		const char *name;
	} asked[] = {
#define ASK(name) {CU_DEVICE_ATTRIBUTE_##name, #name}
		ASK(COMPUTE_CAPABILITY_MAJOR),
		ASK(COMPUTE_CAPABILITY_MINOR),
		ASK(UNIFIED_ADDRESSING),
		ASK(HOST_REGISTER_SUPPORTED),
		ASK(READ_ONLY_HOST_REGISTER_SUPPORTED),
		ASK(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM),
		ASK(PAGEABLE_MEMORY_ACCESS),
		ASK(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES),
		ASK(DIRECT_MANAGED_MEM_ACCESS_FROM_HOST),
		ASK(HOST_NUMA_ID),
		ASK(HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),
#undef ASK
	};

	for (size_t i = 0; i < ARRAY_SIZE(asked); i++) {
		char text[32];
		int value = 0;
		CUresult e = REAL(cuDeviceGetAttribute, &value,
			asked[i].attribute, device);

		snprintf(text, sizeof(text), "%d", value);
		row(asked[i].name, e ? real_result(e) : text);
	}
}

/* ---- registering --------------------------------------------------------- */

static int memory_file(size_t size)
{
	int fd = memfd_create("probe", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		bail("a memfd of %zu bytes: %m", size);
	return fd;
}

/* The same file, for reading alone. */
static int reopened(int fd)
{
	char path[64];
	int ro;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY | O_CLOEXEC);
	if (ro < 0)
		bail("%s: %m", path);
	return ro;
}

static void *map(int fd, size_t size, int rights, int flags)
{
	void *p = mmap(NULL, size, rights, flags, fd, 0);

	if (p == MAP_FAILED)
		bail("mapping %zu bytes: %m", size);
	return p;
}

static void registering(
	const char *question, int fd, int rights, int flags, unsigned how)
{
	void *p = map(fd, MIB, rights, flags);
	CUdeviceptr at = 0;
	CUresult e = REAL(cuMemHostRegister, p, MIB, how);
	char text[160];

	if (e) {
		row(question, real_result(e));
		munmap(p, MIB);
		return;
	}
	e = REAL(cuMemHostGetDevicePointer, &at, p, 0);
	snprintf(text, sizeof(text), "ok; its address: %s",
		e ? real_result(e)
		  : (at == (uintptr_t)p ? "the host's" : "another"));
	row(question, text);
	REAL(cuMemHostUnregister, p);
	munmap(p, MIB);
}

static void protecting(int fd)
{
	char *p = map(fd, MIB, PROT_READ | PROT_WRITE, MAP_SHARED);
	CUdeviceptr at = 0, copy = 0;
	CUresult e = REAL(cuMemHostRegister, p, MIB, PINNED);

	p[5] = 42;
	row("registered writable, then mprotect to read-only",
		e                                 ? real_result(e)
		: mprotect(p, MIB, PROT_READ) < 0 ? strerror(errno)
						  : "ok");
	if (!e)
		e = REAL(cuMemHostGetDevicePointer, &at, p, 0);
	if (!e)
		e = REAL(cuMemAlloc, &copy, MIB);
	if (!e)
		e = REAL(cuMemcpy, copy, at, MIB);
	row("  and copied to the device after that", real_result(e));
	if (copy)
		REAL(cuMemFree, copy);
	row("  and unregistered", real_result(REAL(cuMemHostUnregister, p)));
	munmap(p, MIB);
}

static void cost(const char *question, unsigned flags)
{
	int fd = memfd_create("probe", MFD_CLOEXEC | flags);
	char text[64];
	double begin;
	void *p;
	CUresult e;

	if (fd < 0 || ftruncate(fd, (off_t)GIB) < 0) {
		row(question, strerror(errno));
		fd_close(fd);
		return;
	}
	p = mmap(NULL, GIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	fd_close(fd);
	if (p == MAP_FAILED || madvise(p, GIB, MADV_POPULATE_WRITE) < 0) {
		row(question, strerror(errno));
		if (p != MAP_FAILED)
			munmap(p, GIB);
		return;
	}
	begin = seconds();
	e = REAL(cuMemHostRegister, p, GIB, PINNED);
	snprintf(text, sizeof(text), "%.1f ms", (seconds() - begin) * 1e3);
	row(question, e ? real_result(e) : text);
	if (!e)
		REAL(cuMemHostUnregister, p);
	munmap(p, GIB);
}

/* ---- memory that the driver makes ---------------------------------------- */

static void exported(CUmemGenericAllocationHandle handle, size_t size)
{
	CUmemGenericAllocationHandle again;
	int fd = -1;
	void *p;
	CUresult e = REAL(cuMemExportToShareableHandle, &fd, handle,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);

	row("  exported as a file descriptor", real_result(e));
	if (e)
		return;
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	row("  which mmap takes", p == MAP_FAILED ? strerror(errno) : "ok");
	if (p != MAP_FAILED)
		munmap(p, size);
	e = REAL(cuMemImportFromShareableHandle, &again, (void *)(intptr_t)fd,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	row("  and which is imported", real_result(e));
	if (!e)
		REAL(cuMemRelease, again);
	fd_close(fd);
}

static void made_by_driver(void)
{
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes =
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0}};
	CUmemGenericAllocationHandle handle;
	size_t size = 0;
	CUresult e = REAL(cuMemGetAllocationGranularity, &size, &prop,
		CU_MEM_ALLOC_GRANULARITY_MINIMUM);

	if (!e)
		e = REAL(cuMemCreate, &handle, size, &prop, 0);
	row("cuMemCreate on NUMA node 0 of the host", real_result(e));
	if (e)
		return;
	exported(handle, size);
	REAL(cuMemRelease, handle);
}

/* ---- all of it ----------------------------------------------------------- */

static void memory(void)
{
	int fd = memory_file(MIB), ro = reopened(fd);
	const unsigned reading = PINNED | CU_MEMHOSTREGISTER_READ_ONLY;

	registering("a writable mapping of a memfd", fd, PROT_READ | PROT_WRITE,
		MAP_SHARED, PINNED);
	registering("a read-only mapping, as writable", ro, PROT_READ,
		MAP_SHARED, PINNED);
	registering("a read-only mapping, for reading", ro, PROT_READ,
		MAP_SHARED, reading);
	registering("a copy-on-write mapping", ro, PROT_READ | PROT_WRITE,
		MAP_PRIVATE, PINNED);
	registering("a copy-on-write mapping, for reading", ro,
		PROT_READ | PROT_WRITE, MAP_PRIVATE, reading);
	protecting(fd);
	cost("registering 1 GiB in pages of 4 KiB", 0);
	cost("registering 1 GiB in pages of 2 MiB", MFD_HUGETLB | MFD_HUGE_2MB);
	made_by_driver();
	fd_close(ro);
	fd_close(fd);
}

static void look_at(int index)
{
	char name[96] = "";
	CUdevice device;
	CUcontext context;
	CUresult e = REAL(cuDeviceGet, &device, index);

	if (!e)
		e = REAL(cuDeviceGetName, name, sizeof(name), device);
	printf("\n%-58s %s\n", "device", e ? real_result(e) : name);
	if (e)
		return;
	attributes(device);
	e = REAL(cuDevicePrimaryCtxRetain, &context, device);
	if (e) {
		row("its primary context", real_result(e));
		return;
	}
	e = REAL(cuCtxPushCurrent, context);
	if (!e) {
		memory();
		REAL(cuCtxPopCurrent, &context);
	}
	REAL(cuDevicePrimaryCtxRelease, device);
}

int main(void)
{
	int version = 0, n;
	const char *why;
	char text[32];

	n = real_load(&why);
	if (!n) {
		printf("no device: %s\n", why);
		return 77;
	}
	REAL(cuDriverGetVersion, &version);
	snprintf(text, sizeof(text), "CUDA %d.%d", version / 1000,
		version % 1000 / 10);
	row("driver", text);
	for (int i = 0; i < n; i++)
		look_at(i);
	return 0;
}
