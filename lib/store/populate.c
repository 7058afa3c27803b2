/* SPDX-License-Identifier: MIT */
/* Filling the page tables of a tensor before it is read. */
#include "base/populate.h"

#include <unistd.h>

#include <tarn/store.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/tensor/tensor.h"

int tarn_store_populate(
	tarn_store *store, const tarn_tensor *tensor, int threads)
{
	const struct tarn_layout *layout = &tensor->layout;
	unsigned char *data = tarn_tensor_origin(tensor);
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	int64_t first, count, bits = tarn_dtype_bits(layout->dtype);
	uintptr_t start, end;
	unsigned char *at;
	uint64_t size;
	int r;

	if (!storage_by_address(tensor->storage))
		return tarn_fail(EINVAL,
			"populate: the tensor is in a file; load it first");
	if (threads < 0)
		return tarn_fail(EINVAL, "populate: %d threads", threads);
	tarn_layout_bounds(layout, &first, &count);
	if (count == 0)
		return 0;
	/* The sum does not overflow: it was checked when the tensor was
	 * made. */
	start = (uintptr_t)data + (uint64_t)(first * bits / 8);
	end = (uintptr_t)data + (uint64_t)(((first + count) * bits + 7) / 8);
	at = (unsigned char *)(start & ~(page - 1));
	size = ((end + page - 1) & ~(page - 1)) - (uintptr_t)at;
	r = populate_read(at, size, threads);
	if (r)
		return tarn_fail(r, "populate: %llu bytes: %s",
			(unsigned long long)size, tarn_errno_text(r));
	return 0;
}
