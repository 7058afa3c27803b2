/* SPDX-License-Identifier: MIT */
/*
 * The kernels' module, in the primary context of each device that needs it: it
 * is loaded once, at the first launch, and unloaded before the context is
 * released. kernel_none.c takes the place of the image where tarn was built
 * without a compiler for devices.
 */
#pragma once

#include "lib/cuda/device.h"
#include "lib/cuda/kernels.h"

/* What the driver loads; NULL: this build has none. */
const void *cuda_kernel_image(void);

/* Launches over the nest, in a stream of the device, whose context is current
 * and held. -ENOTSUP: there are no kernels in this build, or for this device.
 * Any thread. */
int cuda_kernel_launch(const struct cuda_driver *driver,
	struct cuda_device *device, enum cuda_kernel kernel,
	const struct cuda_nest *nest, CUstream stream);

/* The same over a list. */
int cuda_kernel_launch_list(const struct cuda_driver *driver,
	struct cuda_device *device, enum cuda_kernel kernel,
	const struct cuda_list *list, CUstream stream);

/* Loads them, in the current context: launches fail for other reasons. */
int cuda_kernel_ready(
	const struct cuda_driver *driver, struct cuda_device *device);

/* For cuda_device_drop: before the context is released. */
void cuda_kernel_unload(
	const struct cuda_driver *driver, struct cuda_device *device);
