/* SPDX-License-Identifier: MIT */
/*
 * Moves between addresses that a device reaches: its own memory, and registered
 * memory of the host by the device's address for it. A move becomes copies of
 * the driver's where rows are long and nothing is converted, else a kernel.
 * Results are those of move_run, bit for bit (but for the payload and the sign
 * of a NaN that was scaled).
 */
#pragma once

#include "lib/cuda/device.h"
#include "lib/move/move.h"

/*
 * Scales and biases of more than a few channels do not fit into the launch: so
 * many bytes of them must be in memory that the device reaches, aligned to 8,
 * until the move has been done. 0: none are needed.
 */
uint64_t cuda_move_factors_size(const struct move *move);
/* Writes them, to memory of the host. */
void cuda_move_factors(const struct move *move, void *ret);

/* Does the device, whose context is current, do that move? */
bool cuda_move_can(const struct cuda_driver *driver, struct cuda_device *device,
	const struct move *move);

/*
 * Queues a move in stream, which belongs to the device, whose context is current
 * and held by the caller until the move has been done. dst and src are the
 * device's addresses of element 0 of each side (of the byte that a layout counts
 * from); they do not overlap. factors: where the device finds what
 * cuda_move_factors wrote; 0 where none are needed. move may change after the
 * call.
 *
 * -ENOTSUP: neither copies nor a kernel do this (a conversion to a sub-byte
 * dtype, elements moved in parts of a byte), or there are no kernels in this
 * build or for this device; the message says which. -EINVAL: factors are
 * missing. Other errors are the driver's; some of it may have been queued then.
 * Any thread.
 */
int cuda_move(const struct cuda_driver *driver, struct cuda_device *device,
	const struct move *move, CUdeviceptr dst, CUdeviceptr src,
	CUdeviceptr factors, CUstream stream);
