/* SPDX-License-Identifier: MIT */
/* A sorted array: it has an entry for each segment, and is searched for each
 * device pointer. */
#include "lib/cuda/ranges.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"

int cuda_ranges_reserve(struct cuda_ranges *ranges)
{
	uint32_t room = MAX(2 * ranges->room, 16u);
	struct cuda_range *list;

	if (ranges->n < ranges->room)
		return 0;
	list = reallocarray(ranges->list, room, sizeof(*list));
	if (!list)
		return tarn_fail(
			ENOMEM, "no memory to note %u registrations", room);
	ranges->list = list;
	ranges->room = room;
	return 0;
}

struct cuda_range *cuda_ranges_find(
	const struct cuda_ranges *ranges, uintptr_t at)
{
	uint32_t low = 0, high = ranges->n;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (ranges->list[middle].end <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low < ranges->n ? &ranges->list[low] : NULL;
}

struct cuda_range *cuda_ranges_add(
	struct cuda_ranges *ranges, const struct cuda_range *range)
{
	struct cuda_range *next = cuda_ranges_find(ranges, range->start);
	uint32_t i = next ? (uint32_t)(next - ranges->list) : ranges->n;

	memmove(&ranges->list[i + 1], &ranges->list[i],
		(ranges->n - i) * sizeof(*range));
	ranges->list[i] = *range;
	ranges->n++;
	return &ranges->list[i];
}

void cuda_ranges_remove(struct cuda_ranges *ranges, struct cuda_range *range)
{
	uint32_t i = (uint32_t)(range - ranges->list);

	ranges->n--;
	memmove(&ranges->list[i], &ranges->list[i + 1],
		(ranges->n - i) * sizeof(*range));
}

void cuda_ranges_clear(struct cuda_ranges *ranges)
{
	free(ranges->list);
	*ranges = (struct cuda_ranges) {0};
}
