/* SPDX-License-Identifier: MIT */
/* What a queue is made of; work.h has its functions. */
#pragma once

#include "lib/cuda/room.h"
#include "lib/cuda/work.h"

struct cuda_queue {
	struct cuda_device *device; /* in use */
	struct cuda_queue *next;    /* while it is kept */
	CUstream stream;
	CUevent mark[CUDA_MARKS];
};

/* With the room's lock: frees those that are kept. */
void cuda_queues_free(
	const struct cuda_driver *driver, struct cuda_device *device);
