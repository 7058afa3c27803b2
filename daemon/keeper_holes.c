/* SPDX-License-Identifier: MIT */
/*
 * Holes in pools: dropping a segment leaves one, growing fills one.
 *
 * The idea: a pool is addresses, and an allocation needs them in one piece. So
 * the whole of what is wanted goes into the lowest hole that holds it, else to
 * the pool's end, where it joins what is free there. Without that the end
 * would only ever move up, until a daemon that lives long has none left.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/keeper.h"
#include "daemon/log.h"

struct range {
	uint64_t offset, end;
};

static int by_offset(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return (x->offset > y->offset) - (x->offset < y->offset);
}

/* The rule's segments in the order of the pool; NULL without memory. */
static struct range *ranges_of(
	const struct keeper *keeper, uint32_t rule, uint32_t *ret_n)
{
	struct range *ranges = calloc(keeper->n_segments + 1, sizeof(*ranges));
	uint32_t n = 0;

	for (uint32_t i = 0; ranges && i < keeper->n_segments; i++) {
		const struct mapped_segment *s = &keeper->segments[i].mapped;

		if (s->rule == rule)
			ranges[n++] =
				(struct range) {s->offset, s->offset + s->size};
	}
	if (ranges)
		qsort(ranges, n, sizeof(*ranges), by_offset);
	*ret_n = n;
	return ranges;
}

bool keeper_hole(const struct keeper *keeper, uint32_t rule, uint64_t size,
	uint64_t *ret_offset, uint64_t *ret_end)
{
	uint32_t n;
	_cleanup_free_ struct range *ranges = ranges_of(keeper, rule, &n);
	uint64_t at = 0;

	for (uint32_t i = 0; ranges && i < n; i++) {
		if (ranges[i].offset - at >= size) {
			*ret_offset = at;
			*ret_end = ranges[i].offset;
			return true;
		}
		at = ranges[i].end;
	}
	return false;
}

/* Where the last segment of a rule ends. */
static uint64_t end_of(const struct keeper *keeper, uint32_t rule)
{
	uint64_t end = 0;

	for (uint32_t i = 0; i < keeper->n_segments; i++) {
		const struct mapped_segment *s = &keeper->segments[i].mapped;

		if (s->rule == rule)
			end = MAX(end, s->offset + s->size);
	}
	return end;
}

int keeper_drop_segment(struct keeper *keeper, const struct msg_segment *which)
{
	struct keeper_segment s;
	struct keeper_rule *rule;
	uint32_t i;

	for (i = 0; i < keeper->n_segments; i++)
		if (keeper->segments[i].mapped.number == which->number)
			break;
	if (i == keeper->n_segments ||
		keeper->segments[i].mapped.rule != which->rule)
		return tarn_fail(EPROTO, "rule %u has no segment %u",
			which->rule, which->number);
	s = keeper->segments[i];
	/* They stay in the order in which they came: a new server finds them
	 * in the tables by that. */
	memmove(&keeper->segments[i], &keeper->segments[i + 1],
		(--keeper->n_segments - i) * sizeof(s));
	if (s.mapped.addr)
		munmap(s.mapped.addr, s.mapped.size);
	fd_close(s.fd);
	rule = &keeper->rules[which->rule];
	rule->allocated -= s.mapped.size;
	rule->pool_end = end_of(keeper, which->rule);
	keeper->allocated -= s.mapped.size;
	log_info("segment_drop", log_u64("segment", which->number),
		log_u64("rule", which->rule), log_u64("bytes", s.mapped.size));
	keeper_insist(keeper, D_SEGMENT_DROPPED, which, sizeof(*which));
	return 0;
}
