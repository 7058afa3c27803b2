/* SPDX-License-Identifier: MIT */
/*
 * Memory of devices. An allocation is a memfd, whose name says which device it
 * is of; so the processes that import it share its bytes.
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

static struct memory *memories;

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

struct memory *memory_of(CUmemGenericAllocationHandle handle)
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

void drop_unused(struct memory *m)
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
	if (!size || size % GRANULARITY)
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

CUresult cuMemGetAllocationPropertiesFromHandle(
	CUmemAllocationProp *ret, CUmemGenericAllocationHandle handle)
{
	CUresult e = begin();
	struct memory *m = e ? NULL : memory_of(handle);

	if (!e && !m)
		e = CUDA_ERROR_INVALID_VALUE;
	if (!e)
		e = refused("MEMORY_PROPERTIES", m->device);
	if (!e)
		*ret = (CUmemAllocationProp) {
			.type = CU_MEM_ALLOCATION_TYPE_PINNED,
			.requestedHandleTypes =
				CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
			.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
				.id = m->device}};
	return end(e);
}

/* ---- the account --------------------------------------------------------- */

void judge_memory(void)
{
	for (struct memory *m = memories; m; m = m->next)
		if (m->held)
			account_fault("%zu bytes of device %d are still %s",
				m->size, m->device,
				m->created ? "allocated" : "imported");
}
