/* SPDX-License-Identifier: MIT */
/*
 * Loading takes a lock of its own, as it may take the driver a while: it
 * compiles the kernels for a device that is newer than this build. Launches take
 * it for as long as it takes to look a function up.
 */
#include "lib/cuda/kernel.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"

struct cuda_kernel_module {
	CUmodule module;
	CUfunction function[CUDA_KERNELS_N]; /* NULL: not looked up yet */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const char *const names[CUDA_KERNELS_N] = {
#define K(name, kind, a, b) "tarn_" #name,
	CUDA_KERNELS
#undef K
#define L(name) "tarn_" #name,
		CUDA_LISTS
#undef L
};

/* The driver has no use for the image on this device. */
static bool is_unfit(CUresult e)
{
	return e == CUDA_ERROR_INVALID_IMAGE || e == CUDA_ERROR_INVALID_PTX ||
	       e == CUDA_ERROR_NO_BINARY_FOR_GPU ||
	       e == CUDA_ERROR_UNSUPPORTED_PTX_VERSION ||
	       e == CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
}

static int load_failed(const struct cuda_driver *driver,
	const struct cuda_device *device, CUresult e)
{
	int r = cuda_fail(
		driver, e, "loading the kernels for %s", device->traits.name);

	return is_unfit(e) ? tarn_fail_prefix(-ENOTSUP,
				     "the kernels of this build need a device "
				     "of compute capability 7.5 and a driver "
				     "as new as the toolkit that compiled "
				     "them: ")
			   : r;
}

/* With the lock. */
static int load(const struct cuda_driver *driver, struct cuda_device *device)
{
	const void *image = cuda_kernel_image();
	struct cuda_kernel_module *m;
	CUresult e;

	if (device->module)
		return 0;
	if (!image)
		return tarn_fail_constant(ENOTSUP,
			"this tarn was built without kernels for GPUs; "
			"configure it with nvcc of the CUDA Toolkit "
			"(--with-cuda=FOLDER), or copy through memory of the "
			"host");
	m = calloc(1, sizeof(*m));
	if (!m)
		return tarn_fail_constant(ENOMEM, "no memory for kernels");
	e = driver->module_load(&m->module, image);
	if (e) {
		free(m);
		return load_failed(driver, device, e);
	}
	device->module = m;
	return 0;
}

static int find(const struct cuda_driver *driver, struct cuda_device *device,
	enum cuda_kernel kernel, CUfunction *ret)
{
	CUfunction *at;
	CUresult e = CUDA_SUCCESS;
	int r;

	pthread_mutex_lock(&lock);
	r = load(driver, device);
	if (r >= 0) {
		at = &device->module->function[kernel];
		if (!*at)
			e = driver->module_function(
				at, device->module->module, names[kernel]);
		*ret = *at;
	}
	pthread_mutex_unlock(&lock);
	return e ? cuda_fail(driver, e, "the kernel %s", names[kernel]) : r;
}

int cuda_kernel_ready(
	const struct cuda_driver *driver, struct cuda_device *device)
{
	int r;

	pthread_mutex_lock(&lock);
	r = load(driver, device);
	pthread_mutex_unlock(&lock);
	return r;
}

/* kernel takes one parameter, which the driver copies. */
static int launch(const struct cuda_driver *driver, struct cuda_device *device,
	enum cuda_kernel kernel, uint64_t blocks, const void *param,
	CUstream stream)
{
	void *params[] = {(void *)param};
	CUfunction f;
	CUresult e;
	int r = find(driver, device, kernel, &f);

	if (r < 0)
		return r;
	e = driver->launch(f, (unsigned)MIN(blocks, INT32_MAX), 1, 1,
		CUDA_THREADS, 1, 1, 0, stream, params, NULL);
	return e ? cuda_fail(driver, e, "launching %s on %s", names[kernel],
			   device->traits.name)
		 : 0;
}

int cuda_kernel_launch(const struct cuda_driver *driver,
	struct cuda_device *device, enum cuda_kernel kernel,
	const struct cuda_nest *nest, CUstream stream)
{
	bool tiled = false;

	switch (kernel) {
#define K(name, kind, a, b)                                                    \
	case CUDA_K_##name:                                                    \
		tiled = CUDA_##kind >= CUDA_TILE_RAW;                          \
		break;
		CUDA_KERNELS
#undef K
	default:
		break;
	}
	return launch(driver, device, kernel,
		tiled ? nest->steps
		      : (nest->steps + CUDA_THREADS - 1) / CUDA_THREADS,
		nest, stream);
}

int cuda_kernel_launch_list(const struct cuda_driver *driver,
	struct cuda_device *device, enum cuda_kernel kernel,
	const struct cuda_list *list, CUstream stream)
{
	return launch(driver, device, kernel, list->blocks, list, stream);
}

void cuda_kernel_unload(
	const struct cuda_driver *driver, struct cuda_device *device)
{
	struct cuda_kernel_module *m;

	pthread_mutex_lock(&lock);
	m = device->module;
	device->module = NULL;
	pthread_mutex_unlock(&lock);
	/* If it fails, the device is lost, and the module with it. */
	if (m && driver->context_push(device->context) == CUDA_SUCCESS) {
		driver->module_unload(m->module);
		cuda_device_leave(driver);
	}
	free(m);
}
