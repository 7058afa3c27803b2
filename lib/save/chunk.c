/* SPDX-License-Identifier: MIT */
/*
 * A large tensor whose bytes are in memory in the file's form is written from
 * there, in whole pages; its unaligned ends, small tensors and all that must be
 * gathered share chunks.
 */
#include "lib/save/chunk.h"

#include "base/checked.h"

/* The least size of a tensor that is written straight: below, a separate
 * request would cost more than copying it. Picked: half a request. */
#define STRAIGHT_MIN ((uint64_t)256 << 10)

/* A chunk must not end inside a unit; those of 6 bits have three bytes. */
static uint64_t cut(const struct save_plan *plan, uint64_t end)
{
	for (;; end += CHUNK_PAGE) {
		size_t i = save_plan_find(plan, end);
		const struct part *p = &plan->parts[i];

		if (i == plan->n || end <= p->offset ||
			(end - p->offset) % p->unit == 0)
			return MIN(end, plan->head.file_size);
	}
}

uint64_t first_chunk(const struct save_plan *plan)
{
	return cut(plan, chunk_round(plan->head.size));
}

static bool goes_straight(const struct part *p, uint64_t from)
{
	return p->bytes && p->offset <= from &&
	       p->offset + p->nbytes >= from + STRAIGHT_MIN;
}

/* The end of the whole pages of part from `from` on; if the file ends with the
 * part, of all of it. */
static uint64_t straight_end(
	const struct save_plan *plan, const struct part *p, uint64_t from)
{
	uint64_t end = p->offset + p->nbytes;

	if (end < plan->head.file_size)
		end = round_down_u64(end, CHUNK_PAGE);
	return MIN(end, from + CHUNK_SIZE);
}

uint64_t next_chunk(const struct save_plan *plan, uint64_t at,
	const struct part **ret_straight)
{
	uint64_t end = at + CHUNK_SIZE;
	size_t i = save_plan_find(plan, at);

	*ret_straight = NULL;
	if (i < plan->n && goes_straight(&plan->parts[i], at)) {
		*ret_straight = &plan->parts[i];
		return straight_end(plan, &plan->parts[i], at);
	}
	/* Gathered, up to where a straight one can begin. */
	for (; i < plan->n && plan->parts[i].offset < end; i++) {
		uint64_t page = chunk_round(plan->parts[i].offset);

		if (page > at && page < end &&
			goes_straight(&plan->parts[i], page))
			return cut(plan, page);
	}
	return cut(plan, end);
}
