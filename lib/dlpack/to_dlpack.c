// SPDX-License-Identifier: MIT
/*
 * Tensors out, by DLPack. What is exported holds a reference to the tensor,
 * which keeps the bytes, a lease and all; the deleter drops it. One allocation
 * has the struct, in either form, and the numbers that it points to.
 */
#include "lib/dlpack/dlpack.h"

#include <stdlib.h>
#include <string.h>

#include <tarn/version.h>

#include "base/fail.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/work.h"
#include "lib/tensor/tensor.h"

struct exported {
	union {
		DLManagedTensor unversioned;
		DLManagedTensorVersioned versioned;
	};
	tarn_tensor *tensor;
	int64_t numbers[]; /* the shape, then the strides */
};

static void drop(struct exported *e)
{
	tarn_tensor_unref(e->tensor);
	free(e);
}

static void delete_unversioned(DLManagedTensor *self)
{
	drop(self->manager_ctx);
}

static void delete_versioned(DLManagedTensorVersioned *self)
{
	drop(self->manager_ctx);
}

/* How DLPack sees it: F4 as pairs, of a byte each. */
static int view(
	tarn_tensor *tensor, struct tarn_layout *ret, DLDataType *ret_type)
{
	int r;

	*ret = tensor->layout;
	*ret_type = dlpack_type(ret->dtype);
	if (ret->dtype != TARN_F4)
		return 0;
	ret_type->lanes = 2;
	r = tarn_layout_bitcast(ret, TARN_U8, ret);
	return r < 0 ? tarn_fail_prefix(r, "to_dlpack: ") : 0;
}

static char nowhere;

/* Of the host. */
static int host_address(tarn_tensor *tensor, unsigned flags, void **ret)
{
	bool guard = flags & TARN_DLPACK_GUARD;
	int r = 0;

	*ret = NULL;
	if (guard && !tensor->storage->writable)
		r = tarn_tensor_guard(tensor, ret);
	else
		*ret = tarn_tensor_data(tensor);
	if (r < 0)
		return r;
	if (r > 0)
		return tarn_fail(ENOTSUP,
			"to_dlpack: read-only memory of which there is no "
			"copy-on-write; clone the tensor");
	if (!*ret)
		return tarn_fail(ENOTSUP,
			"to_dlpack: the tensor is in a file and has no "
			"address; clone it");
	return 0;
}

/* Of the first element. Where there is none DLPack would have NULL, but PyTorch
 * calls no deleter of a tensor at NULL. */
static int address(
	tarn_tensor *tensor, unsigned flags, void **ret, DLDevice *ret_device)
{
	const tarn_storage *storage = tensor->storage;
	const struct tarn_layout *l = &tensor->layout;
	int64_t bits = tarn_dtype_bits(l->dtype);
	struct device_bytes bytes;
	int r = 0;

	*ret_device = (DLDevice) {kDLCPU, 0};
	*ret = &nowhere;
	if (storage->on_device) {
		r = storage->on_device(storage, &bytes);
		if (r < 0)
			return tarn_fail_prefix(r, "to_dlpack: ");
		cuda_memory_show(bytes.memory);
		*ret_device = (DLDevice) {kDLCUDA, cuda_index(bytes.device)};
	}
	if (tarn_layout_numel(l) == 0)
		return 0;
	if (!storage->on_device)
		return host_address(tensor, flags, ret);
	*ret = (void *)(uintptr_t)(bytes.at + tensor->base +
				   (uint64_t)(l->offset * bits / 8));
	return 0;
}

static struct exported *allocate(
	tarn_tensor *tensor, const struct tarn_layout *l)
{
	size_t n = l->ndim;
	struct exported *e = malloc(sizeof(*e) + 2 * n * sizeof(int64_t));

	if (!e)
		return NULL;
	e->tensor = tarn_tensor_ref(tensor);
	memcpy(e->numbers, l->shape, n * sizeof(int64_t));
	memcpy(e->numbers + n, l->stride, n * sizeof(int64_t));
	return e;
}

/* All but the form: in ret_dl what the struct holds. */
static int export(tarn_tensor *tensor, unsigned flags, struct exported **ret,
	DLTensor *ret_dl)
{
	struct tarn_layout layout;
	DLDataType type;
	struct exported *e;
	void *data = NULL;
	DLDevice device;
	int r = view(tensor, &layout, &type);

	if (r >= 0)
		r = address(tensor, flags, &data, &device);
	if (r < 0)
		return r;
	e = allocate(tensor, &layout);
	if (!e)
		return tarn_fail(ENOMEM, "to_dlpack: out of memory");
	*ret_dl = (DLTensor) {
		.data = data,
		.device = device,
		.ndim = layout.ndim,
		.dtype = type,
		.shape = e->numbers,
		.strides = e->numbers + layout.ndim,
	};
	*ret = e;
	return 0;
}

int tarn_tensor_to_dlpack(tarn_tensor *tensor, unsigned flags,
	struct DLManagedTensorVersioned **ret)
{
	struct exported *e;
	DLTensor dl;
	int r;

	if (flags & ~(TARN_DLPACK_GUARD | TARN_DLPACK_COPIED))
		return tarn_fail(EINVAL,
			"to_dlpack: libtarn %s does not know flags 0x%x",
			tarn_version(), flags);
	r = export(tensor, flags, &e, &dl);
	if (r < 0)
		return r;
	e->versioned = (DLManagedTensorVersioned) {
		.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
		.manager_ctx = e,
		.deleter = delete_versioned,
		.flags = (tensor->storage->writable
					 ? 0
					 : DLPACK_FLAG_BITMASK_READ_ONLY) |
			 (flags & TARN_DLPACK_COPIED
					 ? DLPACK_FLAG_BITMASK_IS_COPIED
					 : 0),
		.dl_tensor = dl,
	};
	*ret = &e->versioned;
	return 0;
}

int tarn_tensor_to_dlpack_unversioned(
	tarn_tensor *tensor, struct DLManagedTensor **ret)
{
	struct exported *e;
	DLTensor dl;
	int r;

	if (!tensor->storage->writable)
		return tarn_fail(EROFS,
			"to_dlpack: the tensor is read-only, which DLPack "
			"before version 1 cannot say; clone it");
	r = export(tensor, 0, &e, &dl);
	if (r < 0)
		return r;
	e->unversioned = (DLManagedTensor) {
		.dl_tensor = dl,
		.manager_ctx = e,
		.deleter = delete_unversioned,
	};
	*ret = &e->unversioned;
	return 0;
}
