/* SPDX-License-Identifier: MIT */
#include "lib/cuda/room.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/fail.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Nobody waits in a child: nothing is registered there. */
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
struct cuda_devices cuda_devices;
/* From a process that had loaded the driver. Atomic for looks without the lock:
 * it is written in a child before it has other threads. */
static atomic_bool forked;

/* ---- forks --------------------------------------------------------------- */

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
	pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
	if (cuda_devices.driver)
		atomic_store_explicit(&forked, true, memory_order_relaxed);
	cuda_ranges_forget_all();
	pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, in_parent, in_child);
}

void cuda_watch_forks(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_forks);
}

bool cuda_is_forked(void)
{
	return atomic_load_explicit(&forked, memory_order_relaxed);
}

int cuda_fail_forked(void)
{
	return tarn_fail_constant(ENOTSUP,
		"the parent of this process had loaded the driver for "
		"CUDA, which does not survive fork(); start processes "
		"that use a GPU by exec, as multiprocessing does with "
		"\"spawn\"");
}

/* ---- the lock ------------------------------------------------------------ */

void cuda_lock(void)
{
	pthread_mutex_lock(&lock);
}

int cuda_begin(void)
{
	cuda_watch_forks();
	cuda_lock();
	return cuda_is_forked() ? cuda_fail_forked()
				: cuda_devices_list(&cuda_devices);
}

void cuda_end(void)
{
	pthread_mutex_unlock(&lock);
}

void cuda_wait(void)
{
	pthread_cond_wait(&change, &lock);
}

void cuda_tell(void)
{
	pthread_cond_broadcast(&change);
}

/* ---- devices ------------------------------------------------------------- */

bool cuda_is_built(void)
{
	return true;
}

int cuda_device_find(const char *name, uint8_t ret_uuid[16])
{
	const struct cuda_device *device;
	int r = cuda_device_check_name(name);

	if (r < 0)
		return r;
	r = cuda_begin();
	if (r >= 0)
		r = cuda_device_by_name(&cuda_devices, name, &device);
	if (r >= 0)
		memcpy(ret_uuid, device->traits.uuid, 16);
	cuda_end();
	return r;
}

int cuda_device_traits(int index, struct cuda_traits *ret)
{
	int r = cuda_begin();

	if (r >= 0 && (index < 0 || index >= cuda_devices.n))
		r = tarn_fail(ENODEV, "device %d: there are %d", index,
			cuda_devices.n);
	if (r >= 0)
		*ret = cuda_devices.at[index].traits;
	cuda_end();
	return r;
}

int cuda_use(const uint8_t uuid[16], struct cuda_device **ret)
{
	struct cuda_device *device;
	int r = cuda_begin();

	if (r >= 0)
		r = cuda_device_by_uuid(&cuda_devices, uuid, &device);
	if (r >= 0)
		r = cuda_device_hold(cuda_devices.driver, device);
	if (r >= 0)
		*ret = device;
	cuda_end();
	return r;
}

void cuda_unuse(struct cuda_device *device)
{
	if (cuda_is_forked())
		return;
	cuda_lock();
	cuda_device_drop(cuda_devices.driver, device);
	cuda_end();
}

int cuda_usable(void)
{
	return cuda_is_forked() ? cuda_fail_forked() : 0;
}

const uint8_t *cuda_uuid(const struct cuda_device *device)
{
	return device->traits.uuid;
}

int cuda_index(const struct cuda_device *device)
{
	return device->index;
}
