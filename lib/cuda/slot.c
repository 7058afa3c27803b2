/* SPDX-License-Identifier: MIT */
#include "lib/cuda/slot.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fail.h"
#include "base/memory_policy.h"
#include "base/page.h"
#include "base/pci_node.h"

/* Of the lists of slots: no call of the driver is made with it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- making -------------------------------------------------------------- */

static CUresult register_slot(
	const struct cuda_driver *driver, struct cuda_slot *slot)
{
	CUresult e = driver->host_register(slot->memory, CUDA_SLOT,
		CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);

	if (e)
		return e;
	e = driver->host_device_pointer(&slot->at, slot->memory, 0);
	if (e)
		driver->host_unregister(slot->memory);
	return e;
}

/* Close to the device, in huge pages where the kernel has some: both are as well
 * as can be. A child of fork does not have it: after a fork the parent's next
 * write would go to other pages than the device's. */
static char *map(const struct cuda_device *device)
{
	char *whole = mmap(NULL, CUDA_SLOT + HUGE_PAGE, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t before;
	int node;

	if (whole == MAP_FAILED)
		return NULL;
	before = -(uintptr_t)whole & (HUGE_PAGE - 1);
	if (before)
		munmap(whole, before);
	munmap(whole + before + CUDA_SLOT, HUGE_PAGE - before);
	whole += before;
	if (mprotect(whole, CUDA_SLOT, PROT_READ | PROT_WRITE) < 0) {
		munmap(whole, CUDA_SLOT);
		return NULL;
	}
	madvise(whole, CUDA_SLOT, MADV_DONTFORK);
	madvise(whole, CUDA_SLOT, MADV_HUGEPAGE);
	if (pci_node("", device->traits.pci, &node) >= 0)
		(void)memory_prefer(whole, CUDA_SLOT, node);
	memset(whole, 0, CUDA_SLOT);
	return whole;
}

static int make(struct cuda_device *device, struct cuda_slot **ret)
{
	const struct cuda_driver *driver = cuda_devices.driver;
	struct cuda_slot *slot = calloc(1, sizeof(*slot));
	CUresult e = CUDA_SUCCESS;
	int r = 0;

	if (slot)
		slot->memory = map(device);
	if (!slot || !slot->memory)
		r = tarn_fail(ENOMEM,
			"no memory for a slot of %zu bytes between memory and "
			"a device",
			CUDA_SLOT);
	else
		r = cuda_device_enter(driver, device);
	if (r >= 0) {
		e = register_slot(driver, slot);
		cuda_device_leave(driver);
	}
	if (e)
		r = cuda_fail(driver, e,
			"registering a slot of %zu bytes for copies to and "
			"from %s",
			CUDA_SLOT, device->traits.name);
	if (r >= 0) {
		slot->device = device;
		*ret = slot;
		return 0;
	}
	if (slot && slot->memory)
		munmap(slot->memory, CUDA_SLOT);
	free(slot);
	return r;
}

int cuda_slot_take(
	struct cuda_device *device, bool must, struct cuda_slot **ret)
{
	struct cuda_slot *kept;
	bool room;
	int r;

	pthread_mutex_lock(&lock);
	kept = device->slots;
	room = must || device->n_slots < CUDA_SLOTS_MAX;
	if (kept)
		device->slots = kept->next;
	else if (room)
		device->n_slots++;
	pthread_mutex_unlock(&lock);
	if (kept) {
		*ret = kept;
		return 0;
	}
	if (!room)
		return 1;
	r = make(device, ret);
	if (r < 0) {
		pthread_mutex_lock(&lock);
		device->n_slots--;
		pthread_mutex_unlock(&lock);
	}
	/* A copy that has some does with those. */
	return r < 0 && !must ? 1 : r;
}

void cuda_slot_give(struct cuda_device *device, struct cuda_slot *slot)
{
	if (!slot || cuda_is_forked())
		return;
	pthread_mutex_lock(&lock);
	slot->next = device->slots;
	device->slots = slot;
	pthread_mutex_unlock(&lock);
}

void cuda_slots_free(
	const struct cuda_driver *driver, struct cuda_device *device)
{
	bool entered = device->slots &&
		       driver->context_push(device->context) == CUDA_SUCCESS;

	while (device->slots) {
		struct cuda_slot *slot = device->slots;

		device->slots = slot->next;
		/* Of a device that is lost nothing is registered. */
		if (entered)
			driver->host_unregister(slot->memory);
		munmap(slot->memory, CUDA_SLOT);
		free(slot);
		device->n_slots--;
	}
	if (entered)
		cuda_device_leave(driver);
}

void *cuda_slot_memory(const struct cuda_slot *slot)
{
	return slot->memory;
}

int cuda_slot_for(
	const struct cuda_slot *slot, struct cuda_device *device, uint64_t *ret)
{
	CUdeviceptr at = 0;
	CUresult e;
	int r;

	if (device == slot->device) {
		*ret = slot->at;
		return 0;
	}
	r = cuda_device_enter(cuda_devices.driver, device);
	if (r < 0)
		return r;
	e = cuda_devices.driver->host_device_pointer(&at, slot->memory, 0);
	cuda_device_leave(cuda_devices.driver);
	if (e)
		return cuda_fail(cuda_devices.driver, e,
			"a slot of another device on %s", device->traits.name);
	*ret = at;
	return 0;
}
