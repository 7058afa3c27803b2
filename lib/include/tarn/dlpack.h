/* SPDX-License-Identifier: MIT */
/*
 * DLPack: tensors to and from other libraries, without a copy.
 *
 * DLPack is the C ABI by which array libraries (PyTorch, JAX, CuPy, TVM, numpy)
 * share memory: a struct with an address, a dtype, a shape and strides, and a
 * deleter. The library that exports a tensor makes the struct; the library that
 * imports it calls the deleter, once, when it needs the memory no longer.
 *
 * From another library to tarn, and from tarn to another library:
 *
 *	struct DLManagedTensorVersioned *managed = NULL;
 *	... the other library sets managed
 *	r = tarn_tensor_from_dlpack(managed, &dst);
 *
 *	r = tarn_tensor_to_dlpack(src, 0, &managed);
 *	... the other library takes managed
 *
 * There are two forms. struct DLManagedTensorVersioned is that of DLPack 1, and
 * can say that memory is read-only. struct DLManagedTensor is the form before
 * it, which at::toDLPack and at::fromDLPack of PyTorch's C++ interface use.
 *
 * This header declares the two structs and does not define them. So it may
 * stand before or behind DLPack's own <dlpack/dlpack.h>, which a program needs
 * to read or make such a struct. <tarn/dlpack_abi.h> defines them for a program
 * that does not have that header.
 *
 * All functions, and the deleters that tarn_tensor_to_dlpack sets, may be
 * called from any thread.
 */
#pragma once

#include <tarn/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

struct DLManagedTensor;
struct DLManagedTensorVersioned;

/*
 * A tensor over the memory of another library, at its own address. Its storage
 * is a borrowed one, and read-only if the flags say so.
 *
 * On success the tensor owns managed. Its deleter, if it has one, is called
 * once, when the storage loses its last reference, in the thread that drops it.
 * On failure managed is still the caller's, and no deleter was called.
 *
 * The struct and its numbers are checked; the memory cannot be. The memory must
 * be the CPU's (kDLCPU), what the CPU reads too (kDLCUDAHost, kDLCUDAManaged),
 * or on a device of CUDA (kDLCUDA; see tarn_cuda_borrow): the work that writes
 * it is done, or in the legacy default stream. Dtypes
 * are the 22 of tarn; two 4-bit elements may be two lanes of one element, as
 * PyTorch's float4_e2m1fn_x2 has them, or elements of their own. Strides may be
 * NULL, which is C order, or negative. data may have any alignment.
 *
 * -ENOTSUP: the memory is on another device, which the sentence names; the
 * version is not 1; elements of less than a byte are padded to bytes, or a
 * stride splits a byte. -EINVAL: DLPack has that dtype and tarn does not; more
 * than TARN_NDIM_MAX dimensions; a negative size; elements, but no address.
 * -EOVERFLOW: the elements would lie outside the address space. -ENOMEM.
 */
TARN_PUBLIC int tarn_tensor_from_dlpack(
	struct DLManagedTensorVersioned *managed, tarn_tensor **ret)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* The same of the form before version 1. It has no flags: the tensor is
 * writable. */
TARN_PUBLIC int tarn_tensor_from_dlpack_unversioned(
	struct DLManagedTensor *managed, tarn_tensor **ret)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* What a read-only tensor gives is copy-on-write. */
#define TARN_DLPACK_GUARD 1u
/* The tensor is a copy that was made for this. */
#define TARN_DLPACK_COPIED 2u

/*
 * A tensor for another library. The struct holds a reference to the tensor, and
 * so the bytes and the lease of a shared tensor, until its deleter is called.
 * The caller may drop its own reference, and the store's, before that.
 *
 * flags is 0 or a sum of: TARN_DLPACK_COPIED sets DLPack's IS_COPIED, which
 * allows the other library to write. TARN_DLPACK_GUARD is for a library that
 * writes where it should not, as PyTorch does: of a read-only tensor the
 * address is that of tarn_tensor_guard, where a write is seen by this process
 * alone; without it such a write is SIGSEGV.
 *
 * The struct is of version 1.1. It says READ_ONLY of a tensor that is not
 * writable. The address is that of the first element (byte_offset is 0), as
 * aligned as the tensor is: memory that tarn allocated to 64 bytes, a tensor of
 * a file perhaps not even to its element's size. Without elements it means
 * nothing, and is not NULL.
 * Strides are always given, in elements, and may be 0 or negative. F4 elements
 * go in pairs, two lanes of 4 bits, so that the last size counts bytes; 6-bit
 * ones are packed.
 *
 * -ENOTSUP: the tensor has no address, since it is in a file; or the guard
 * cannot be had (tarn_tensor_guard says where). -EINVAL: unknown flags; F4
 * elements whose last size is odd. -ENOMEM.
 */
TARN_PUBLIC int tarn_tensor_to_dlpack(tarn_tensor *tensor, unsigned flags,
	struct DLManagedTensorVersioned **ret)
	TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* The same in the form before version 1, which has no flags. -EROFS: it cannot
 * say that the tensor is read-only; tarn_tensor_cow or tarn_tensor_clone makes
 * one that may be written. */
TARN_PUBLIC int tarn_tensor_to_dlpack_unversioned(tarn_tensor *tensor,
	struct DLManagedTensor **ret)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

#ifdef __cplusplus
}
#endif
