/* SPDX-License-Identifier: MIT */
/*
 * GPUs: the address at which a device reads a tensor that lies in memory of the
 * host.
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
 * The address at which a kernel of the device reads the element at index
 * (0, 0, ...), where tarn_tensor_data is the process's own; strides are the
 * same. Registers the memory that this needs: for a tensor in a pool the whole
 * segments in which it lies. A second call finds that done, without a call of
 * the driver. *ret is 0 for a tensor without elements. A device must not write
 * to what is read-only: where that is not refused, its bytes are those of all
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
 * tarn_cuda_device. -ENODEV: the device is gone; -ENOMEM: the driver cannot
 * register so much; -EBUSY: other code in this process has registered a part;
 * -EIO: another error of the driver, with its name for it. Any thread.
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
