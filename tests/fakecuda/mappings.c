/* SPDX-License-Identifier: MIT */
/*
 * Where memory of devices is mapped. A reservation is address space of the host
 * without access; a mapping maps the memfd of an allocation there. The device's
 * address is the host's and FAKECUDA_VIRTUAL, at which no process has memory.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/fakecuda/fakecuda.h"
#include "tests/fakecuda/standin.h"

struct reservation {
	struct reservation *next;
	uintptr_t start;
	size_t size;
};

static struct mapping *mappings;
static struct reservation *reservations;

static bool is_granular(size_t n)
{
	return n % GRANULARITY == 0;
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

void judge_mappings(void)
{
	for (struct mapping *m = mappings; m; m = m->next)
		account_fault("%zu bytes at %#lx are still mapped", m->size,
			(unsigned long)m->start);
	for (struct reservation *r = reservations; r; r = r->next)
		account_fault("%zu bytes at %#lx are still reserved", r->size,
			(unsigned long)r->start);
}
