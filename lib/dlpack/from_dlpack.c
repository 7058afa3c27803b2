// SPDX-License-Identifier: MIT
/*
 * Tensors in, by DLPack. The struct comes from other code, so each number is
 * checked before it is used: what remains is a layout like any other, over a
 * borrowed storage that begins at the lowest byte which the layout reaches.
 */
#include "lib/dlpack/dlpack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/cuda.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/layout/layout.h"
#include "lib/tensor/storage.h"

/* ---- the layout ------------------------------------------------------ */

static int check_device(DLDevice device)
{
	unsigned type = device.device_type;

	if (type == kDLCPU || type == kDLCUDAHost || type == kDLCUDAManaged ||
		type == kDLCUDA)
		return 0;
	return tarn_fail(ENOTSUP,
		"from_dlpack: the tensor is on a device of type %u (%s), "
		"neither in memory of the CPU nor on a device of CUDA; copy it "
		"there first",
		type, dlpack_device_name(type));
}

/* Two lanes are one element of two: only F4, as PyTorch has it. */
static int check_type(
	DLDataType type, uint64_t flags, enum tarn_dtype *ret, bool *ret_pairs)
{
	enum tarn_dtype dtype = dlpack_dtype(type);
	bool pairs = dtype == TARN_F4 && type.lanes == 2;

	if (!dtype || (type.lanes != 1 && !pairs))
		return tarn_fail(EINVAL,
			"from_dlpack: type %u of %u bits and %u lanes is none "
			"of tarn's",
			type.code, type.bits, type.lanes);
	if ((flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) &&
		dtype_is_packed(dtype))
		return tarn_fail(ENOTSUP,
			"from_dlpack: elements of %s are padded to bytes, "
			"where tarn has them packed",
			tarn_dtype_name(dtype));
	*ret = dtype;
	*ret_pairs = pairs;
	return 0;
}

/* As if the storage began at the element of index (0, 0, ...). */
static int read_strides(
	const DLTensor *dl, enum tarn_dtype dtype, struct tarn_layout *ret)
{
	int r = layout_check_ndim("from_dlpack", dl->ndim);

	if (r < 0)
		return r;
	if (dl->ndim > 0 && !dl->shape)
		return tarn_fail(EINVAL,
			"from_dlpack: %d dimensions, but no shape", dl->ndim);
	r = dl->strides
		    ? tarn_layout_strided(
			      dtype, dl->ndim, dl->shape, dl->strides, 0, ret)
		    : tarn_layout_contiguous(dtype, dl->ndim, dl->shape, ret);
	return r < 0 ? tarn_fail_prefix(r, "from_dlpack: ") : 0;
}

static int read_layout(
	const DLTensor *dl, uint64_t flags, struct tarn_layout *ret)
{
	enum tarn_dtype dtype = TARN_DTYPE_NONE;
	bool pairs;
	int r = check_device(dl->device);

	if (r >= 0)
		r = check_type(dl->dtype, flags, &dtype, &pairs);
	if (r >= 0)
		r = read_strides(dl, pairs ? TARN_U8 : dtype, ret);
	if (r < 0 || !pairs)
		return r;
	r = tarn_layout_bitcast(ret, TARN_F4, ret);
	return r < 0 ? tarn_fail_prefix(r, "from_dlpack: ") : 0;
}

/* ---- the bytes ------------------------------------------------------- */

/* Of no bytes: NULL would be a storage without an address. */
static char nowhere;

/* size bytes from the first one that is reached; before says how far that lies
 * in front of the element of index (0, 0, ...). */
static int read_address(
	const DLTensor *dl, uint64_t before, uint64_t size, void **ret)
{
	uint64_t at, end;

	if (size == 0) {
		*ret = &nowhere;
		return 0;
	}
	if (!dl->data)
		return tarn_fail(EINVAL,
			"from_dlpack: %llu bytes without an address",
			(unsigned long long)size);
	if (add_u64((uintptr_t)dl->data, dl->byte_offset, &at) || at < before ||
		add_u64(at - before, size, &end))
		return tarn_fail(EOVERFLOW,
			"from_dlpack: %llu bytes from %llu before %p + %llu "
			"lie outside the address space",
			(unsigned long long)size, (unsigned long long)before,
			dl->data, (unsigned long long)dl->byte_offset);
	*ret = (void *)(uintptr_t)(at - before);
	return 0;
}

/* What lends the bytes; release is NULL until nothing can fail any more:
 * until then managed is the caller's. */
struct lender {
	void (*release)(void *arg);
	void *arg;
};

static void end_loan(void *arg)
{
	struct lender *lender = arg;

	if (lender->release)
		lender->release(lender->arg);
	free(lender);
}

/* size bytes at the address; takes lender over on success. */
static int lend(const DLTensor *dl, uint64_t flags, void *data, uint64_t size,
	struct lender *lender, tarn_storage **ret)
{
	unsigned rights = flags & DLPACK_FLAG_BITMASK_READ_ONLY
				  ? 0
				  : TARN_BORROW_WRITABLE;
	struct tarn_cuda_device device;
	char index[16];
	int r;

	if (dl->device.device_type != kDLCUDA)
		return tarn_storage_borrow(
			data, size, rights, end_loan, lender, ret);
	snprintf(index, sizeof(index), "%d", dl->device.device_id);
	r = tarn_cuda_device(index, &device);
	if (r >= 0)
		r = tarn_cuda_borrow(&device, (uintptr_t)data, size, rights,
			end_loan, lender, ret);
	return r < 0 ? tarn_fail_prefix(r, "from_dlpack: ") : 0;
}

/* The layout moves to the lowest byte that it reaches; that and all others. */
static int find_bytes(const DLTensor *dl, struct tarn_layout *layout,
	void **ret, uint64_t *ret_size)
{
	int64_t first, count, bits = tarn_dtype_bits(layout->dtype);

	tarn_layout_bounds(layout, &first, &count);
	*ret_size = (uint64_t)(count * bits + 7) / 8;
	layout->offset = count ? -first : 0;
	return read_address(
		dl, (uint64_t)(layout->offset * bits) / 8, *ret_size, ret);
}

static int borrow(const DLTensor *dl, uint64_t flags,
	void (*release)(void *arg), void *arg, tarn_tensor **ret)
{
	_cleanup_storage_ tarn_storage *storage = NULL;
	struct lender *lender;
	struct tarn_layout layout;
	void *data = NULL;
	uint64_t size;
	int r = read_layout(dl, flags, &layout);

	if (r >= 0)
		r = find_bytes(dl, &layout, &data, &size);
	if (r < 0)
		return r;
	lender = calloc(1, sizeof(*lender));
	if (!lender)
		return tarn_fail(ENOMEM, "from_dlpack: out of memory");
	r = lend(dl, flags, data, size, lender, &storage);
	if (r < 0) {
		free(lender);
		return r;
	}
	r = tarn_tensor_new(storage, 0, &layout, ret);
	if (r < 0)
		return r;
	lender->release = release;
	lender->arg = arg;
	return 0;
}

/* ---- the two forms --------------------------------------------------- */

static void release_versioned(void *arg)
{
	DLManagedTensorVersioned *managed = arg;

	if (managed->deleter)
		managed->deleter(managed);
}

static void release_unversioned(void *arg)
{
	DLManagedTensor *managed = arg;

	if (managed->deleter)
		managed->deleter(managed);
}

int tarn_tensor_from_dlpack(
	struct DLManagedTensorVersioned *managed, tarn_tensor **ret)
{
	/* Of another major version nothing but this and the deleter is where
	 * it is here. */
	if (managed->version.major != DLPACK_MAJOR_VERSION)
		return tarn_fail(ENOTSUP,
			"from_dlpack: version %u.%u, where tarn knows 1",
			managed->version.major, managed->version.minor);
	return borrow(&managed->dl_tensor, managed->flags, release_versioned,
		managed, ret);
}

int tarn_tensor_from_dlpack_unversioned(
	struct DLManagedTensor *managed, tarn_tensor **ret)
{
	return borrow(
		&managed->dl_tensor, 0, release_unversioned, managed, ret);
}
