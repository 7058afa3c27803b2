/* SPDX-License-Identifier: MIT */
#include "lib/cuda/memory.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/cuda/room.h"

struct cuda_memory {
	struct cuda_device *device; /* in use */
	uint64_t wanted;            /* bytes */
	uint64_t size;              /* of whole granules */
	CUdeviceptr at;
	CUmemGenericAllocationHandle handle;
	bool mapped;
	atomic_bool shown; /* other code may have queued work on it */
	bool read_only;    /* as far as the driver knows that */
	bool borrowed;     /* of the rest only at is used, and: */
	void (*release)(void *arg);
	void *arg;
};

static const struct cuda_driver *driver(void)
{
	return cuda_devices.driver;
}

static CUmemLocation location(const struct cuda_device *device)
{
	return (CUmemLocation) {
		.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->handle};
}

static CUmemAllocationProp properties(const struct cuda_device *device)
{
	return (CUmemAllocationProp) {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes =
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = location(device),
	};
}

static int failed(
	const struct cuda_memory *memory, CUresult e, const char *what)
{
	return cuda_fail(driver(), e, "%s %llu bytes of memory of %s", what,
		(unsigned long long)memory->size, memory->device->traits.name);
}

/* ---- steps, each in the device's context --------------------------------- */

static CUresult make_whole(const struct cuda_memory *memory, uint64_t *size)
{
	CUmemAllocationProp p = properties(memory->device);
	size_t granule = 0;
	CUresult e = driver()->memory_granularity(
		&granule, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM);

	if (e)
		return e;
	if (!granule || round_up_u64(*size, granule, size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return CUDA_SUCCESS;
}

static int no_room(const struct cuda_memory *memory)
{
	size_t left = 0, all = 0;

	if (driver()->memory_info(&left, &all))
		return failed(memory, CUDA_ERROR_OUT_OF_MEMORY, "making");
	return tarn_fail(ENOMEM,
		"%s has not %llu bytes of memory left, but %zu of %zu",
		memory->device->traits.name, (unsigned long long)memory->size,
		left, all);
}

static int make(struct cuda_memory *memory)
{
	CUmemAllocationProp p = properties(memory->device);
	CUresult e =
		driver()->memory_create(&memory->handle, memory->size, &p, 0);

	if (e == CUDA_ERROR_OUT_OF_MEMORY)
		return no_room(memory);
	return e ? failed(memory, e, "making") : 0;
}

/* The publisher said which device it is: memory of another one would be mapped
 * as well, for kernels that read it over the link between the two. */
static int check_place(const struct cuda_memory *memory)
{
	CUmemAllocationProp p = {0};
	CUresult e = driver()->memory_properties(&p, memory->handle);

	/* Some drivers tell nothing of what was imported. */
	if (e == CUDA_ERROR_NOT_SUPPORTED)
		return 0;
	if (e)
		return failed(memory, e, "asking for the place of");
	if (p.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
		p.location.id == memory->device->handle)
		return 0;
	return tarn_fail(EINVAL,
		"the memory that was imported is of %s %d, not of device %d "
		"(%s) as its publisher says",
		p.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? "device"
							       : "a place",
		p.location.id, memory->device->handle,
		memory->device->traits.name);
}

static int import(struct cuda_memory *memory, int fd)
{
	CUresult e = driver()->memory_import(&memory->handle,
		(void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);

	/* The driver checks what it is given. */
	if (e == CUDA_ERROR_INVALID_VALUE)
		return tarn_fail(EINVAL,
			"descriptor %d leads to no memory of a device", fd);
	return e ? failed(memory, e, "importing") : check_place(memory);
}

static int reserve(struct cuda_memory *memory)
{
	CUresult e =
		driver()->address_reserve(&memory->at, memory->size, 0, 0, 0);

	return e ? failed(memory, e, "reserving addresses for") : 0;
}

static CUresult grant(
	const struct cuda_memory *memory, CUmemAccess_flags rights)
{
	const CUmemAccessDesc access = {
		.location = location(memory->device), .flags = rights};

	return driver()->memory_set_access(
		memory->at, memory->size, &access, 1);
}

static int map(struct cuda_memory *memory)
{
	CUresult e = driver()->memory_map(
		memory->at, memory->size, 0, memory->handle, 0);

	if (e == CUDA_ERROR_INVALID_VALUE && memory->read_only)
		return tarn_fail(EINVAL,
			"the memory that was imported has not %llu bytes",
			(unsigned long long)memory->size);
	if (e)
		return failed(memory, e, "mapping");
	memory->mapped = true;
	e = CUDA_ERROR_NOT_SUPPORTED;
	if (memory->read_only)
		e = grant(memory, CU_MEM_ACCESS_FLAGS_PROT_READ);
	/* Not every driver knows memory that kernels only read. */
	if (e == CUDA_ERROR_NOT_SUPPORTED || e == CUDA_ERROR_INVALID_VALUE)
		e = grant(memory, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	return e ? failed(memory, e, "mapping") : 0;
}

static void unmap(struct cuda_memory *memory)
{
	if (memory->mapped)
		driver()->memory_unmap(memory->at, memory->size);
	if (memory->handle)
		driver()->memory_release(memory->handle);
	memory->mapped = false;
	memory->handle = 0;
}

/* In a queue of its own, so that it waits for nobody's work. */
static int clear(const struct cuda_memory *memory)
{
	struct cuda_queue *queue;
	int r = cuda_queue_new(memory->device, &queue);

	if (r < 0)
		return r;
	r = cuda_queue_clear(queue, memory->at, memory->size);
	if (r >= 0)
		r = cuda_queue_mark(queue, 0);
	if (r >= 0)
		r = cuda_queue_wait(queue, 0);
	cuda_queue_free(queue);
	return r;
}

/* ---- life ---------------------------------------------------------------- */

/* fd: -1 for new memory. */
static int fill(struct cuda_memory *memory, uint64_t size, int fd)
{
	CUresult e = make_whole(memory, &size);
	int r;

	memory->size = size;
	if (e)
		return failed(memory, e, "rounding");
	r = fd < 0 ? make(memory) : import(memory, fd);
	if (r >= 0)
		r = reserve(memory);
	if (r >= 0)
		r = map(memory);
	if (r >= 0 && fd < 0)
		r = clear(memory);
	return r;
}

static int memory_new(
	const uint8_t uuid[16], uint64_t size, int fd, struct cuda_memory **ret)
{
	struct cuda_memory *memory = calloc(1, sizeof(*memory));
	int r;

	if (!memory)
		return tarn_fail(
			ENOMEM, "no memory to note memory of a device");
	memory->wanted = size;
	memory->read_only = fd >= 0;
	r = cuda_use(uuid, &memory->device);
	if (r < 0) {
		free(memory);
		return r;
	}
	r = cuda_device_enter(driver(), memory->device);
	if (r >= 0) {
		r = fill(memory, MAX(size, 1u), fd);
		cuda_device_leave(driver());
	}
	if (r >= 0)
		*ret = memory;
	else
		cuda_memory_free(memory);
	return r;
}

int cuda_memory_new(
	const uint8_t uuid[16], uint64_t size, struct cuda_memory **ret)
{
	return memory_new(uuid, size, -1, ret);
}

int cuda_memory_import(
	const uint8_t uuid[16], int fd, uint64_t size, struct cuda_memory **ret)
{
	if (fd < 0)
		return tarn_fail(EBADF, "descriptor %d", fd);
	return memory_new(uuid, size, fd, ret);
}

/* Does the driver know the address as that device's? */
static int check_lent(const struct cuda_memory *memory)
{
	int ordinal = -1, r;
	CUresult e;

	if (!memory->size)
		return 0;
	r = cuda_device_enter(driver(), memory->device);
	if (r < 0)
		return r;
	e = driver()->pointer_attribute(
		&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory->at);
	cuda_device_leave(driver());
	if (e == CUDA_ERROR_INVALID_VALUE)
		return tarn_fail(EINVAL, "%#llx is no address of a device",
			(unsigned long long)memory->at);
	if (e)
		return failed(memory, e, "looking at");
	if (ordinal != memory->device->handle)
		return tarn_fail(EINVAL,
			"%#llx is an address of device %d, not of device %d",
			(unsigned long long)memory->at, ordinal,
			memory->device->handle);
	return 0;
}

int cuda_memory_borrow(const uint8_t uuid[16], uint64_t at, uint64_t size,
	struct cuda_memory **ret)
{
	struct cuda_memory *memory = calloc(1, sizeof(*memory));
	int r;

	if (!memory)
		return tarn_fail(
			ENOMEM, "no memory to note memory of a device");
	r = cuda_use(uuid, &memory->device);
	if (r < 0) {
		free(memory);
		return r;
	}
	memory->borrowed = true;
	memory->at = at;
	memory->wanted = memory->size = size;
	r = check_lent(memory);
	if (r >= 0)
		*ret = memory;
	else
		cuda_memory_free(memory);
	return r;
}

void cuda_memory_release_by(
	struct cuda_memory *memory, void (*release)(void *arg), void *arg)
{
	memory->release = release;
	memory->arg = arg;
}

/* In the device's context. Nobody tells which streams have work on memory whose
 * address is known: so all must have done theirs. */
static void free_own(struct cuda_memory *memory)
{
	if (atomic_load_explicit(&memory->shown, memory_order_relaxed))
		driver()->context_synchronize();
	unmap(memory);
	if (memory->at)
		driver()->address_free(memory->at, memory->size);
}

struct cuda_memory *cuda_memory_free(struct cuda_memory *memory)
{
	if (!memory)
		return NULL;
	if (memory->release)
		memory->release(memory->arg);
	/* Where it cannot be entered the device is lost, and its memory. */
	if (!memory->borrowed && !cuda_is_forked() &&
		driver()->context_push(memory->device->context) ==
			CUDA_SUCCESS) {
		free_own(memory);
		cuda_device_leave(driver());
	}
	cuda_unuse(memory->device);
	free(memory);
	return NULL;
}

/* ---- sharing ------------------------------------------------------------- */

int cuda_memory_export(const struct cuda_memory *memory, int *ret_fd)
{
	int fd = -1;
	CUresult e;

	if (cuda_is_forked())
		return cuda_fail_forked();
	if (memory->borrowed)
		return tarn_fail_constant(ENOTSUP,
			"memory of a device that other code has allocated "
			"cannot be shared; copy it to memory from "
			"tarn_cuda_alloc");
	e = driver()->memory_export(&fd, memory->handle,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	if (e)
		return failed(memory, e, "exporting");
	*ret_fd = fd;
	return 0;
}

bool cuda_memory_is_borrowed(const struct cuda_memory *memory)
{
	return memory->borrowed;
}

uint64_t cuda_memory_at(const struct cuda_memory *memory)
{
	return memory->at;
}

void cuda_memory_show(struct cuda_memory *memory)
{
	/* Relaxed: what frees it has all references, and so this. */
	atomic_store_explicit(&memory->shown, true, memory_order_relaxed);
}

uint64_t cuda_memory_size(const struct cuda_memory *memory)
{
	return memory->wanted;
}

struct cuda_device *cuda_memory_device(const struct cuda_memory *memory)
{
	return memory->device;
}

int cuda_memory_read(const struct cuda_memory *memory, uint64_t offset,
	void *buf, uint64_t size)
{
	struct cuda_queue *queue;
	int r = cuda_queue_new(memory->device, &queue);

	if (r < 0)
		return r;
	r = cuda_queue_after(queue, NULL);
	if (r >= 0)
		r = cuda_queue_bytes(
			queue, (uintptr_t)buf, memory->at + offset, size);
	if (r >= 0)
		r = cuda_queue_mark(queue, 0);
	if (r >= 0)
		r = cuda_queue_wait(queue, 0);
	cuda_queue_free(queue);
	return r;
}

int cuda_memory_unmap(struct cuda_memory *memory)
{
	int r = cuda_is_forked() ? cuda_fail_forked()
				 : cuda_device_enter(driver(), memory->device);

	if (r < 0)
		return r;
	unmap(memory);
	cuda_device_leave(driver());
	return 0;
}

int cuda_memory_map(struct cuda_memory *memory, int fd)
{
	int r = cuda_is_forked() ? cuda_fail_forked()
				 : cuda_device_enter(driver(), memory->device);

	if (r < 0)
		return r;
	r = import(memory, fd);
	if (r >= 0)
		r = map(memory);
	if (r < 0)
		unmap(memory);
	cuda_device_leave(driver());
	return r;
}
