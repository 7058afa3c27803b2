/* SPDX-License-Identifier: MIT */
/* Memory of the host: registration, as far as it can be told from outside. */
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/fakecuda/fakecuda.h"
#include "tests/fakecuda/standin.h"

static struct registration *registrations;

const struct registration *registration_of(uintptr_t start, size_t size)
{
	struct registration *r = registrations;

	while (r && !(r->start < start + size && start < r->start + r->size))
		r = r->next;
	return r;
}

void judge_host(void)
{
	for (struct registration *r = registrations; r; r = r->next)
		account_fault("%zu bytes at %#lx are still registered", r->size,
			(unsigned long)r->start);
}

/* May all those bytes be read, and written? */
static bool is_mapped(uintptr_t start, size_t size, bool *ret_writable)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uintptr_t at = start;
	char line[512];

	*ret_writable = true;
	while (maps && at < start + size && fgets(line, sizeof(line), maps)) {
		unsigned long first, stop;
		char rights[5];

		if (sscanf(line, "%lx-%lx %4s", &first, &stop, rights) != 3 ||
			stop <= at)
			continue;
		if (first > at || rights[0] != 'r')
			break;
		*ret_writable = *ret_writable && rights[1] == 'w';
		at = stop;
	}
	if (maps)
		fclose(maps);
	return at >= start + size;
}

/* ---- registering --------------------------------------------------------- */

static CUresult can_register(const struct registration *r)
{
	bool read_only = r->flags & CU_MEMHOSTREGISTER_READ_ONLY, writable;

	if (!is_mapped(r->start, r->size, &writable))
		return CUDA_ERROR_INVALID_VALUE;
	if (read_only && !setting("READ_ONLY", r->device, 0))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!writable && !read_only && !setting("PAGE_TABLES", r->device, 0))
		return CUDA_ERROR_INVALID_VALUE;
	if (registration_of(r->start, r->size))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	return CUDA_SUCCESS;
}

static CUresult add(const struct registration *r)
{
	CUresult e = r->device < 0 ? CUDA_ERROR_INVALID_CONTEXT
				   : refused("REGISTER", r->device);
	struct registration *own;

	if (!e)
		e = can_register(r);
	if (e)
		return e;
	own = malloc(sizeof(*own));
	if (!own)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*own = *r;
	own->next = registrations;
	registrations = own;
	return CUDA_SUCCESS;
}

#define GATE_MS 60000

static _Atomic uint64_t waiting;

uint64_t fakecuda_waiting(void)
{
	return atomic_load(&waiting);
}

static void wait_at_gate(int device)
{
	struct pollfd gate = {.fd = (int)setting("REGISTER_GATE", device, -1),
		.events = POLLIN};

	if (gate.fd < 0)
		return;
	atomic_fetch_add(&waiting, 1);
	poll(&gate, 1, GATE_MS);
	atomic_fetch_sub(&waiting, 1);
}

CUresult cuMemHostRegister(void *start, size_t size, unsigned flags)
{
	struct registration r = {.start = (uintptr_t)start,
		.size = size,
		.flags = flags,
		.device = current_device()};
	CUresult e;

	wait_at_gate(r.device);
	e = begin();
	return end(e ? e : add(&r));
}

static CUresult take_away(uintptr_t start)
{
	struct registration **at = &registrations, *r;
	CUresult e = current_device() < 0
			     ? CUDA_ERROR_INVALID_CONTEXT
			     : refused("HOST_UNREGISTER", current_device());
	bool writable;

	if (e)
		return e;
	while (*at && (*at)->start != start)
		at = &(*at)->next;
	r = *at;
	if (!r)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	if (!is_mapped(start, r->size, &writable))
		account_fault("%zu bytes at %#lx are unregistered after they "
			      "were unmapped",
			r->size, (unsigned long)start);
	*at = r->next;
	free(r);
	return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *start)
{
	CUresult e = begin();

	return end(e ? e : take_away((uintptr_t)start));
}

CUresult cuMemHostGetDevicePointer(
	CUdeviceptr *ret, void *start, unsigned flags)
{
	int device = current_device();
	const struct registration *r;
	CUresult e = begin();

	(void)flags;
	if (!e)
		e = device < 0 ? CUDA_ERROR_INVALID_CONTEXT
			       : refused("HOST_DEVICE_POINTER", device);
	if (e)
		return end(e);
	r = registration_of((uintptr_t)start, 1);
	if (!r || !(r->flags & CU_MEMHOSTREGISTER_DEVICEMAP) ||
		(r->device != device &&
			!(r->flags & CU_MEMHOSTREGISTER_PORTABLE)))
		return end(CUDA_ERROR_INVALID_VALUE);
	*ret = (uintptr_t)start + FAKECUDA_OFFSET(device);
	return end(CUDA_SUCCESS);
}
