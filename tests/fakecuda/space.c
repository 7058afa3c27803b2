/* SPDX-License-Identifier: MIT */
/*
 * The one space of addresses: a device's own, which lie above FAKECUDA_VIRTUAL;
 * those that a device has for registered memory of the host; and the host's.
 */
#include <string.h>

#include "base/checked.h"
#include "tests/fakecuda/fakecuda.h"
#include "tests/fakecuda/standin.h"

static bool may(const struct mapping *m, int device, bool writes)
{
	return m->access[device] == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ||
	       (!writes && m->access[device] == CU_MEM_ACCESS_FLAGS_PROT_READ);
}

static bool is_mapped(
	uintptr_t at, size_t size, int device, bool writes, bool peer)
{
	while (size) {
		const struct mapping *m = mapping_of(at);
		size_t n;

		if (!m || !(may(m, device, writes) ||
				  (peer && may(m, m->device, writes))))
			return false;
		n = MIN(size, m->size - (at - m->start));
		at += n;
		size -= n;
	}
	return true;
}

/* All of it; *ret_any: some of it. */
static bool is_registered(uintptr_t at, size_t size, int device, bool writes,
	bool mapped, bool *ret_any)
{
	*ret_any = registration_of(at, size);
	while (size) {
		const struct registration *r = registration_of(at, 1);
		size_t n;

		if (!r ||
			(writes && (r->flags & CU_MEMHOSTREGISTER_READ_ONLY)) ||
			(mapped &&
				(r->device != device &&
					!(r->flags &
						CU_MEMHOSTREGISTER_PORTABLE))))
			return false;
		n = MIN(size, r->size - (at - r->start));
		at += n;
		size -= n;
	}
	return true;
}

enum place place_of(uint64_t at, size_t size, int device, bool writes,
	bool peer, char **ret_host)
{
	uint64_t own = at - FAKECUDA_OFFSET(device);
	bool any;

	if (at >= FAKECUDA_VIRTUAL) {
		*ret_host = (char *)(at - FAKECUDA_VIRTUAL);
		return is_mapped(at - FAKECUDA_VIRTUAL, size, device, writes,
			       peer)
			       ? PLACE_DEVICE
			       : PLACE_NONE;
	}
	if (at >= FAKECUDA_OFFSET(device) &&
		is_registered(own, size, device, writes, true, &any)) {
		*ret_host = (char *)own;
		return PLACE_REGISTERED;
	}
	*ret_host = (char *)at;
	if (is_registered(at, size, device, writes, false, &any))
		return PLACE_REGISTERED;
	return any || at >> 47 ? PLACE_NONE : PLACE_PAGEABLE;
}

/* ---- what an address is -------------------------------------------------- */

static CUresult describe(uint64_t at, unsigned *ret_type, int *ret_device)
{
	const struct mapping *m = at >= FAKECUDA_VIRTUAL
					  ? mapping_of(at - FAKECUDA_VIRTUAL)
					  : NULL;
	const struct registration *r = registration_of(at, 1);

	for (int i = 0; !r && i < DEVICES; i++)
		if (at >= FAKECUDA_OFFSET(i))
			r = registration_of(at - FAKECUDA_OFFSET(i), 1);
	if (m) {
		*ret_type = CU_MEMORYTYPE_DEVICE;
		*ret_device = m->device;
	} else if (r) {
		*ret_type = CU_MEMORYTYPE_HOST;
		*ret_device = r->device;
	} else {
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(
	void *ret, CUpointer_attribute attribute, CUdeviceptr at)
{
	CUresult e = begin();
	CUcontext context;
	unsigned type;
	int device;

	if (!e)
		e = refused("POINTER_ATTRIBUTE", -1);
	if (!e)
		e = describe(at, &type, &device);
	if (e)
		return end(e);
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		memcpy(ret, &type, sizeof(type));
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		memcpy(ret, &device, sizeof(device));
		break;
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		context = context_of(device);
		memcpy(ret, &context, sizeof(context));
		break;
	default:
		e = CUDA_ERROR_INVALID_VALUE;
	}
	return end(e);
}
