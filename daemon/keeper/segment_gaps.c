/* SPDX-License-Identifier: MIT */
/*
 * Holes in pools: dropping a segment leaves one, growing fills one.
 *
 * A pool is a range of addresses, and an allocation needs them in one piece. So
 * a growth goes as a whole into the lowest hole that holds it, else to the
 * pool's end, where it joins the addresses that are free there. Otherwise the
 * end would only move up, until a daemon that lives long has none left.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/keeper/keeper.h"
#include "daemon/loop/log.h"

struct range {
	uint64_t offset, end;
};

uint64_t keeper_lane_size(const struct keeper *keeper)
{
	return keeper->memory.reach / keeper->memory.lanes;
}

static bool is_in(const struct keeper *keeper, const struct mapped_segment *s,
	uint32_t lane)
{
	return s->offset / keeper_lane_size(keeper) == lane;
}

static int by_offset(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return (x->offset > y->offset) - (x->offset < y->offset);
}

/* The domain's segments of a lane, in its order; NULL without memory. */
static struct range *ranges_of(const struct keeper *keeper, uint32_t domain,
	uint32_t lane, uint32_t *ret_n)
{
	struct range *ranges =
		calloc(keeper->memory.n_segments + 1, sizeof(*ranges));
	uint32_t n = 0;

	for (uint32_t i = 0; ranges && i < keeper->memory.n_segments; i++) {
		const struct mapped_segment *s =
			&keeper->memory.segments[i].mapped;

		if (s->domain == domain && is_in(keeper, s, lane))
			ranges[n++] =
				(struct range) {s->offset, s->offset + s->size};
	}
	if (ranges)
		qsort(ranges, n, sizeof(*ranges), by_offset);
	*ret_n = n;
	return ranges;
}

bool keeper_hole(const struct keeper *keeper, uint32_t domain, uint32_t lane,
	uint64_t size, uint64_t *ret_offset, uint64_t *ret_end)
{
	uint32_t n;
	_cleanup_free_ struct range *ranges =
		ranges_of(keeper, domain, lane, &n);
	uint64_t at = lane * keeper_lane_size(keeper);

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

uint64_t keeper_lane_end(
	const struct keeper *keeper, uint32_t domain, uint32_t lane)
{
	uint64_t end = lane * keeper_lane_size(keeper);

	for (uint32_t i = 0; i < keeper->memory.n_segments; i++) {
		const struct mapped_segment *s =
			&keeper->memory.segments[i].mapped;

		if (s->domain == domain && is_in(keeper, s, lane))
			end = MAX(end, s->offset + s->size);
	}
	return end;
}

/* Where the last segment of a domain ends. */
static uint64_t end_of(const struct keeper *keeper, uint32_t domain)
{
	uint64_t end = 0;

	for (uint32_t i = 0; i < keeper->memory.n_segments; i++) {
		const struct mapped_segment *s =
			&keeper->memory.segments[i].mapped;

		if (s->domain == domain)
			end = MAX(end, s->offset + s->size);
	}
	return end;
}

int keeper_drop_segment(struct keeper *keeper, const struct msg_segment *which)
{
	struct keeper_segment s;
	struct keeper_domain *domain;
	uint32_t i;

	for (i = 0; i < keeper->memory.n_segments; i++)
		if (keeper->memory.segments[i].mapped.number == which->number)
			break;
	if (i == keeper->memory.n_segments ||
		keeper->memory.segments[i].mapped.domain != which->domain)
		return tarn_fail(EPROTO, "domain %u has no segment %u",
			which->domain, which->number);
	s = keeper->memory.segments[i];
	/* They stay in the order in which they came: a new server finds them
	 * in the tables by that. */
	memmove(&keeper->memory.segments[i], &keeper->memory.segments[i + 1],
		(--keeper->memory.n_segments - i) * sizeof(s));
	if (s.mapped.addr)
		munmap(s.mapped.addr, s.mapped.size);
	fd_close(s.fd);
	domain = &keeper->domains[which->domain];
	domain->allocated -= s.mapped.size;
	domain->pool_end = end_of(keeper, which->domain);
	keeper->memory.allocated -= s.mapped.size;
	if (keeper_may_log(keeper, which->domain))
		log_info("segment_drop", log_u64("segment", which->number),
			log_u64("domain", which->domain),
			log_u64("bytes", s.mapped.size));
	keeper_insist(keeper, D_SEGMENT_DROPPED, which, sizeof(*which));
	return 0;
}
