/* SPDX-License-Identifier: MIT */
/*
 * Devices. They have the order that CUDA_VISIBLE_DEVICES and the driver give
 * them, which differs from process to process; so everything inside goes by
 * their UUID.
 */
#include "lib/cuda/device.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/cuda/kernel.h"
#include "lib/cuda/queue.h"
#include "lib/cuda/slot.h"

/* ---- listing ------------------------------------------------------------- */

static CUresult flag(const struct cuda_driver *driver, CUdevice handle,
	CUdevice_attribute attribute, bool *ret)
{
	int value = 0;
	CUresult e = driver->device_attribute(&value, attribute, handle);

	/* An older driver does not know newer abilities. */
	if (e == CUDA_ERROR_INVALID_VALUE)
		e = CUDA_SUCCESS;
	*ret = value;
	return e;
}

static CUresult ask_traits(const struct cuda_driver *driver, CUdevice handle,
	struct cuda_traits *ret)
{
	const struct {
		CUdevice_attribute attribute;
		bool *value;
	} flags[] = {
		{CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, &ret->registers},
		{CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED,
			&ret->registers_read_only},
		{CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
			&ret->reads_pageable},
		{CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
			&ret->host_page_tables},
	};
	CUuuid uuid;
	CUresult e;

	e = driver->device_name(ret->name, sizeof(ret->name), handle);
	if (!e)
		e = driver->device_uuid(&uuid, handle);
	if (!e)
		e = driver->device_pci(ret->pci, sizeof(ret->pci), handle);
	for (size_t i = 0; !e && i < ARRAY_SIZE(flags); i++)
		e = flag(driver, handle, flags[i].attribute, flags[i].value);
	if (!e)
		memcpy(ret->uuid, uuid.bytes, sizeof(ret->uuid));
	return e;
}

int cuda_devices_list(struct cuda_devices *devices)
{
	const struct cuda_driver *driver;
	int n = 0, r;
	CUresult e;

	if (devices->driver)
		return 0;
	r = cuda_driver_load(&driver);
	if (r < 0)
		return r;
	e = driver->device_count(&n);
	/* Devices past the last that there is room for cannot be named. */
	n = n < 0 ? 0 : MIN(n, CUDA_DEVICES_MAX);
	for (int i = 0; !e && i < n; i++) {
		struct cuda_device *d = &devices->at[i];

		*d = (struct cuda_device) {.index = i};
		e = driver->device_get(&d->handle, i);
		if (!e)
			e = ask_traits(driver, d->handle, &d->traits);
	}
	if (e)
		return cuda_fail(driver, e, "listing the devices of CUDA");
	devices->n = n;
	devices->driver = driver;
	return 0;
}

/* ---- names --------------------------------------------------------------- */

static int no_device(const struct cuda_devices *devices, const char *name)
{
	if (!devices->n)
		return tarn_fail(ENODEV,
			"device '%.60s': the driver for CUDA shows no device; "
			"is CUDA_VISIBLE_DEVICES set?",
			name);
	return tarn_fail(ENODEV,
		"device '%.60s': there are %d, 0 to %d; nvidia-smi -L lists "
		"their UUIDs",
		name, devices->n, devices->n - 1);
}

/* 32 hexadecimal digits, with any dashes between them. */
static bool parse_uuid(const char *text, uint8_t ret[16])
{
	int digits = 0;

	if (!strncasecmp(text, "GPU-", 4) || !strncasecmp(text, "MIG-", 4))
		text += 4;
	memset(ret, 0, 16);
	for (; *text; text++) {
		int c = tolower((unsigned char)*text);

		if (c == '-')
			continue;
		if (!isxdigit(c) || digits == 32)
			return false;
		c = isdigit(c) ? c - '0' : c - 'a' + 10;
		ret[digits / 2] = (uint8_t)(ret[digits / 2] << 4 | (unsigned)c);
		digits++;
	}
	return digits == 32;
}

struct pci {
	unsigned domain, bus, device, function;
};

/* The domain may be missing. */
static bool parse_pci(const char *text, struct pci *ret)
{
	int end = 0;

	*ret = (struct pci) {0};
	if (sscanf(text, "%8x:%2x:%2x.%1x%n", &ret->domain, &ret->bus,
		    &ret->device, &ret->function, &end) == 4 &&
		!text[end])
		return true;
	ret->domain = 0;
	return sscanf(text, "%2x:%2x.%1x%n", &ret->bus, &ret->device,
		       &ret->function, &end) == 3 &&
	       !text[end];
}

static const struct cuda_device *by_pci(
	const struct cuda_devices *devices, const struct pci *pci)
{
	for (int i = 0; i < devices->n; i++) {
		struct pci own;

		if (parse_pci(devices->at[i].traits.pci, &own) &&
			!memcmp(&own, pci, sizeof(own)))
			return &devices->at[i];
	}
	return NULL;
}

int cuda_device_by_uuid(struct cuda_devices *devices, const uint8_t uuid[16],
	struct cuda_device **ret)
{
	char text[CUDA_UUID_TEXT];

	for (int i = 0; i < devices->n; i++)
		if (!memcmp(devices->at[i].traits.uuid, uuid, 16)) {
			*ret = &devices->at[i];
			return 0;
		}
	return no_device(devices, cuda_uuid_text(uuid, text));
}

static bool is_index(const char *name)
{
	size_t digits = strspn(name, "0123456789");

	return digits && !name[digits];
}

int cuda_device_check_name(const char *name)
{
	uint8_t uuid[16];
	struct pci pci;

	if (is_index(name) || parse_pci(name, &pci) || parse_uuid(name, uuid))
		return 0;
	return tarn_fail(EINVAL,
		"device '%.60s' is neither an index (0), nor a PCI address "
		"(0000:3b:00.0), nor a UUID (GPU-...)",
		name);
}

int cuda_device_by_name(const struct cuda_devices *devices, const char *name,
	const struct cuda_device **ret)
{
	uint8_t uuid[16];
	struct pci pci;
	int r = cuda_device_check_name(name);

	if (r < 0)
		return r;
	if (is_index(name)) {
		long index = strlen(name) < 6 ? strtol(name, NULL, 10) : 999999;

		if (index >= devices->n)
			return no_device(devices, name);
		*ret = &devices->at[index];
		return 0;
	}
	if (parse_pci(name, &pci)) {
		*ret = by_pci(devices, &pci);
		return *ret ? 0 : no_device(devices, name);
	}
	parse_uuid(name, uuid);
	/* The list is the caller's, and is not changed through the result. */
	return cuda_device_by_uuid((struct cuda_devices *)devices, uuid,
		(struct cuda_device **)ret);
}

/* ---- contexts ------------------------------------------------------------ */

int cuda_device_hold(
	const struct cuda_driver *driver, struct cuda_device *device)
{
	CUresult e = CUDA_SUCCESS;

	if (!device->uses)
		e = driver->context_retain(&device->context, device->handle);
	if (e)
		return cuda_fail(driver, e, "the primary context of device %d",
			device->index);
	device->uses++;
	return 0;
}

void cuda_device_drop(
	const struct cuda_driver *driver, struct cuda_device *device)
{
	if (--device->uses)
		return;
	cuda_queues_free(driver, device);
	cuda_slots_free(driver, device);
	cuda_kernel_unload(driver, device);
	/* A device that was lost, or a driver that has ended, has nothing to
	 * give back. */
	driver->context_release(device->handle);
}

int cuda_device_enter(
	const struct cuda_driver *driver, const struct cuda_device *device)
{
	CUresult e = driver->context_push(device->context);

	return e ? cuda_fail(
			   driver, e, "the context of device %d", device->index)
		 : 0;
}

void cuda_device_leave(const struct cuda_driver *driver)
{
	CUcontext popped;

	driver->context_pop(&popped);
}
