/* SPDX-License-Identifier: MIT */
/*
 * Registration: once for each range of addresses, for as many devices as ask.
 *
 * A range is registered by the first device that asks for it, portable, so that
 * the contexts of others see it too; each of them then asks for its own address.
 * Every user of a range holds its device's primary context, so that the context
 * outlives the registration.
 *
 * The driver pins memory for 0.1 s/GB, and with the room's lock held all copies
 * would wait for that. So it is registered without the lock, in these steps:
 *	1. with the lock: no range overlaps it, so a new one is added, which is
 *	   busy and has no user; the device's context is held;
 *	2. without: the driver registers it, and tells its address;
 *	3. with the lock: it has its first user, or is removed; it is not busy
 *	   any more, and those that wait are told.
 * A busy range is changed and removed by step 3 alone: who finds it otherwise
 * waits for that, and looks again (cuda_reach, cuda_forget), or takes it for a
 * range that has no user, which it is (cuda_known). So no two threads register
 * overlapping memory, none gets an address before the driver has given it, and
 * what is to be unmapped has been unregistered. Between 1 and 3 the thread has
 * no pointer into the list, which others change; it finds the range by its
 * start. All of what a range has is read and written with the lock, which orders
 * 3 before what the others see. Nobody waits with a busy range of its own, so
 * each wait ends. A fork does not wait: the child has no ranges.
 *
 * The driver does not survive a fork. In a child of a process that had loaded
 * it nothing is registered, and no call reaches the driver.
 */
#include "lib/cuda/cuda.h"

#include <stdatomic.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/cuda/queue.h"
#include "lib/cuda/ranges.h"
#include "lib/cuda/room.h"

/* Picked: registering more in one call fails on some drivers, and holds the
 * kernel's lock on the address space for minutes. */
#define CHUNK ((uint64_t)64 << 30)

static struct cuda_ranges ranges;
/* ranges.n, for a look without the lock. */
static atomic_uint n_ranges;

void cuda_ranges_forget_all(void)
{
	cuda_ranges_clear(&ranges);
	atomic_store_explicit(&n_ranges, 0, memory_order_relaxed);
}

static void end(void)
{
	atomic_store_explicit(&n_ranges, ranges.n, memory_order_relaxed);
	cuda_end();
}

/* ---- one range ----------------------------------------------------------- */

static bool has_user(
	const struct cuda_range *range, const struct cuda_device *device)
{
	return range->users & 1u << device->index;
}

static void add_user(
	struct cuda_range *range, const struct cuda_device *device, uint64_t at)
{
	range->users |= 1u << device->index;
	range->at[device->index] = at;
}

/* In the device's context: registers it where flags are given, and asks for the
 * address. */
static CUresult map_range(
	const struct cuda_range *range, unsigned flags, CUdeviceptr *ret)
{
	const struct cuda_driver *driver = cuda_devices.driver;
	void *start = (void *)range->start;
	CUresult e = CUDA_SUCCESS;

	if (flags)
		e = driver->host_register(
			start, range->end - range->start, flags);
	if (e)
		return e;
	e = driver->host_device_pointer(ret, start, 0);
	if (e && flags)
		driver->host_unregister(start);
	return e;
}

static int registration_failed(const struct cuda_range *range,
	const struct cuda_device *device, CUresult e)
{
	int r = cuda_fail(cuda_devices.driver, e,
		"registering %llu bytes of memory for %s",
		(unsigned long long)(range->end - range->start),
		device->traits.name);

	return r == -EBUSY ? tarn_fail_prefix(r,
				     "other code in this process has "
				     "registered a part of this memory "
				     "(cudaHostRegister) and must unregister "
				     "it first: ")
			   : r;
}

/* With the device's context, which is held; needs no lock. 0, an error, or 1: the
 * device does not support it. */
static int map_for(const struct cuda_range *range,
	const struct cuda_device *device, unsigned flags, uint64_t *ret)
{
	const struct cuda_driver *driver = cuda_devices.driver;
	CUdeviceptr at = 0;
	int r = cuda_device_enter(driver, device);
	CUresult e;

	if (r < 0)
		return r;
	e = map_range(range, flags, &at);
	cuda_device_leave(driver);
	if (e == CUDA_ERROR_NOT_SUPPORTED)
		return 1;
	if (e)
		return registration_failed(range, device, e);
	*ret = at;
	return 0;
}

/* Lets one more device use a range that is registered. As map_for. */
static int use_range(struct cuda_range *range, struct cuda_device *device)
{
	uint64_t at = 0;
	int r = cuda_device_hold(cuda_devices.driver, device);

	if (r < 0)
		return r;
	r = map_for(range, device, 0, &at);
	if (r) {
		cuda_device_drop(cuda_devices.driver, device);
		return r;
	}
	add_user(range, device, at);
	range->holders |= 1u << device->index;
	return 0;
}

/* Steps 1 to 3: the list has a busy copy of the range meanwhile. As map_for. */
static int register_range(struct cuda_range *range, struct cuda_device *device)
{
	unsigned flags =
		CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
	uint64_t at = 0;
	int r = cuda_device_hold(cuda_devices.driver, device);

	if (r < 0)
		return r;
	if (range->read_only)
		flags |= CU_MEMHOSTREGISTER_READ_ONLY;
	range->busy = true;
	cuda_ranges_add(&ranges, range);
	end();
	r = map_for(range, device, flags, &at);
	cuda_lock();
	cuda_ranges_remove(&ranges, cuda_ranges_find(&ranges, range->start));
	range->busy = false;
	cuda_tell();
	if (r) {
		cuda_device_drop(cuda_devices.driver, device);
		return r;
	}
	range->registered = true;
	add_user(range, device, at);
	range->holders |= 1u << device->index;
	return 0;
}

/* The device reads it without the driver's help, or not at all. */
static int use_pageable(struct cuda_range *range,
	const struct cuda_device *device, bool writable)
{
	if (cuda_way(&device->traits, writable, true) != CUDA_WAY_PAGEABLE)
		return cuda_fail_no_way(&device->traits, writable);
	add_user(range, device, range->start);
	return 0;
}

/* A new one. The lock is given up meanwhile. */
static int add_range(struct cuda_device *device, uintptr_t start, uintptr_t end,
	bool writable)
{
	enum cuda_way way = cuda_way(&device->traits, writable, false);
	struct cuda_range range = {
		.start = start, .end = end, .owner = device->index};
	int r = cuda_ranges_reserve(&ranges);

	if (r < 0)
		return r;
	range.read_only = way == CUDA_WAY_REGISTER_READ_ONLY;
	r = 1;
	if (way <= CUDA_WAY_REGISTER_READ_ONLY)
		r = register_range(&range, device);
	if (r == 1)
		r = use_pageable(&range, device, writable);
	if (r >= 0)
		cuda_ranges_add(&ranges, &range);
	return r;
}

/* One that another device may have registered; this one need not be able to. What
 * was registered as writable memory it uses as that, however it is mapped by
 * now. */
static int join_range(
	struct cuda_range *range, struct cuda_device *device, bool writable)
{
	bool as_writable = range->registered ? !range->read_only : writable;
	enum cuda_way way = cuda_way(&device->traits, as_writable, false);
	int r = 1;

	if (has_user(range, device))
		return 0;
	if (range->registered && way <= CUDA_WAY_REGISTER_READ_ONLY)
		r = use_range(range, device);
	return r == 1 ? use_pageable(range, device, writable) : r;
}

/* Copies of this library that are under way are waited for. */
static void drop_range(struct cuda_range *range)
{
	const struct cuda_driver *driver = cuda_devices.driver;
	struct cuda_device *owner = &cuda_devices.at[range->owner];

	for (int i = 0; i < cuda_devices.n; i++)
		if (has_user(range, &cuda_devices.at[i]))
			cuda_queues_settle(&cuda_devices.at[i]);
	/* If it fails, the device is lost or the driver has ended: the memory
	 * is not registered any more. The caller has no use for a sentence. */
	if (range->registered &&
		driver->context_push(owner->context) == CUDA_SUCCESS) {
		driver->host_unregister((void *)range->start);
		cuda_device_leave(driver);
	}
	for (int i = 0; i < cuda_devices.n; i++)
		if (range->holders & 1u << i)
			cuda_device_drop(driver, &cuda_devices.at[i]);
	cuda_ranges_remove(&ranges, range);
}

/* ---- many ---------------------------------------------------------------- */

static int reach(
	struct cuda_device *device, uintptr_t at, uintptr_t end, bool writable)
{
	int r = 0;

	while (r >= 0 && at < end) {
		struct cuda_range *next = cuda_ranges_find(&ranges, at);
		uintptr_t stop = end;

		if (next && next->start <= at && next->busy) {
			cuda_wait();
			continue;
		}
		if (next && next->start <= at) {
			stop = next->end;
			r = join_range(next, device, writable);
		} else {
			if (next)
				stop = MIN(stop, next->start);
			if (stop - at > CHUNK)
				stop = at + CHUNK;
			r = add_range(device, at, stop, writable);
		}
		at = stop;
	}
	return r;
}

int cuda_reach(
	const void *start, uint64_t size, bool writable, const uint8_t uuid[16])
{
	struct cuda_device *device;
	int r = cuda_begin();

	if (r >= 0)
		r = cuda_device_by_uuid(&cuda_devices, uuid, &device);
	if (r >= 0)
		r = reach(device, (uintptr_t)start, (uintptr_t)start + size,
			writable);
	end();
	return r;
}

/* Are all bytes in ranges, of whichever devices? */
static bool are_noted(uintptr_t at, uintptr_t end)
{
	while (at < end) {
		const struct cuda_range *range = cuda_ranges_find(&ranges, at);

		if (!range || range->start > at)
			return false;
		if (range->busy)
			cuda_wait(); /* it may fail */
		else
			at = range->end;
	}
	return true;
}

int cuda_needs_writable(
	const void *start, uint64_t size, const uint8_t uuid[16])
{
	uintptr_t at = (uintptr_t)start;
	struct cuda_device *device;
	int r = cuda_begin();

	if (r >= 0)
		r = cuda_device_by_uuid(&cuda_devices, uuid, &device);
	if (r >= 0)
		r = cuda_way(&device->traits, false, false) == CUDA_WAY_NONE &&
		    cuda_way(&device->traits, true, false) ==
			    CUDA_WAY_REGISTER &&
		    !are_noted(at, at + size);
	end();
	return r;
}

/* 1: some bytes are not in ranges of the device. Its addresses for ranges that
 * adjoin must adjoin, too: a tensor has one address. */
static int known(const struct cuda_device *device, uintptr_t start,
	uintptr_t end, uint64_t *ret)
{
	uint64_t delta = 0;

	for (uintptr_t at = start; at < end;) {
		const struct cuda_range *range = cuda_ranges_find(&ranges, at);
		uint64_t own;

		if (!range || range->start > at || !has_user(range, device))
			return 1;
		own = range->at[device->index] - range->start;
		if (at != start && own != delta)
			return tarn_fail(ENOTSUP,
				"%s has given pieces of this tensor, which is "
				"larger than a piece that can be registered, "
				"addresses that do not adjoin; copy it to the "
				"device",
				device->traits.name);
		delta = own;
		at = range->end;
	}
	*ret = start + delta;
	return 0;
}

int cuda_known(const void *start, uint64_t size, bool writable,
	const uint8_t uuid[16], uint64_t *ret)
{
	struct cuda_device *device;
	int r = cuda_begin();

	if (r >= 0)
		r = cuda_device_by_uuid(&cuda_devices, uuid, &device);
	if (r >= 0 &&
		cuda_way(&device->traits, writable, false) == CUDA_WAY_PAGEABLE)
		*ret = (uintptr_t)start;
	else if (r >= 0)
		r = known(
			device, (uintptr_t)start, (uintptr_t)start + size, ret);
	end();
	return r;
}

bool cuda_still_known(
	const struct cuda_device *device, const struct cuda_host *host)
{
	uintptr_t start = (uintptr_t)host->start;
	uint64_t at;

	return cuda_way(&device->traits, host->writable, false) ==
		       CUDA_WAY_PAGEABLE ||
	       (known(device, start, start + host->size, &at) == 0 &&
		       at == host->at);
}

void cuda_forget(const void *start, uint64_t size)
{
	uintptr_t at = (uintptr_t)start;
	struct cuda_range *range;

	/* Relaxed: the caller must not let another thread register what it is
	 * about to unmap; so that is ordered before this call, or not there. */
	if (!atomic_load_explicit(&n_ranges, memory_order_relaxed))
		return;
	cuda_lock();
	while ((range = cuda_ranges_find(&ranges, at)) &&
		range->start < at + size) {
		if (range->busy)
			cuda_wait();
		else
			drop_range(range);
	}
	end();
}
