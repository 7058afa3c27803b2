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
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uintptr_t start, end;
	unsigned char *at;
	uint64_t size;
	void *data;
	int r;

	if (!storage_by_address(tensor->storage))
		return tarn_fail(EINVAL,
			"populate: the tensor is in a file or on a device; load "
			"or copy it to memory first");
	if (threads < 0)
		return tarn_fail(EINVAL, "populate: %d threads", threads);
	tensor_reach(tensor, &data, &size);
	if (size == 0)
		return 0;
	start = (uintptr_t)data;
	end = start + size;
	at = (unsigned char *)(start & ~(page - 1));
	size = ((end + page - 1) & ~(page - 1)) - (uintptr_t)at;
	r = populate_read(at, size, threads);
	if (r)
		return tarn_fail(r, "populate: %llu bytes: %s",
			(unsigned long long)size, tarn_errno_text(r));
	return 0;
}
