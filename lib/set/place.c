/* SPDX-License-Identifier: MIT */
#include "lib/set/place.h"

#include <string.h>

#include "base/fail.h"
#include "lib/cuda/work.h"
#include "lib/store/created.h"
#include "lib/tensor/tensor.h"

struct set_place set_place_of(const tarn_tensor *tensor)
{
	struct set_place place = {0};

	place.on_device =
		tarn_storage_device(tensor->storage, &place.device) == 1;
	return place;
}

bool set_place_same(const struct set_place *a, const struct set_place *b)
{
	return a->on_device == b->on_device &&
	       !memcmp(a->device.uuid, b->device.uuid, sizeof(a->device.uuid));
}

/* ---- new tensors --------------------------------------------------------- */

static int created(tarn_store *store, uint64_t size, tarn_storage **ret)
{
	int64_t shape = (int64_t)size;
	tarn_tensor *whole = NULL;
	int r = tarn_store_create(store, TARN_U8, 1, &shape, 0, &whole);

	if (r < 0)
		return r;
	*ret = tarn_storage_ref(tarn_tensor_storage(whole));
	tarn_tensor_unref(whole);
	return 0;
}

int set_place_alloc(tarn_store *store, const struct set_place *place,
	uint64_t size, tarn_storage **ret)
{
	if (place->on_device)
		return tarn_cuda_alloc(&place->device, size, ret);
	return store ? created(store, size, ret)
		     : tarn_storage_alloc(size, ret);
}

int set_place_blank(tarn_store *store, const struct set_place *place,
	uint64_t size, tarn_storage **ret)
{
	return place->on_device || size < TARN_ADOPT_MIN
		       ? set_place_alloc(store, place, size, ret)
		       : created_blank(store, size, ret);
}

int set_place_tensor(tarn_store *store, const struct set_place *place,
	enum tarn_dtype dtype, int ndim, const int64_t *shape,
	tarn_tensor **ret)
{
	_cleanup_storage_ tarn_storage *storage = NULL;
	struct tarn_layout layout;
	int r = tarn_layout_contiguous(dtype, ndim, shape, &layout);

	if (r >= 0)
		r = set_place_alloc(store, place,
			(uint64_t)tarn_layout_nbytes(&layout), &storage);
	return r < 0 ? r : tarn_tensor_new(storage, 0, &layout, ret);
}

int set_place_copy(const struct set_place *place, const tarn_tensor *tensor,
	enum tarn_dtype dtype, void *cuda_stream, tarn_tensor **ret)
{
	const struct tarn_copy_options options = {.cuda_stream = cuda_stream};
	const struct tarn_layout *l = tarn_tensor_layout(tensor);
	_cleanup_tensor_ tarn_tensor *copy = NULL;
	int r = set_place_tensor(NULL, place, dtype, l->ndim, l->shape, &copy);

	if (r >= 0)
		r = tarn_copy(copy, tensor, &options, NULL);
	if (r >= 0)
		*ret = STEAL(copy);
	return r;
}

/* ---- work on a device ---------------------------------------------------- */

int set_work_begin(
	struct set_work *work, const tarn_tensor *tensor, void *cuda_stream)
{
	struct device_bytes bytes;
	int r;

	*work = (struct set_work) {.device = NULL};
	r = tensor->storage->on_device(tensor->storage, &bytes);
	if (r < 0)
		return r;
	work->device = bytes.device;
	r = cuda_queue_new(work->device, &work->queue);
	if (r >= 0)
		r = cuda_queue_after(work->queue, cuda_stream);
	return r < 0 ? r : cuda_slot_take(work->device, true, &work->slot);
}

void set_work_end(struct set_work *work)
{
	work->queue = cuda_queue_free(work->queue);
	if (work->slot)
		cuda_slot_give(work->device, work->slot);
	work->slot = NULL;
}

int set_work_slot(const struct set_work *work, uint64_t *ret)
{
	return cuda_slot_for(work->slot, work->device, ret);
}

int set_work_wait(const struct set_work *work)
{
	int r = cuda_queue_mark(work->queue, 0);

	return r < 0 ? r : cuda_queue_wait(work->queue, 0);
}

int set_device_address(const tarn_tensor *tensor, uint64_t *ret)
{
	const struct tarn_layout *l = &tensor->layout;
	struct device_bytes bytes;
	int r = tensor->storage->on_device(tensor->storage, &bytes);

	if (r >= 0)
		*ret = bytes.at + tensor->base +
		       (uint64_t)(l->offset * tarn_dtype_bits(l->dtype) / 8);
	return r;
}
