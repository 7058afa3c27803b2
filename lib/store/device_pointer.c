/* SPDX-License-Identifier: MIT */
/*
 * Where a device reads a tensor: <tarn/cuda.h>.
 *
 * Memory of a store is what has an end that the store sees, so that it can be
 * unregistered before it is unmapped: segments of pools, and the memory files of
 * single tensors, published or being made.
 */
#include <errno.h>
#include <string.h>

#include <tarn/cuda.h>
#include <tarn/node.h>
#include <tarn/publish.h>

#include "base/fail.h"
#include "lib/cuda/cuda.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/work.h"
#include "lib/reserved.h"
#include "lib/store/created.h"
#include "lib/store/own_map.h"
#include "lib/store/patch.h"
#include "lib/store/store.h"
#include "lib/tensor/tensor.h"

int tarn_cuda_device(const char *name, struct tarn_cuda_device *ret)
{
	struct tarn_cuda_device device = {0};
	int r = cuda_device_find(name, device.uuid);

	if (r >= 0)
		*ret = device;
	return r;
}

static int check_device(const struct tarn_cuda_device *device)
{
	return RESERVED_CHECK("tarn_cuda_device", device);
}

static int traits_of(const uint8_t uuid[16], struct cuda_traits *ret)
{
	int r = 0;

	for (int i = 0; r >= 0; i++) {
		r = cuda_device_traits(i, ret);
		if (r >= 0 && !memcmp(ret->uuid, uuid, 16))
			return 0;
	}
	return r;
}

int tarn_cuda_node(const struct tarn_cuda_device *device, int *ret_node)
{
	struct cuda_traits traits;
	int r = check_device(device);

	if (r >= 0)
		r = traits_of(device->uuid, &traits);
	if (r < 0)
		return r;
	r = tarn_node_of_pci(traits.pci, ret_node);
	/* A container may show the device, and not where it is attached. */
	return r == -ENOENT ? -ENODATA : r;
}

/* ---- one tensor ---------------------------------------------------------- */

/* Registers what holds the bytes, if it is a store's. A created storage must be
 * claimed: its memory is mapped anew when it is published. */
static int reach(const tarn_storage *storage, const unsigned char *start,
	uint64_t size, const uint8_t uuid[16])
{
	const struct shared_storage *shared = store_storage_of(storage);
	const struct created *created = created_of(storage);
	const struct patched *patched = patched_of(storage);
	uint64_t mapped =
		patched ? patched->map.size : own_mapped_size(storage->size);

	if (shared && shared->own)
		return cuda_reach(shared->own, mapped, storage->writable, uuid);
	if (shared)
		return pool_map_reach(&shared->store->pools, shared->pool,
			shared->base +
				(uint64_t)(start -
					   (unsigned char *)storage->data),
			size, uuid);
	if (created)
		return cuda_reach(patched ? patched->map.start : created->addr,
			mapped, storage->writable, uuid);
	return tarn_fail_constant(ENOTSUP,
		"the tensor lies in memory that is not a store's, which is not "
		"registered; load or publish it, or fill one from "
		"tarn_store_create");
}

static int reach_claimed(tarn_tensor *tensor, const unsigned char *start,
	uint64_t size, const uint8_t uuid[16])
{
	const struct tarn_publish_item item = {.tensor = tensor};
	int r;

	created_claim(&item, 1);
	r = reach(tensor->storage, start, size, uuid);
	created_unclaim(&item, 1);
	return r;
}

/* Another thread may unregister it again and again: a caller's mistake, but no
 * reason to hang. */
#define TRIES_MAX 3

/* Of a tensor that is on a device. */
static int find_own(tarn_tensor *tensor, const uint8_t uuid[16], uint64_t *ret)
{
	const struct tarn_layout *layout = &tensor->layout;
	int64_t bits = tarn_dtype_bits(layout->dtype);
	char own[CUDA_UUID_TEXT], other[CUDA_UUID_TEXT];
	struct device_bytes bytes;
	int r = tensor->storage->on_device(tensor->storage, &bytes);

	if (r < 0)
		return r;
	if (memcmp(cuda_uuid(bytes.device), uuid, 16))
		return tarn_fail(ENOTSUP,
			"the tensor is on %s, whose memory %s is not given; "
			"copy it there (tarn_tensor_to_device)",
			cuda_uuid_text(cuda_uuid(bytes.device), own),
			cuda_uuid_text(uuid, other));
	cuda_memory_show(bytes.memory);
	*ret = tarn_layout_numel(layout)
		       ? bytes.at + tensor->base +
				 (uint64_t)(layout->offset * bits / 8)
		       : 0;
	return 0;
}

static int find(tarn_tensor *tensor, const uint8_t uuid[16], uint64_t *ret)
{
	const tarn_storage *storage = tensor->storage;
	uint64_t size, at;
	void *start;
	int r;

	if (storage->on_device)
		return find_own(tensor, uuid, ret);
	if (!storage_by_address(storage))
		return tarn_fail_constant(
			ENOTSUP, "the tensor is in a file; load it first");
	tensor_reach(tensor, &start, &size);
	if (!size) {
		*ret = 0;
		return 0;
	}
	r = cuda_known(start, size, storage->writable, uuid, &at);
	for (int i = 0; i < TRIES_MAX && r == 1; i++) {
		r = reach_claimed(tensor, start, size, uuid);
		if (r >= 0)
			r = cuda_known(
				start, size, storage->writable, uuid, &at);
	}
	if (r == 1)
		return tarn_fail_constant(EBUSY,
			"another thread unregisters the tensor's memory");
	if (r >= 0)
		*ret = at + (uint64_t)((char *)tarn_tensor_data(tensor) -
				       (char *)start);
	return r;
}

int tarn_tensor_device_pointer(tarn_tensor *tensor,
	const struct tarn_cuda_device *device, uint64_t *ret)
{
	int r = check_device(device);

	if (r >= 0)
		r = find(tensor, device->uuid, ret);
	return r < 0 ? tarn_fail_prefix(r, "device pointer: ") : 0;
}

/* ---- all of a store ------------------------------------------------------ */

int tarn_cuda_register(tarn_store *store, const struct tarn_cuda_device *device,
	const struct tarn_cuda_register_options *options)
{
	uint64_t done, total;
	int r = check_device(device);

	if (r >= 0)
		r = RESERVED_CHECK("tarn_cuda_register_options", options);
	if (r < 0)
		return r;
	do {
		r = pool_map_reach_next(
			&store->pools, device->uuid, &done, &total);
		if (r >= 0 && options && options->progress &&
			options->progress(options->arg, done, total))
			r = tarn_fail_constant(
				ECANCELED, "the caller cancelled it");
	} while (r > 0);
	return r < 0 ? tarn_fail_prefix(r, "register: ") : 0;
}

void tarn_cuda_unregister(tarn_store *store)
{
	pool_map_unreach(&store->pools);
}
