/* SPDX-License-Identifier: MIT */
/*
 * Tensors as 256 bytes, and back.
 *
 * A descriptor proves nothing: lib/descriptor checks it, in private memory, and
 * the lease that is taken for it is what keeps its bytes.
 */
#include <string.h>

#include "base/fail.h"
#include "lib/store/replica.h"
#include "lib/store/store.h"
#include "lib/tensor/tensor.h"

static int import(tarn_store *store, const struct tarn_descriptor *d,
	bool nearest, tarn_tensor **ret)
{
	_cleanup_storage_ tarn_storage *storage = NULL;
	struct tarn_layout layout;
	struct table_storage entry;
	uint64_t base;
	int r = descriptor_check(d, store->instance, &layout);

	if (r < 0)
		return r;
	r = store_storage(store, d->storage, d->generation, &entry, &storage);
	if (r < 0)
		return r;
	r = descriptor_fits(d, &layout, &entry, &base);
	if (r < 0)
		return r;
	if (nearest)
		replica_prefer(
			store, d->storage, d->generation, &entry, &storage);
	return tarn_tensor_new_checked(storage, base, &layout, ret);
}

int store_import(
	tarn_store *store, const struct tarn_descriptor *d, tarn_tensor **ret)
{
	return import(store, d, false, ret);
}

int store_import_nearest(
	tarn_store *store, const struct tarn_descriptor *d, tarn_tensor **ret)
{
	return import(store, d, true, ret);
}

int tarn_store_import(tarn_store *store,
	const struct tarn_descriptor *descriptor, tarn_tensor **ret)
{
	struct tarn_descriptor d;

	/* It may lie in memory that another process still writes. */
	memcpy(&d, descriptor, sizeof(d));
	return store_import(store, &d, ret);
}

/* Writes the layout's fields; the descriptor then has exactly that layout. */
static void descriptor_set_layout(
	struct tarn_descriptor *d, const struct tarn_layout *layout)
{
	d->offset = layout->offset;
	d->dtype = layout->dtype;
	d->ndim = layout->ndim;
	memcpy(d->shape, layout->shape, sizeof(d->shape));
	memcpy(d->stride, layout->stride, sizeof(d->stride));
}

int tarn_store_export(tarn_store *store, const tarn_tensor *tensor,
	struct tarn_descriptor *ret)
{
	const struct shared_storage *shared = store_storage_of(tensor->storage);
	struct tarn_descriptor d = {
		.magic = TARN_DESCRIPTOR_MAGIC,
		.version = TARN_DESCRIPTOR_VERSION,
	};

	if (!shared)
		return tarn_fail(EINVAL,
			"export: the tensor is not in shared memory; load it "
			"through a store first");
	if (shared->store->instance != store->instance)
		return tarn_fail(EINVAL,
			"export: the tensor is kept by daemon %016llx, this "
			"store is of %016llx",
			(unsigned long long)shared->store->instance,
			(unsigned long long)store->instance);
	d.instance = store->instance;
	d.pool = shared->pool;
	d.storage = shared->index;
	d.generation = shared->generation;
	d.base = shared->base + tensor->base;
	d.size = tensor->storage->size;
	descriptor_set_layout(&d, &tensor->layout);
	*ret = d;
	return 0;
}
