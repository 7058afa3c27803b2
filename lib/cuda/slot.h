/* SPDX-License-Identifier: MIT */
/* What a slot is made of; work.h has its functions. */
#pragma once

#include "lib/cuda/room.h"
#include "lib/cuda/work.h"

struct cuda_slot {
	struct cuda_slot *next;     /* while it is kept */
	struct cuda_device *device; /* that has registered it */
	char *memory;
	CUdeviceptr at; /* on that device */
};

/* Of a device whose last use ends: frees those that are kept. */
void cuda_slots_free(
	const struct cuda_driver *driver, struct cuda_device *device);
