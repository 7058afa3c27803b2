/* SPDX-License-Identifier: MIT */
/*
 * Storages in memory of a device (TARN_STORAGE_DEVICE), as the store handles
 * them: exported once to be published, and imported at the first use of their
 * bytes.
 *
 * What the driver has allocated or imported is a struct device_memory to the
 * store, which calls the functions in device_hooks: those of lib/cuda, or a
 * test's own. Every storage of the kind is made by device_storage_new, or
 * by the store when a name is opened; both remain what they are when they are
 * published, so that tensors over them stay valid.
 *
 * A name is opened without the driver: a process lists, renames and removes what
 * lies on devices that it does not have. Its descriptor is fetched, and the
 * memory imported, when device_storage_memory is called for the first time; all
 * names that lead to one storage share one object in a process, and so one
 * import.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "lib/store/store.h"
#include "lib/tensor/storage.h"

/* A storage on a device, as the store needs it. */
struct device_export {
	uint8_t uuid[16]; /* of the device */
	uint64_t size;    /* bytes of the whole allocation */
	int fd;
};

/* One allocation of a device in this process: made here, or imported. */
struct device_memory;

/*
 * What the store asks of lib/cuda. All of them may be called in any thread, and
 * at the same time; each fails with a sentence.
 */
struct device_hooks {
	/* Exports an allocation. The caller closes ret->fd. */
	int (*export_memory)(
		struct device_memory *memory, struct device_export *ret);
	/* Is it memory of other code, that cannot be exported? NULL: never. */
	bool (*is_lent)(const struct device_memory *memory);
	/* Imports one that any process has exported. from->fd stays the
	 * caller's, who closes it after the call. */
	int (*import_memory)(
		const struct device_export *from, struct device_memory **ret);
	/* Frees an allocation, or an import, which keeps the memory for others
	 * that have it. */
	void (*release)(struct device_memory *memory);
	/* cuda_memory_unmap, cuda_memory_map. */
	int (*unmap)(struct device_memory *memory);
	int (*map)(struct device_memory *memory, int fd);
	/* tarn_storage.on_device. */
	int (*where)(struct device_memory *memory, struct device_bytes *ret);
	/* tarn_storage.read: copies size bytes at offset to the host and waits
	 * for that; the range was checked. */
	int (*read)(struct device_memory *memory, uint64_t offset, void *buf,
		uint64_t size);
};

extern const struct device_hooks device_cuda_hooks;

/* For tests: from now on storages use these, which must stay there; NULL: those
 * of lib/cuda again. Before any storage of the kind is used: those that exist
 * keep what they have. */
void device_hooks_set(const struct device_hooks *hooks);

/* ---- storages -------------------------------------------------------- */

/*
 * A new storage, with one reference, of memory that this process has allocated
 * on the device with that UUID; it takes memory, on success, and releases it with
 * its last reference. size is that of the whole allocation, which export_memory
 * reports, too: readers import all of it. writable: as tarn_storage_writable; it is read-only once it
 * was published.
 */
int device_storage_new(const uint8_t uuid[16], uint64_t size, bool writable,
	struct device_memory *memory, tarn_storage **ret);

/*
 * The memory of a storage of the kind. For one that came from a store the first
 * call fetches its descriptor and imports it; later calls cost a load. Borrowed:
 * valid as long as the storage is. Two threads that call it first at the same
 * moment may import twice, of which one is released at once. -EINVAL: another
 * kind; -ENOTSUP: no hooks were set; as own_fetch and import_memory.
 */
int device_storage_memory(tarn_storage *storage, struct device_memory **ret);

/* tarn_cuda_sleep and tarn_cuda_wake of a storage of the kind. */
int device_storage_sleep(tarn_storage *storage);
int device_storage_wake(tarn_storage *storage);

/* The UUID of its device. The storage must be of the kind. */
const uint8_t *device_storage_uuid(const tarn_storage *storage);

/* Is it one of the kind over memory that other code has allocated, which cannot
 * be exported? */
bool device_storage_is_lent(const tarn_storage *storage);

/* ---- for the store --------------------------------------------------- */

/* Every storage of the kind begins with this. */
struct device_storage {
	tarn_storage storage; /* first: this is what is freed */
	uint8_t uuid[16];
	/* NULL: not imported yet. */
	struct device_memory *_Atomic memory;
	/* tarn_cuda_sleep. Relaxed: who uses it is told by other means. */
	atomic_bool asleep;
	unsigned claimed; /* created_claim.c */
};

/* NULL: it is another kind. */
struct device_storage *device_storage_of(const tarn_storage *storage);

/* Completes one that a lease was taken for, but for refs. release, arg: those of
 * a store's storages. */
void device_storage_init(struct device_storage *device,
	const struct table_storage *entry, void (*release)(void *arg),
	void *arg);
/* Its last reference is gone: releases what was imported or allocated. */
void device_storage_end(tarn_storage *storage);

/* Of one that this process has allocated, or another store has published. The
 * caller closes ret->fd. */
int device_storage_export(tarn_storage *storage, struct device_export *ret);
/* The daemon has published it: from now on it is leased. If it is gone already,
 * it stays memory of this process alone. It is claimed. */
void device_storage_is_shared(tarn_storage *storage, struct tarn_store *store,
	const struct msg_stored *stored);
