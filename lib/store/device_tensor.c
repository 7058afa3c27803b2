/* SPDX-License-Identifier: MIT */
/* Tensors on devices: <tarn/cuda.h>. */
#include <string.h>

#include <tarn/copy.h>
#include <tarn/cuda.h>

#include "base/fail.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/work.h"
#include "lib/layout/layout.h"
#include "lib/reserved.h"
#include "lib/store/device_storage.h"
#include "lib/tensor/tensor.h"

static int check_device(const struct tarn_cuda_device *device)
{
	return RESERVED_CHECK("tarn_cuda_device", device);
}

/* ---- storages ------------------------------------------------------------ */

static int wrap(const struct tarn_cuda_device *device, uint64_t size,
	bool writable, struct cuda_memory *memory, tarn_storage **ret)
{
	int r = device_storage_new(device->uuid, size, writable,
		(struct device_memory *)memory, ret);

	if (r < 0)
		cuda_memory_free(memory);
	return r;
}

static int alloc(const struct tarn_cuda_device *device, uint64_t size,
	tarn_storage **ret)
{
	struct cuda_memory *memory;
	int r = check_device(device);

	if (r >= 0)
		r = cuda_memory_new(device->uuid, size, &memory);
	return r < 0 ? r : wrap(device, size, true, memory, ret);
}

int tarn_cuda_alloc(const struct tarn_cuda_device *device, uint64_t size,
	tarn_storage **ret)
{
	int r = alloc(device, size, ret);

	return r < 0 ? tarn_fail_prefix(r, "memory of a device: ") : 0;
}

static int check_lent(uint64_t at, uint64_t size, unsigned flags)
{
	if (flags & ~TARN_BORROW_WRITABLE)
		return tarn_fail(EINVAL, "unknown flags %#x",
			flags & ~TARN_BORROW_WRITABLE);
	if (size && !at)
		return tarn_fail(EINVAL, "%llu bytes without an address",
			(unsigned long long)size);
	if (at + size < at)
		return tarn_fail(EOVERFLOW,
			"%llu bytes from %#llx on lie outside of the addresses",
			(unsigned long long)size, (unsigned long long)at);
	return 0;
}

int tarn_cuda_borrow(const struct tarn_cuda_device *device, uint64_t at,
	uint64_t size, unsigned flags, void (*release)(void *arg), void *arg,
	tarn_storage **ret)
{
	struct cuda_memory *memory;
	int r = check_device(device);

	if (r >= 0)
		r = check_lent(at, size, flags);
	/* release is set last: until then the memory is the caller's. */
	if (r >= 0)
		r = cuda_memory_borrow(device->uuid, at, size, &memory);
	if (r >= 0)
		r = wrap(device, size, flags & TARN_BORROW_WRITABLE, memory,
			ret);
	if (r < 0)
		return tarn_fail_prefix(r, "borrowing memory of a device: ");
	cuda_memory_release_by(memory, release, arg);
	return 0;
}

int tarn_storage_device(
	const tarn_storage *storage, struct tarn_cuda_device *ret)
{
	const struct device_storage *device = device_storage_of(storage);
	struct tarn_cuda_device found = {0};

	if (!device)
		return 0;
	memcpy(found.uuid, device->uuid, sizeof(found.uuid));
	*ret = found;
	return 1;
}

int tarn_cuda_sleep(tarn_storage *storage)
{
	int r = device_storage_of(storage) ? device_storage_sleep(storage) : 0;

	return r < 0 ? tarn_fail_prefix(r, "sleep: ") : 0;
}

int tarn_cuda_wake(tarn_storage *storage)
{
	int r = device_storage_of(storage) ? device_storage_wake(storage) : 0;

	return r < 0 ? tarn_fail_prefix(r, "wake: ") : 0;
}

/* ---- tensors ------------------------------------------------------------- */

static int tensor_like(const struct tarn_cuda_device *device,
	const struct tarn_layout *layout, tarn_tensor **ret)
{
	_cleanup_storage_ tarn_storage *storage = NULL;
	int r = alloc(device, (uint64_t)tarn_layout_nbytes(layout), &storage);

	return r < 0 ? r : tarn_tensor_new(storage, 0, layout, ret);
}

int tarn_cuda_zeros(const struct tarn_cuda_device *device,
	enum tarn_dtype dtype, int ndim, const int64_t *shape,
	tarn_tensor **ret)
{
	struct tarn_layout layout;
	int r = layout_contiguous("shape", dtype, ndim, shape, &layout);

	if (r >= 0)
		r = tensor_like(device, &layout, ret);
	return r < 0 ? tarn_fail_prefix(r, "zeros on a device: ") : 0;
}

static int copy_to(const tarn_tensor *tensor,
	const struct tarn_cuda_device *device,
	const struct tarn_copy_options *options, tarn_tensor **ret)
{
	const struct tarn_layout *from = tarn_tensor_layout(tensor);
	_cleanup_tensor_ tarn_tensor *dst = NULL;
	struct tarn_layout layout;
	int r = tarn_layout_contiguous(
		from->dtype, from->ndim, from->shape, &layout);

	if (r >= 0)
		r = tensor_like(device, &layout, &dst);
	if (r >= 0)
		r = tarn_copy(dst, tensor, options, NULL);
	if (r >= 0)
		*ret = STEAL(dst);
	return r;
}

int tarn_tensor_to_device(tarn_tensor *tensor,
	const struct tarn_cuda_device *device,
	const struct tarn_copy_options *options, tarn_tensor **ret)
{
	struct tarn_cuda_device own;
	int r = check_device(device);

	if (r >= 0 && tarn_storage_device(tensor->storage, &own) &&
		!memcmp(own.uuid, device->uuid, sizeof(own.uuid))) {
		*ret = tarn_tensor_ref(tensor);
		return 1;
	}
	if (r >= 0)
		r = copy_to(tensor, device, options, ret);
	return r < 0 ? tarn_fail_prefix(r, "to a device: ") : 0;
}
