/* SPDX-License-Identifier: MIT */
/*
 * GPUs: tensors on devices, and the address at which a device reads a tensor that
 * lies in memory of the host.
 *
 *	struct tarn_cuda_device gpu;
 *	uint64_t at;
 *
 *	if (tarn_cuda_device("0", &gpu) >= 0 &&
 *		tarn_tensor_device_pointer(t, &gpu, &at) >= 0)
 *		printf("a kernel reads it at %#llx\n", (unsigned long long)at);
 *
 * Nothing is copied: a kernel reads the bytes over the link between the device
 * and the host, which all processes have mapped. For that the memory is
 * registered with the driver, whole segments at a time and each once in a
 * process, or read as it is by devices that can; see tarn-cuda(7).
 *
 * The driver's library, libcuda.so.1, is loaded by the first of these calls and
 * by no other; libtarn is not linked with it. Calls use the device's primary
 * context, which is that of the CUDA runtime and of PyTorch, leave the calling
 * thread's current context as it was, and wait for no work of the device.
 *
 * The driver does not survive fork(). In a child of a process that had loaded it
 * by these calls they fail with -ENOTSUP, and the parent's registrations stay
 * what they are.
 */
#pragma once

#include <tarn/copy.h>
#include <tarn/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A device, by the identity that it has in all processes. The library fills
 * it. */
struct tarn_cuda_device {
	uint8_t uuid[16];
	uint64_t reserved[2]; /* 0 */
};

/*
 * Finds a device: by its index among those that this process sees ("0"), by its
 * PCI address ("0000:3b:00.0"), or by its UUID ("GPU-..."), as nvidia-smi -L
 * prints it. -EINVAL: it is no such name; -ENODEV: there is no such device, or
 * none; -ENOTSUP: the driver is missing or too old, tarn was built without
 * CUDA, or the process is a child of one that had loaded the driver. Any thread.
 */
TARN_PUBLIC int tarn_cuda_device(const char *name, struct tarn_cuda_device *ret)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/*
 * The NUMA node to which the device is attached, as tarn_node_of_pci has it: a
 * store whose node is this one (tarn_store_set_node) loads and opens what is
 * nearest to the device. -ENODATA: it is not known; else errors as for
 * tarn_cuda_device. Any thread.
 */
TARN_PUBLIC int tarn_cuda_node(const struct tarn_cuda_device *device,
	int *ret_node) TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* ---- tensors on a device ------------------------------------------------- */

/*
 * A storage on a device (TARN_STORAGE_DEVICE) holds bytes that only the device
 * reads: tarn_tensor_data is NULL. Views, publishing and looking up are those of
 * every tensor; tarn_copy moves elements to it, from it and within it, and
 * between devices, with conversions; elements can be read one by one (slowly),
 * and written by tarn_copy alone.
 *
 * Memory is made of granules (2 MiB): put many small tensors over one storage.
 * It is published without a copy; other processes map the same memory, and it
 * stays on the device when the process that made it has ended, until its last
 * name and the last tensor over it are gone.
 */

/* size bytes, which are 0. -ENOMEM: the device has not so much left; the
 * sentence says what it has. Errors are else those of tarn_cuda_device. Any
 * thread. */
TARN_PUBLIC int tarn_cuda_alloc(const struct tarn_cuda_device *device,
	uint64_t size, tarn_storage **ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* Uses memory that other code has allocated on the device, from the device's
 * address at on; flags and release are those of tarn_storage_borrow. Publishing
 * copies it within the device, after the work that is in the legacy default
 * stream: all such tensors of one publication to one storage for each device,
 * where those that shared bytes still do. -EINVAL: the driver does not know the
 * address, or as another device's. */
TARN_PUBLIC int tarn_cuda_borrow(const struct tarn_cuda_device *device,
	uint64_t at, uint64_t size, unsigned flags, void (*release)(void *arg),
	void *arg, tarn_storage **ret) TARN_NONNULL(1, 7) TARN_MUST_CHECK;

/* On which device the bytes are: 1, and the device; 0: on none. Calls no
 * driver. */
TARN_PUBLIC int tarn_storage_device(const tarn_storage *storage,
	struct tarn_cuda_device *ret) TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/*
 * Takes a published storage's memory out of this process, until tarn_cuda_wake
 * maps it again at the same addresses of the device, so that graphs of work that
 * were recorded stay valid. The daemon keeps the bytes meanwhile; names, leases
 * and tensors stay as they are, but copies to and from them fail with -EBUSY. No
 * thread may use the storage during either call, and no work of the device may
 * reach it between them. Nothing is done for a storage that is not on a device.
 * -EINVAL: it is not published, and its bytes would be lost. Wake: errors of the
 * daemon's and the driver's; it can be tried again.
 */
TARN_PUBLIC int tarn_cuda_sleep(tarn_storage *storage)
	TARN_NONNULL(1) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_cuda_wake(tarn_storage *storage)
	TARN_NONNULL(1) TARN_MUST_CHECK;

/* A tensor of zeros, in C order, in memory of its own. */
TARN_PUBLIC int tarn_cuda_zeros(const struct tarn_cuda_device *device,
	enum tarn_dtype dtype, int ndim, const int64_t *shape, tarn_tensor **ret)
	TARN_NONNULL(1, 5) TARN_MUST_CHECK;

/*
 * The tensor on the device: itself, with one more reference, if it is there
 * already (1); otherwise a copy in C order (0), from wherever it is: memory, a
 * file, another device. options are those of tarn_copy, or NULL.
 */
TARN_PUBLIC int tarn_tensor_to_device(tarn_tensor *tensor,
	const struct tarn_cuda_device *device,
	const struct tarn_copy_options *options, tarn_tensor **ret)
	TARN_NONNULL(1, 2, 4) TARN_MUST_CHECK;

/*
 * Copies all tensors of a file to the device: ret has room for
 * tarn_file_count(file) of them, which come in the order of tarn_file_at, each
 * the caller's. They share one storage for each file (shard); each begins at a
 * multiple of 16 bytes, for which a few may have another storage. The file is
 * read front to back while what was read is on its way; no more memory of the
 * host is needed than for that. options (of which only those about reading and
 * progress matter; progress counts each shard by itself) and ret_info may be
 * NULL. Errors are those of tarn_copy and tarn_cuda_alloc; after one ret is as
 * it was. Any thread.
 */
TARN_PUBLIC int tarn_cuda_load(tarn_file *file,
	const struct tarn_cuda_device *device,
	const struct tarn_copy_options *options, struct tarn_copy_info *ret_info,
	tarn_tensor **ret) TARN_NONNULL(1, 2, 5) TARN_MUST_CHECK;

/* ---- tensors of the host ------------------------------------------------- */

/*
 * The address at which a kernel of the device reads the element at index
 * (0, 0, ...), where tarn_tensor_data is the process's own; strides are the
 * same. Registers the memory that this needs: for a tensor in a pool the whole
 * segments in which it lies. A second call finds that done, without a call of
 * the driver. *ret is 0 for a tensor without elements. For one on the device
 * it is the address there. A device must not write to what is read-only: where that is not refused, its bytes are those of all
 * processes.
 *
 * The address is valid as long as the tensor's storage is held, but ends with
 * tarn_cuda_unregister, and for a tensor from tarn_store_create with a call that
 * publishes it, whatever its result, unless it is mutable. Ask again after that.
 * The caller waits for the device's work on the tensor before it drops the
 * tensor.
 *
 * -ENOTSUP: this device has no way to this memory (the sentence says what it
 * lacks, and what works instead), or the tensor is in a file, or in memory that
 * is not a store's (unless the device reads any memory); or as for
 * tarn_cuda_device. -EPERM: the device needs the pool's segments for writing
 * while they are registered (register = yes, see tarn-cuda(7)), which the daemon
 * grants to its own user alone. -ENODEV: the device is gone; -ENOMEM: the driver
 * cannot register so much; -EBUSY: other code in this process has registered a
 * part; -EIO: another error of the driver, with its name for it. Any thread.
 */
TARN_PUBLIC int tarn_tensor_device_pointer(tarn_tensor *tensor,
	const struct tarn_cuda_device *device, uint64_t *ret)
	TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

struct tarn_cuda_register_options {
	/* Called after each segment, in the calling thread, with bytes that are
	 * registered and bytes in all; non-zero cancels: -ECANCELED. What was
	 * registered by then stays so. */
	int (*progress)(void *arg, uint64_t done, uint64_t total);
	void *arg;
	uint64_t reserved[8]; /* 0 */
};

/*
 * Registers all memory of the store's pool that this process has mapped, so that
 * no later call must; that takes time in proportion to its size. Segments that
 * appear later are registered when a tensor in them is asked for. Nothing is
 * done for what is registered, or need not be. While a segment is being
 * registered, calls in other threads that open tensors of this store wait.
 * options may be NULL. Errors are those of tarn_tensor_device_pointer. Any
 * thread.
 */
TARN_PUBLIC int tarn_cuda_register(tarn_store *store,
	const struct tarn_cuda_device *device,
	const struct tarn_cuda_register_options *options)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/*
 * Ends all registrations of the store's pool in this process, for all devices;
 * memory of tensors that lie outside of the pool stays registered as long as
 * they are held. Work that reads it must have ended. Memory is unregistered
 * without this when its last user in this process is gone. Any thread.
 */
TARN_PUBLIC void tarn_cuda_unregister(tarn_store *store)
	TARN_NONNULL(1);

#ifdef __cplusplus
}
#endif
