/* SPDX-License-Identifier: MIT */
/*
 * What pages a tensor lies in, as this process has it mapped.
 *
 * Page tables show that a page is huge, and not how huge. That follows from the
 * pool: its pages are those of the reserve, or else the kernel's own, which
 * have one size.
 */
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/huge_mapped.h"
#include "base/page.h"
#include "lib/store/store.h"
#include "lib/tensor/tensor.h"

/* Of pages that are huge. */
static uint64_t huge_size(const tarn_storage *storage)
{
	const struct shared_storage *shared = store_storage_of(storage);
	uint64_t size = HUGE_PAGE;

	if (!shared || shared->own)
		return size;
	return MAX(size, pool_page_size(&shared->store->pools, shared->pool));
}

int tarn_tensor_pages(const tarn_tensor *tensor, struct tarn_tensor_pages *ret)
{
	struct tarn_tensor_pages pages = {
		.page_size = (uint64_t)sysconf(_SC_PAGESIZE)};
	void *at;
	int r;

	if (!storage_by_address(tensor->storage))
		return tarn_fail(ENOTSUP,
			"pages: the tensor is in a file or on a device; load "
			"or copy it to memory first");
	tensor_reach(tensor, &at, &pages.bytes);
	r = pages.bytes ? huge_mapped(at, pages.bytes, &pages.covered) : 0;
	if (r < 0)
		return tarn_fail(-r, "pages of %llu bytes: %s",
			(unsigned long long)pages.bytes, tarn_errno_text(r));
	if (pages.covered)
		pages.page_size = huge_size(tensor->storage);
	else
		pages.covered = pages.bytes;
	*ret = pages;
	return 0;
}
