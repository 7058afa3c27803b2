/* SPDX-License-Identifier: MIT */
/*
 * GPUs that read this process's memory: devices, and which ranges of addresses
 * they reach.
 *
 * The driver's library is loaded by the first call that needs a device, and by
 * none before. Each range is registered at most once in a process, for all
 * devices that ask for it, and must be forgotten before it is unmapped or mapped
 * anew: a registration keeps the old pages, and a device would read those.
 *
 * One lock guards all of it. It is taken inside the locks of stores, and no
 * function calls back with it. The device's primary context is current only
 * during a call of the driver, and nothing here waits for a device's work.
 *
 * cuda_none.c takes the place of cuda.c, device.c, driver.c and ranges.c where
 * tarn is built without the toolkit's header.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* More than one machine has; a range keeps an address for each. */
#define CUDA_DEVICES_MAX 32

/* What a device can do with this process's memory. */
struct cuda_traits {
	char name[96];
	uint8_t uuid[16];
	char pci[16];             /* "0000:3b:00.0" */
	bool registers;           /* memory of the host can be registered */
	bool registers_read_only; /* memory that is mapped read-only, too */
	bool reads_pageable;      /* it reads what is not registered */
	bool host_page_tables;    /* and does so by the host's page tables */
};

/* How a device reads memory, the best way first. */
enum cuda_way {
	CUDA_WAY_REGISTER = 1,
	CUDA_WAY_REGISTER_READ_ONLY,
	CUDA_WAY_PAGEABLE, /* it is not registered: the address is the host's */
	CUDA_WAY_NONE,
};

/* ---- reach.c: decided by what a device can do, without the driver -------- */

/* The way in which the device reads memory that this process has mapped so.
 * refused: the driver has refused to register it. */
enum cuda_way cuda_way(
	const struct cuda_traits *traits, bool writable, bool refused);
/* -ENOTSUP: the device has no way to it. Says what the device lacks, and what
 * works instead. */
int cuda_fail_no_way(const struct cuda_traits *traits, bool writable);
/* "GPU-" and the UUID in hexadecimal numbers. Returns buf. */
#define CUDA_UUID_TEXT 41
const char *cuda_uuid_text(const uint8_t uuid[16], char buf[CUDA_UUID_TEXT]);

/* ---- devices ------------------------------------------------------------- */

/* Is this build able to use a GPU at all? */
bool cuda_is_built(void);
/* A device by its index, its PCI address or its UUID. -ENODEV: there is none;
 * -EINVAL: it is no name of a device; -ENOTSUP: CUDA cannot be used here. */
int cuda_device_find(const char *name, uint8_t ret_uuid[16]);
/* Of the device with that index; -ENODEV: it is past the last. */
int cuda_device_traits(int index, struct cuda_traits *ret);

/* ---- ranges -------------------------------------------------------------- */

/* Where the device reads bytes that need nothing more: it has a way without
 * registration, or all of them are registered. No call of the driver. 1: they
 * are not, call cuda_reach. */
int cuda_known(const void *start, uint64_t size, bool writable,
	const uint8_t uuid[16], uint64_t *ret);

/* Makes all bytes, in whole pages, readable by the device, registering what is
 * not yet. -ENOTSUP: the device has no way to them. What was registered before
 * an error stays. */
int cuda_reach(const void *start, uint64_t size, bool writable,
	const uint8_t uuid[16]);

/* 1: the device reads these bytes, which are mapped read-only, only after they
 * were registered while they are mapped writable, and they are not registered
 * yet. 0: that is not so, or would not help. No call of the driver. */
int cuda_needs_writable(
	const void *start, uint64_t size, const uint8_t uuid[16]);

/* Ends the registrations that lie in the range. Nearly free if there are none
 * in this process. */
void cuda_forget(const void *start, uint64_t size);

/* Is called before other rooms register what they do at a fork, so that the lock
 * of this room is taken after theirs. */
void cuda_watch_forks(void);
