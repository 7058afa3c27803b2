/* SPDX-License-Identifier: MIT */
/* Calls of the driver by tests of its stand-in: each must succeed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "lib/cuda/driver.h"

#define SIZE ((size_t)2 << 20)

extern const struct cuda_driver *cu;
extern CUdevice device; /* the one that was entered last */

void driver_must(CUresult e, const char *what);
#define MUST(call) driver_must(cu->call, #call)

/* Loads the driver, and makes the device's primary context current; and
 * back. */
void driver_enter(int index);
void driver_leave(void);

/* An allocation of SIZE, and where the device has it. */
struct driver_memory {
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;
};

/* Of memory of the device. */
const CUmemAllocationProp *driver_memory_prop(void);
/* Maps what has a handle. */
void driver_memory_map(struct driver_memory *m);
struct driver_memory driver_memory(void);
void driver_memory_free(const struct driver_memory *m);

/* SIZE bytes of the host that are registered. */
void *driver_pinned(void);
void driver_unpin(void *p);
bool driver_is_all(const unsigned char *p, int value);

/* Runs a case of this program in another process, which has fd as its
 * descriptor 3, unless that is -1. Its exit status. */
int case_run(const char *name, int fd);
