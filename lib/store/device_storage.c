/* SPDX-License-Identifier: MIT */
/*
 * Memory of devices, whose descriptor the daemon keeps.
 *
 * The object of such a storage has its UUID and its memory beside it, at the
 * same place whether this process allocated it or opened its name. Publishing
 * changes only what its release does besides, so threads that use the memory
 * meanwhile notice nothing.
 */
#include "lib/store/device_storage.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/fd.h"
#include "lib/cuda/cuda.h"
#include "lib/store/created.h"
#include "lib/store/own_map.h"

/* Release stored by device_hooks_set; pairs with the acquire load in
 * get_hooks. */
static const struct device_hooks *_Atomic hooks_set = &device_cuda_hooks;

void device_hooks_set(const struct device_hooks *hooks)
{
	atomic_store_explicit(&hooks_set, hooks ? hooks : &device_cuda_hooks,
		memory_order_release);
}

/* Acquire: pairs with the release store in device_hooks_set. */
static const struct device_hooks *get_hooks(void)
{
	return atomic_load_explicit(&hooks_set, memory_order_acquire);
}

/* NULL: it was not imported yet. Acquire: pairs with the exchange in agree. */
static struct device_memory *known_memory(struct device_storage *device)
{
	return atomic_load_explicit(&device->memory, memory_order_acquire);
}

struct device_storage *device_storage_of(const tarn_storage *storage)
{
	/* Relaxed: no storage becomes one of the kind, or ceases to be one. */
	return atomic_load_explicit(&storage->kind, memory_order_relaxed) ==
			       TARN_STORAGE_DEVICE
		       ? (struct device_storage *)storage
		       : NULL;
}

const uint8_t *device_storage_uuid(const tarn_storage *storage)
{
	return device_storage_of(storage)->uuid;
}

bool device_storage_is_lent(const tarn_storage *storage)
{
	struct device_storage *device = device_storage_of(storage);
	const struct device_hooks *hooks = get_hooks();
	struct device_memory *memory;

	if (!device || !hooks->is_lent)
		return false;
	memory = known_memory(device);
	return memory && hooks->is_lent(memory);
}

/* ---- its memory ------------------------------------------------------ */

/* Another thread may have done it meanwhile. */
static struct device_memory *agree(struct device_storage *device,
	const struct device_hooks *hooks, struct device_memory *memory)
{
	struct device_memory *none = NULL;

	/* Release: the import is complete; pairs with the acquire load in
	 * known_memory, and with itself in the thread that loses. */
	if (atomic_compare_exchange_strong_explicit(&device->memory, &none,
		    memory, memory_order_acq_rel, memory_order_acquire))
		return memory;
	hooks->release(memory);
	return none;
}

static int import(struct device_storage *device, struct device_memory **ret)
{
	const struct shared_storage *shared =
		store_storage_of(&device->storage);
	struct device_export from = {.size = device->storage.size};
	const struct device_hooks *hooks = get_hooks();
	_cleanup_fd_ int fd = -1;
	struct device_memory *memory;
	char text[CUDA_UUID_TEXT];
	int r;

	fd = own_fetch(shared->store, shared->index, shared->generation, 0);
	if (fd < 0)
		return fd;
	from.fd = fd;
	memcpy(from.uuid, device->uuid, sizeof(from.uuid));
	r = hooks->import_memory(&from, &memory);
	if (r < 0)
		return tarn_fail_prefix(r,
			"memory of %s: ", cuda_uuid_text(device->uuid, text));
	*ret = agree(device, hooks, memory);
	return 0;
}

int device_storage_memory(tarn_storage *storage, struct device_memory **ret)
{
	struct device_storage *device = device_storage_of(storage);
	struct device_memory *memory;

	if (!device)
		return tarn_fail(EINVAL, "the tensor is not on a device");
	/* Acquire: pairs with the exchange in agree. */
	memory = atomic_load_explicit(&device->memory, memory_order_acquire);
	if (!memory)
		return import(device, ret);
	if (atomic_load_explicit(&device->asleep, memory_order_relaxed))
		return tarn_fail_constant(EBUSY,
			"the memory of the device is asleep; call "
			"tarn_cuda_wake first");
	*ret = memory;
	return 0;
}

static int read_bytes(
	const tarn_storage *storage, uint64_t offset, void *buf, uint64_t size)
{
	struct device_storage *device = device_storage_of(storage);
	struct device_memory *memory;
	int r = device_storage_memory(&device->storage, &memory);

	return r < 0 ? r : get_hooks()->read(memory, offset, buf, size);
}

static int on_device(const tarn_storage *storage, struct device_bytes *ret)
{
	struct device_storage *device = device_storage_of(storage);
	struct device_memory *memory;
	int r = device_storage_memory(&device->storage, &memory);

	return r < 0 ? r : get_hooks()->where(memory, ret);
}

/* ---- asleep ---------------------------------------------------------- */

int device_storage_sleep(tarn_storage *storage)
{
	struct device_storage *device = device_storage_of(storage);
	struct device_memory *memory = known_memory(device);
	int r;

	if (!store_storage_of(storage))
		return tarn_fail_constant(EINVAL,
			"nobody else has the memory, whose bytes would be "
			"lost; publish it first");
	if (!memory ||
		atomic_load_explicit(&device->asleep, memory_order_relaxed))
		return 0;
	r = get_hooks()->unmap(memory);
	if (r >= 0)
		atomic_store_explicit(
			&device->asleep, true, memory_order_relaxed);
	return r;
}

int device_storage_wake(tarn_storage *storage)
{
	struct device_storage *device = device_storage_of(storage);
	const struct shared_storage *shared = store_storage_of(storage);
	struct device_memory *memory = known_memory(device);
	_cleanup_fd_ int fd = -1;
	int r;

	if (!atomic_load_explicit(&device->asleep, memory_order_relaxed))
		return 0;
	fd = own_fetch(shared->store, shared->index, shared->generation, 0);
	if (fd < 0)
		return fd;
	r = get_hooks()->map(memory, fd);
	if (r >= 0)
		atomic_store_explicit(
			&device->asleep, false, memory_order_relaxed);
	return r;
}

/* ---- made ------------------------------------------------------------ */

static void init(struct device_storage *device, const uint8_t uuid[16],
	uint64_t size, bool writable, struct device_memory *memory)
{
	device->storage.read = read_bytes;
	device->storage.on_device = on_device;
	device->storage.size = size;
	device->storage.writable = writable;
	memcpy(device->uuid, uuid, sizeof(device->uuid));
	atomic_init(&device->memory, memory);
	atomic_init(&device->asleep, false);
	device->claimed = 0;
}

void device_storage_init(struct device_storage *device,
	const struct table_storage *entry, void (*release)(void *arg),
	void *arg)
{
	tarn_storage_init(&device->storage, TARN_STORAGE_DEVICE, NULL,
		entry->size, false, release, arg);
	init(device, entry->device, entry->size, false, NULL);
}

void device_storage_end(tarn_storage *storage)
{
	struct device_storage *device = device_storage_of(storage);
	/* Relaxed: no other thread has it any more. */
	struct device_memory *memory =
		atomic_load_explicit(&device->memory, memory_order_relaxed);

	/* Hooks are never taken back: what has made it is still there. */
	if (memory)
		get_hooks()->release(memory);
}

static void device_release(void *arg)
{
	device_storage_end(arg);
}

int device_storage_new(const uint8_t uuid[16], uint64_t size, bool writable,
	struct device_memory *memory, tarn_storage **ret)
{
	struct device_storage *device = malloc(sizeof(*device));

	if (!device)
		return tarn_fail(ENOMEM, "storage: out of memory");
	tarn_storage_init(&device->storage, TARN_STORAGE_DEVICE, NULL, size,
		writable, device_release, device);
	init(device, uuid, size, writable, memory);
	atomic_init(&device->storage.refs, 1);
	*ret = &device->storage;
	return 0;
}

/* ---- published ------------------------------------------------------- */

/* What readers get must be what the publisher has. */
static int export_whole(const struct device_hooks *hooks,
	struct device_memory *memory, uint64_t size, struct device_export *ret)
{
	int r = hooks->export_memory(memory, ret);

	if (r < 0 || ret->size == size)
		return r;
	fd_close(ret->fd);
	return tarn_fail(EINVAL,
		"the driver exports %llu bytes for a storage of %llu",
		(unsigned long long)ret->size, (unsigned long long)size);
}

int device_storage_export(tarn_storage *storage, struct device_export *ret)
{
	const struct shared_storage *shared = store_storage_of(storage);
	const struct device_storage *device = device_storage_of(storage);
	struct device_memory *memory;
	int r;

	if (shared) {
		/* Another daemon's: the descriptor is as good as a new one. */
		r = own_fetch(
			shared->store, shared->index, shared->generation, 0);
		if (r < 0)
			return r;
		ret->fd = r;
		ret->size = storage->size;
		memcpy(ret->uuid, device->uuid, sizeof(ret->uuid));
		return 0;
	}
	r = device_storage_memory(storage, &memory);
	return r < 0 ? r
		     : export_whole(get_hooks(), memory, storage->size, ret);
}

void device_storage_is_shared(tarn_storage *storage, struct tarn_store *store,
	const struct msg_stored *stored)
{
	struct shared_storage *shared = malloc(sizeof(*shared));
	tarn_storage *known = NULL;

	if (!shared)
		return;
	/* As created_is_shared. */
	if (lease_book_hold(&store->book, &store->table, stored->index,
		    stored->generation, &known) < 0 ||
		known) {
		tarn_storage_unref(known);
		free(shared);
		return;
	}
	*shared = (struct shared_storage) {
		.store = store_ref(store),
		.storage = storage,
		.index = stored->index,
		.pool = stored->pool,
		.generation = stored->generation,
		.base = stored->base,
	};
	storage->writable = false;
	created_turn_device(storage, shared);
	lease_book_remember(
		&store->book, stored->index, stored->generation, storage);
}
