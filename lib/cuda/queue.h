/* SPDX-License-Identifier: MIT */
/* What a queue is made of; work.h has its functions. */
#pragma once

#include "lib/cuda/room.h"
#include "lib/cuda/work.h"

struct cuda_queue {
	struct cuda_device *device; /* in use */
	struct cuda_queue *next;    /* in a list of its device */
	CUstream stream;
	CUevent mark[CUDA_MARKS];
};

/* With the room's lock: what was queued by this room has been done. */
void cuda_queues_settle(struct cuda_device *device);
/* Of a device whose last use ends: frees those that are kept. */
void cuda_queues_free(
	const struct cuda_driver *driver, struct cuda_device *device);
