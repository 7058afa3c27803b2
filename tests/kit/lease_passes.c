/* SPDX-License-Identifier: MIT */
#include "tests/kit/lease_passes.h"

#include <unistd.h>

#include "shm/lease.h"

unsigned n_searches, search_us;

void __real_lease_batch_search(
	struct lease_batch *batch, const struct lease_page *page);
void __wrap_lease_batch_search(
	struct lease_batch *batch, const struct lease_page *page);
void __wrap_lease_batch_search(
	struct lease_batch *batch, const struct lease_page *page)
{
	n_searches++;
	if (search_us)
		usleep(search_us);
	__real_lease_batch_search(batch, page);
}
