/* SPDX-License-Identifier: MIT */
/*
 * Tensors on the real device: what is copied from a device pointer is what the
 * tensor has. Each kind is read, or the sentence says why the device has no way
 * to it, as for tarn doctor. Without a device it is skipped.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "lib/cuda/cuda.h"
#include "tests/gpu/real.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

#define SMALL 5000
#define LARGE (8 << 20)

static struct daemon server;
static tarn_store *store;
static struct tarn_cuda_device gpu;
static struct cuda_traits traits;

static tarn_tensor *create(int64_t size, unsigned flags, int seed)
{
	unsigned char *p;
	tarn_tensor *t;

	must(tarn_store_create(store, TARN_U8, 1, &size, flags, &t));
	p = tarn_tensor_data(t);
	for (int64_t i = 0; i < size; i++)
		p[i] = (unsigned char)(i * 7 + i / 251 + seed);
	return t;
}

static tarn_tensor *published(const char *name, int64_t size, int seed)
{
	struct tarn_publish_item item = {
		.name = name, .tensor = create(size, 0, seed)};
	tarn_tensor *t;

	must(tarn_store_publish(store, &item, 1, NULL, NULL));
	tarn_tensor_unref(item.tensor);
	must(tarn_store_lookup(store, name, &t));
	return t;
}

/* Through the device's own memory, and back. */
static CUresult copy_back(uint64_t at, void *ret, size_t size)
{
	CUdeviceptr there = 0;
	CUresult e = REAL(cuMemAlloc, &there, size);

	if (!e)
		e = REAL(cuMemcpy, there, at, size);
	if (!e)
		e = REAL(cuMemcpy, (uintptr_t)ret, there, size);
	if (there)
		REAL(cuMemFree, there);
	return e;
}

/* Two assertions. */
static void read_by_device(tarn_tensor *t, bool writable, const char *what)
{
	size_t size = (size_t)tarn_tensor_layout(t)->shape[0];
	bool wanted = cuda_way(&traits, writable, false) != CUDA_WAY_NONE;
	void *copy = calloc(1, size);
	uint64_t at = 0;
	CUresult e;
	int r = tarn_tensor_device_pointer(t, &gpu, &at);

	if (!copy)
		bail("out of memory");
	is_int(wanted ? 0 : -ENOTSUP, r, "%s has the way that it should: %s",
		what, r < 0 ? tarn_error_message() : "");
	if (r < 0) {
		skip(1, "the device has no way to %s", what);
	} else {
		e = copy_back(at, copy, size);
		ok(!e && !memcmp(copy, tarn_tensor_data(t), size),
			"%s is on the device what it is here: %s", what,
			real_result(e));
	}
	free(copy);
}

static void all_kinds(void)
{
	struct tarn_publish_item item = {.name = "later"};
	tarn_tensor *t;

	t = published("small", SMALL, 1);
	read_by_device(t, false, "a tensor of the pool");
	tarn_cuda_unregister(store);
	read_by_device(t, false, "a tensor that is registered again");
	tarn_tensor_unref(t);
	t = published("large", LARGE, 2);
	read_by_device(t, false, "a tensor with memory of its own");
	tarn_tensor_unref(t);
	t = create(LARGE, TARN_CREATE_MUTABLE, 3);
	read_by_device(t, true, "a mutable tensor");
	tarn_tensor_unref(t);
	item.tensor = create(LARGE, 0, 4);
	read_by_device(item.tensor, true, "a tensor that is being filled");
	must(tarn_store_publish(store, &item, 1, NULL, NULL));
	read_by_device(item.tensor, false, "the same after it was published");
	tarn_tensor_unref(item.tensor);
}

/* Of a pool of kind register a device reads all if it registers any memory. */
static void of_kind_register(void)
{
	const char *const options[] = {"--register", NULL};
	tarn_tensor *t;

	store = daemon_start_open(&server, "r", options);
	t = published("small", SMALL, 5);
	read_by_device(t, true, "a tensor of a pool of kind register");
	tarn_cuda_unregister(store);
	read_by_device(t, true, "the same after it was unregistered");
	tarn_tensor_unref(t);
	store = tarn_store_unref(store);
	daemon_stop(&server);
}

static unsigned char *map_at(void *at, int fd, int rights)
{
	void *p = mmap(
		at, LARGE, rights, MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);

	if (p == MAP_FAILED)
		bail("mmap: %m");
	return p;
}

/* As in such a pool, on a device that could do otherwise too: mapped read-only,
 * then writable at the same place, registered, and protected. */
static void protected_memory(void)
{
	int fd = memfd_create("gpu", MFD_CLOEXEC);
	unsigned char *copy = calloc(1, LARGE), *p;
	uint64_t at = 0;
	CUresult e;
	int r;

	if (fd < 0 || !copy || ftruncate(fd, LARGE) < 0)
		bail("a memfd: %m");
	p = map_at(NULL, fd, PROT_READ | PROT_WRITE);
	for (int i = 0; i < LARGE; i++)
		p[i] = (unsigned char)(i * 3 + i / 257);
	map_at(p, fd, PROT_READ);
	map_at(p, fd, PROT_READ | PROT_WRITE);
	r = cuda_reach(p, LARGE, true, gpu.uuid);
	if (r < 0 || mprotect(p, LARGE, PROT_READ) < 0) {
		skip(2, "the device registers no memory: %s",
			tarn_error_message());
	} else {
		is_int(0, cuda_known(p, LARGE, false, gpu.uuid, &at),
			"memory stays registered when it is protected");
		e = copy_back(at, copy, LARGE);
		ok(!e && !memcmp(copy, p, LARGE),
			"the device reads protected memory: %s",
			real_result(e));
	}
	cuda_forget(p, LARGE);
	munmap(p, LARGE);
	close(fd);
	free(copy);
}

int main(void)
{
	const char *why;
	CUcontext context;
	CUdevice device;

	if (!real_load(&why))
		skip_all("no device: %s", why);
	store = daemon_start_open(&server, "d", NULL);
	must(tarn_cuda_device("0", &gpu));
	must(cuda_device_traits(0, &traits));
	if (REAL(cuDeviceGet, &device, 0) ||
		REAL(cuDevicePrimaryCtxRetain, &context, device) ||
		REAL(cuCtxPushCurrent, context))
		bail("the device has no context");
	all_kinds();
	store = tarn_store_unref(store);
	daemon_stop(&server);
	of_kind_register();
	protected_memory();
	REAL(cuCtxPopCurrent, &context);
	REAL(cuDevicePrimaryCtxRelease, device);
	return done(18);
}
