/* SPDX-License-Identifier: MIT */
/*
 * One state for all ranges, since they are fed one after the other.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/save/checksums.h"

#include "base/checked.h"
#include "base/fail.h"

static int update_portable(void *state, const void *bytes, size_t size)
{
	return (int)XXH3_64bits_update(state, bytes, size);
}

static checksum_update *choose(void)
{
	checksum_update *avx2 = checksum_update_avx2();

	return avx2 ? avx2 : update_portable;
}

int checksums_begin(
	struct checksums *sums, struct checksum_range *ranges, size_t n)
{
	*sums = (struct checksums) {.ranges = ranges, .n = n};
	sums->update = choose();
	sums->state = XXH3_createState();
	if (!sums->state)
		return tarn_fail(ENOMEM, "no memory for checksums");
	XXH3_64bits_reset(sums->state);
	return 0;
}

void checksums_end(struct checksums *sums)
{
	XXH3_freeState(sums->state);
	sums->state = NULL;
}

void checksums_feed(struct checksums *sums, uint64_t offset, const void *bytes,
	uint64_t size)
{
	uint64_t end = offset + size;

	while (sums->done < sums->n) {
		struct checksum_range *r = &sums->ranges[sums->done];
		uint64_t from = MAX(offset, r->offset);
		uint64_t to = MIN(end, r->offset + r->nbytes);

		if (from < to)
			sums->update(sums->state,
				(const char *)bytes + (from - offset),
				to - from);
		if (r->offset + r->nbytes > end)
			return;
		r->value = XXH3_64bits_digest(sums->state);
		XXH3_64bits_reset(sums->state);
		sums->done++;
	}
}
