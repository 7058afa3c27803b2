/* SPDX-License-Identifier: MIT */
/* The devices that the driver shows. Call these with the room's lock held. */
#pragma once

#include "lib/cuda/cuda.h"
#include "lib/cuda/driver.h"

struct cuda_queue;
struct cuda_slot;

struct cuda_device {
	struct cuda_traits traits;
	int index;
	CUdevice handle;
	CUcontext context; /* its primary one, while uses is not 0 */
	unsigned uses;
	/* Of kernel.c, which has a lock for it; NULL: not loaded. */
	struct cuda_kernel_module *module;
	/* Kept for the next copy (queue.c, slot.c), whose locks guard them. */
	struct cuda_queue *queues;
	struct cuda_queue *busy; /* those that are not kept */
	unsigned n_queues;       /* that are */
	struct cuda_slot *slots;
	unsigned n_slots; /* in use, too */
};

struct cuda_devices {
	const struct cuda_driver *driver; /* NULL: not listed yet */
	int n;
	struct cuda_device at[CUDA_DEVICES_MAX];
};

/* Loads the driver, and lists the devices once. -ENOTSUP, -ENODEV. */
int cuda_devices_list(struct cuda_devices *devices);

/* Is it a name of one of these forms? -EINVAL. Needs no list. */
int cuda_device_check_name(const char *name);
/* By "0", "0000:3b:00.0", "GPU-..." or the UUID alone; -EINVAL, -ENODEV. */
int cuda_device_by_name(const struct cuda_devices *devices, const char *name,
	const struct cuda_device **ret);
/* -ENODEV */
int cuda_device_by_uuid(struct cuda_devices *devices, const uint8_t uuid[16],
	struct cuda_device **ret);

/* Keeps the device's primary context, until as many drops; the last one frees
 * what is kept for the device, too. */
int cuda_device_hold(
	const struct cuda_driver *driver, struct cuda_device *device);
void cuda_device_drop(
	const struct cuda_driver *driver, struct cuda_device *device);

/* Makes the context of a held device current in this thread until leave. These
 * need no lock. */
int cuda_device_enter(
	const struct cuda_driver *driver, const struct cuda_device *device);
void cuda_device_leave(const struct cuda_driver *driver);
