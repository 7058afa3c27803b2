/* SPDX-License-Identifier: MIT */
/*
 * The mapped ranges of a pool. Neighbours are merged, so that one search finds
 * whether a tensor lies in mapped memory, however many segments it spans.
 */
#include "lib/store/pool_extent.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"

/* The first extent that ends at or after offset; n when none does. */
static uint32_t extent_at(const struct pool_extents *extents, uint64_t offset)
{
	uint32_t low = 0, high = extents->n;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (extents->v[middle].end < offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int extents_reserve(struct pool_extents *extents, uint32_t n)
{
	struct pool_extent *v;

	if (n <= extents->room)
		return 0;
	v = reallocarray(extents->v, n, sizeof(*v));
	if (!v)
		return tarn_fail(ENOMEM, "pool: no memory for %u extents", n);
	extents->v = v;
	extents->room = n;
	return 0;
}

/* Replaces those numbered first to last by n others. */
static void replace(struct pool_extents *extents, uint32_t first, uint32_t last,
	const struct pool_extent *with, uint32_t n)
{
	memmove(&extents->v[first + n], &extents->v[last],
		(extents->n - last) * sizeof(*extents->v));
	memcpy(&extents->v[first], with, n * sizeof(*with));
	extents->n = extents->n - (last - first) + n;
}

void extents_add(struct pool_extents *extents, uint64_t offset, uint64_t end)
{
	uint32_t first = extent_at(extents, offset), last = first;
	struct pool_extent whole = {offset, end};

	/* Merges all those that touch it. */
	for (; last < extents->n && extents->v[last].offset <= end; last++) {
		whole.offset = MIN(whole.offset, extents->v[last].offset);
		whole.end = MAX(whole.end, extents->v[last].end);
	}
	replace(extents, first, last, &whole, 1);
}

void extents_remove(struct pool_extents *extents, uint64_t offset, uint64_t end)
{
	uint32_t first = extent_at(extents, offset + 1), last = first, n = 0;
	struct pool_extent rest[2];

	for (; last < extents->n && extents->v[last].offset < end; last++) {
		struct pool_extent e = extents->v[last];

		if (e.offset < offset)
			rest[n++] = (struct pool_extent) {e.offset, offset};
		if (e.end > end)
			rest[n++] = (struct pool_extent) {end, e.end};
	}
	replace(extents, first, last, rest, n);
}

bool extents_cover(
	const struct pool_extents *extents, uint64_t offset, uint64_t end)
{
	uint32_t i = extent_at(extents, end);

	return i < extents->n && extents->v[i].offset <= offset;
}

void extents_free(struct pool_extents *extents)
{
	free(extents->v);
	*extents = (struct pool_extents) {0};
}
