/* SPDX-License-Identifier: MIT */
/*
 * Memory of devices, made, mapped and shared in separate steps. An allocation is
 * a memfd, whose name says which device it is of; so the processes that import
 * it share its bytes. A reservation is address space of the host without access;
 * a mapping maps the memfd there. The device's address is the host's and
 * FAKECUDA_VIRTUAL, at which no process has memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fakecuda/fakecuda.h"
#include "tests/fakecuda/standin.h"

#define NAME "fakecuda-memory-"
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define DEFAULT_MEMORY ((long)256 << 20)

struct memory {
	struct memory *next;
	int fd, device;
	size_t size;
	bool created; /* by this process, which it is charged to */
	bool held;    /* by its handle */
	unsigned mappings;
};

struct reservation {
	struct reservation *next;
	uintptr_t start;
	size_t size;
};

static struct memory *memories;
static struct mapping *mappings;
static struct reservation *reservations;

static bool is_granular(size_t n)
{
	return n % GRANULARITY == 0;
}

/* ---- allocations --------------------------------------------------------- */

static size_t total_of(int device)
{
	return (size_t)setting("MEMORY", device, DEFAULT_MEMORY);
}

static size_t used_of(int device)
{
	size_t used = 0;

	for (struct memory *m = memories; m; m = m->next)
		if (m->created && m->device == device)
			used += m->size;
	return used;
}

static struct memory *memory_of(CUmemGenericAllocationHandle handle)
{
	struct memory *m = memories;

	while (m && (uintptr_t)m != handle)
		m = m->next;
	if (m && m->held)
		return m;
	account_fault("%#llx is not the handle of an allocation", handle);
	return NULL;
}

static CUresult add(int fd, size_t size, int device, bool created,
	CUmemGenericAllocationHandle *ret)
{
	struct memory *m = malloc(sizeof(*m));

	if (!m) {
		close(fd);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*m = (struct memory) {.next = memories,
		.fd = fd,
		.device = device,
		.size = size,
		.created = created,
		.held = true};
	memories = m;
	*ret = (uintptr_t)m;
	return CUDA_SUCCESS;
}

static void drop_unused(struct memory *m)
{
	struct memory **at = &memories;

	if (m->held || m->mappings)
		return;
	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	close(m->fd);
	free(m);
}

static CUresult check_properties(const CUmemAllocationProp *prop)
{
	if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
		prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		prop->requestedHandleTypes !=
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->location.id < 0 || prop->location.id >= device_count())
		return CUDA_ERROR_INVALID_DEVICE;
	return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *ret,
	const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags kind)
{
	CUresult e = begin();

	(void)kind;
	if (!e)
		e = check_properties(prop);
	if (!e)
		e = refused("MEMORY_GRANULARITY", prop->location.id);
	if (!e)
		*ret = GRANULARITY;
	return end(e);
}

static CUresult create(CUmemGenericAllocationHandle *ret, size_t size,
	const CUmemAllocationProp *prop)
{
	CUresult e = check_properties(prop);
	char name[32];
	int device, fd;

	if (e)
		return e;
	device = prop->location.id;
	e = refused("MEMORY_CREATE", device);
	if (e)
		return e;
	if (!size || !is_granular(size))
		return CUDA_ERROR_INVALID_VALUE;
	if (used_of(device) > total_of(device) ||
		size > total_of(device) - used_of(device))
		return CUDA_ERROR_OUT_OF_MEMORY;
	snprintf(name, sizeof(name), NAME "%d", device);
	fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (ftruncate(fd, (off_t)size) < 0 || fcntl(fd, F_ADD_SEALS, SEALS)) {
		close(fd);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return add(fd, size, device, true, ret);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *ret, size_t size,
	const CUmemAllocationProp *prop, unsigned long long flags)
{
	CUresult e = begin();

	if (!e && flags)
		e = CUDA_ERROR_INVALID_VALUE;
	return end(e ? e : create(ret, size, prop));
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	CUresult e = begin();
	struct memory *m = e ? NULL : memory_of(handle);

	if (!e && !m)
		e = CUDA_ERROR_INVALID_VALUE;
	if (!e)
		e = refused("MEMORY_RELEASE", m->device);
	if (!e) {
		m->held = false;
		drop_unused(m);
	}
	return end(e);
}

CUresult cuMemGetInfo(size_t *ret_free, size_t *ret_total)
{
	int device = current_device();
	CUresult e = begin();

	if (!e)
		e = device < 0 ? CUDA_ERROR_INVALID_CONTEXT
			       : refused("MEMORY_INFO", device);
	if (!e) {
		*ret_total = total_of(device);
		*ret_free = used_of(device) < *ret_total
				    ? *ret_total - used_of(device)
				    : 0;
	}
	return end(e);
}

/* ---- sharing ------------------------------------------------------------- */

CUresult cuMemExportToShareableHandle(void *ret,
	CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
	unsigned long long flags)
{
	CUresult e = begin();
	struct memory *m = e ? NULL : memory_of(handle);
	int fd = -1;

	if (!e && (!m || flags ||
			  type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		e = CUDA_ERROR_INVALID_VALUE;
	if (!e)
		e = refused("MEMORY_EXPORT", m->device);
	if (!e)
		fd = fcntl(m->fd, F_DUPFD_CLOEXEC, 0);
	if (!e && fd < 0)
		e = CUDA_ERROR_OPERATING_SYSTEM;
	if (!e)
		memcpy(ret, &fd, sizeof(fd));
	return end(e);
}

/* Is it an allocation of a stand-in, of any process? */
static bool recognise(int fd, size_t *ret_size, int *ret_device)
{
	char path[64], name[64];
	struct stat st;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, name, sizeof(name) - 1);
	if (n < 0 || fstat(fd, &st) < 0)
		return false;
	name[n] = '\0';
	if (sscanf(name, "/memfd:" NAME "%d (deleted)", ret_device) != 1 ||
		fcntl(fd, F_GET_SEALS) != SEALS)
		return false;
	*ret_size = (size_t)st.st_size;
	return true;
}

static CUresult import(CUmemGenericAllocationHandle *ret, int fd)
{
	CUresult e;
	size_t size;
	int device, own;

	if (!recognise(fd, &size, &device))
		return CUDA_ERROR_INVALID_VALUE;
	if (device < 0 || device >= device_count())
		return CUDA_ERROR_INVALID_DEVICE;
	e = refused("MEMORY_IMPORT", device);
	if (e)
		return e;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	return add(own, size, device, false, ret);
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *ret,
	void *os_handle, CUmemAllocationHandleType type)
{
	CUresult e = begin();

	if (!e && type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		e = CUDA_ERROR_INVALID_VALUE;
	return end(e ? e : import(ret, (int)(intptr_t)os_handle));
}

/* ---- address space ------------------------------------------------------- */

static CUresult reserve(CUdeviceptr *ret, size_t size)
{
	struct reservation *r;
	uintptr_t start, at;
	void *p;

	if (!size || !is_granular(size) || size > SIZE_MAX - GRANULARITY)
		return CUDA_ERROR_INVALID_VALUE;
	p = mmap(NULL, size + GRANULARITY, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	r = malloc(sizeof(*r));
	if (p == MAP_FAILED || !r) {
		if (p != MAP_FAILED)
			munmap(p, size + GRANULARITY);
		free(r);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	at = (uintptr_t)p;
	start = (at + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
	if (start > at)
		munmap(p, start - at);
	if (at + GRANULARITY > start)
		munmap((void *)(start + size), at + GRANULARITY - start);
	*r = (struct reservation) {
		.next = reservations, .start = start, .size = size};
	reservations = r;
	*ret = start + FAKECUDA_VIRTUAL;
	return CUDA_SUCCESS;
}

/* The address and the flags must be 0 in the stand-in: the caller has no reason
 * for others. */
CUresult cuMemAddressReserve(CUdeviceptr *ret, size_t size, size_t alignment,
	CUdeviceptr at, unsigned long long flags)
{
	CUresult e = begin();

	if (!e)
		e = refused("ADDRESS_RESERVE", -1);
	if (!e && (at || flags || alignment > GRANULARITY))
		e = CUDA_ERROR_INVALID_VALUE;
	return end(e ? e : reserve(ret, size));
}

const struct mapping *mapping_of(uintptr_t at)
{
	struct mapping *m = mappings;

	while (m && !(m->start <= at && at - m->start < m->size))
		m = m->next;
	return m;
}

static bool has_mapping(uintptr_t start, size_t size)
{
	for (struct mapping *m = mappings; m; m = m->next)
		if (m->start < start + size && start < m->start + m->size)
			return true;
	return false;
}

static CUresult address_free(uintptr_t start, size_t size)
{
	struct reservation **at = &reservations, *r;

	while (*at && ((*at)->start != start || (*at)->size != size))
		at = &(*at)->next;
	r = *at;
	if (!r || has_mapping(start, size)) {
		account_fault("%zu bytes at %#lx are freed: they are %s", size,
			(unsigned long)start,
			r ? "still mapped" : "no reservation");
		return CUDA_ERROR_INVALID_VALUE;
	}
	*at = r->next;
	munmap((void *)start, size);
	free(r);
	return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr at, size_t size)
{
	CUresult e = begin();

	if (!e)
		e = refused("ADDRESS_FREE", -1);
	return end(e ? e : address_free(at - FAKECUDA_VIRTUAL, size));
}

/* ---- mappings ------------------------------------------------------------ */

static bool is_reserved(uintptr_t start, size_t size)
{
	for (struct reservation *r = reservations; r; r = r->next)
		if (r->start <= start && start - r->start <= r->size &&
			size <= r->size - (start - r->start))
			return true;
	return false;
}

static CUresult map(uintptr_t start, size_t size, struct memory *memory)
{
	struct mapping *m;

	if (size != memory->size || !is_granular(start) ||
		!is_reserved(start, size) || has_mapping(start, size))
		return CUDA_ERROR_INVALID_VALUE;
	m = calloc(1, sizeof(*m));
	if (!m || mmap((void *)start, size, PROT_NONE, MAP_SHARED | MAP_FIXED,
			  memory->fd, 0) == MAP_FAILED) {
		free(m);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	m->start = start;
	m->size = size;
	m->memory = memory;
	m->device = memory->device;
	m->next = mappings;
	mappings = m;
	memory->mappings++;
	return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr at, size_t size, size_t offset,
	CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	CUresult e = begin();
	struct memory *m = e ? NULL : memory_of(handle);

	if (!e && (!m || offset || flags))
		e = CUDA_ERROR_INVALID_VALUE;
	if (!e)
		e = refused("MEMORY_MAP", m->device);
	return end(e ? e : map(at - FAKECUDA_VIRTUAL, size, m));
}

/* Whole mappings that fill the range. */
static bool is_filled(uintptr_t start, size_t size)
{
	while (size) {
		const struct mapping *m = mapping_of(start);

		if (!m || m->start != start || m->size > size)
			return false;
		start += m->size;
		size -= m->size;
	}
	return true;
}

static void unmap(uintptr_t start, size_t size)
{
	for (struct mapping **at = &mappings, *m; (m = *at);) {
		if (m->start < start || m->start >= start + size) {
			at = &m->next;
			continue;
		}
		*at = m->next;
		mmap((void *)m->start, m->size, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
			-1, 0);
		m->memory->mappings--;
		drop_unused(m->memory);
		free(m);
	}
}

CUresult cuMemUnmap(CUdeviceptr at, size_t size)
{
	uintptr_t start = at - FAKECUDA_VIRTUAL;
	CUresult e = begin();

	if (!e)
		e = refused("MEMORY_UNMAP", -1);
	if (!e && (!size || !is_filled(start, size))) {
		account_fault("%zu bytes at %#lx are unmapped: they are no "
			      "mappings",
			size, (unsigned long)start);
		e = CUDA_ERROR_INVALID_VALUE;
	}
	if (!e)
		unmap(start, size);
	return end(e);
}

static CUresult check_access(const CUmemAccessDesc *desc, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		CUresult e;

		if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
			desc[i].location.id < 0 ||
			desc[i].location.id >= device_count())
			return CUDA_ERROR_INVALID_DEVICE;
		e = refused("MEMORY_SET_ACCESS", desc[i].location.id);
		if (e)
			return e;
	}
	return CUDA_SUCCESS;
}

/* The host's rights are those of all devices together; which device may do what
 * is told by place_of. */
static void set_access(struct mapping *m, const CUmemAccessDesc *desc, size_t n)
{
	int rights = PROT_NONE;

	for (size_t i = 0; i < n; i++)
		m->access[desc[i].location.id] = (uint8_t)desc[i].flags;
	for (int i = 0; i < DEVICES; i++)
		if (m->access[i] == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			rights |= PROT_READ | PROT_WRITE;
		else if (m->access[i] == CU_MEM_ACCESS_FLAGS_PROT_READ)
			rights |= PROT_READ;
	mprotect((void *)m->start, m->size, rights);
}

CUresult cuMemSetAccess(
	CUdeviceptr at, size_t size, const CUmemAccessDesc *desc, size_t n)
{
	uintptr_t start = at - FAKECUDA_VIRTUAL;
	CUresult e = begin();

	if (!e && (!size || !n || !is_filled(start, size)))
		e = CUDA_ERROR_INVALID_VALUE;
	if (!e)
		e = check_access(desc, n);
	for (struct mapping *m = mappings; !e && m; m = m->next)
		if (m->start >= start && m->start < start + size)
			set_access(m, desc, n);
	return end(e);
}

/* ---- the account --------------------------------------------------------- */

void judge_memory(void)
{
	for (struct mapping *m = mappings; m; m = m->next)
		account_fault("%zu bytes at %#lx are still mapped", m->size,
			(unsigned long)m->start);
	for (struct memory *m = memories; m; m = m->next)
		if (m->held)
			account_fault("%zu bytes of device %d are still %s",
				m->size, m->device,
				m->created ? "allocated" : "imported");
	for (struct reservation *r = reservations; r; r = r->next)
		account_fault("%zu bytes at %#lx are still reserved", r->size,
			(unsigned long)r->start);
}
