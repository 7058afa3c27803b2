/* SPDX-License-Identifier: MIT */
/*
 * What this room guards by its one lock: which devices there are, and how often
 * each is used. Only its files include this header.
 *
 * Work on a device does not take the lock: a device in use has a context that
 * stays, and a driver's functions may be called by any thread in which it is
 * current (cuda_device_enter). The driver does not survive fork(): a child may
 * drop what it has inherited, which then calls no driver.
 */
#pragma once

#include "lib/cuda/cuda.h"
#include "lib/cuda/device.h"
#include "lib/cuda/work.h"

extern struct cuda_devices cuda_devices;

/* Takes the lock, and lists the devices. The lock is held, whatever the result,
 * until cuda_end. -ENOTSUP, -ENODEV. */
int cuda_begin(void) _must_check_;
void cuda_lock(void);
void cuda_end(void);
/* Gives the lock up until another thread calls cuda_tell, or for no reason, and
 * takes it again. */
void cuda_wait(void);
void cuda_tell(void);

/* Is this a child of a process that had loaded the driver? */
bool cuda_is_forked(void);
int cuda_fail_forked(void); /* -ENOTSUP, with the sentence */

/* cuda.c, with the lock: does the device still have the memory there? */
bool cuda_still_known(
	const struct cuda_device *device, const struct cuda_host *host);
/* cuda.c, in a child: nothing is registered there. */
void cuda_ranges_forget_all(void);
