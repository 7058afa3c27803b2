/* SPDX-License-Identifier: MIT */
/*
 * Which bytes of a pool are free.
 *
 * Each free extent is a node of two treaps at once: one in the order of
 * offsets, to find neighbours, and one in the order of (size, offset), to find
 * the best fit. Every call costs O(log n): about a microsecond with fifty
 * thousand extents, where a sorted array would move half a megabyte.
 *
 * Giving back must not fail for want of memory, so the nodes it may need are
 * set aside when bytes are taken: n allocations leave at most n + 1 gaps in
 * each stretch of memory that was added.
 */
#include "daemon/server/memory/alloc.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"

#define ALLOC_UNIT 4096u

enum { BY_OFFSET, BY_SIZE, N_ORDERS };

struct extent {
	uint64_t offset;
	uint64_t size;
	uint32_t priority; /* of a parent is not below its children's */
	struct extent *child[N_ORDERS][2];
};

/* A stretch of memory that was added, whether free or taken. */
struct span {
	uint64_t start;
	uint64_t end;
};

struct alloc {
	struct extent *root[N_ORDERS];
	struct extent *spare; /* chained by child[0][0] */
	uint64_t n_extents;
	uint64_t n_spare;
	uint64_t n_taken; /* allocations */
	struct span *spans;
	uint32_t n_spans;
	uint32_t random;
	uint64_t total;
	uint64_t used;
	uint64_t end; /* of all that was added */
};

/* ---- the treaps ------------------------------------------------------ */

static bool before(const struct extent *a, const struct extent *b, int order)
{
	if (order == BY_SIZE && a->size != b->size)
		return a->size < b->size;
	return a->offset < b->offset;
}

static void tree_insert(struct extent **at, struct extent *e, int order)
{
	struct extent **low = &e->child[order][0];
	struct extent **high = &e->child[order][1];
	struct extent *rest;

	while (*at && (*at)->priority >= e->priority)
		at = &(*at)->child[order][before(*at, e, order)];
	/* e takes this place; what was below is split around it. */
	rest = *at;
	*at = e;
	while (rest) {
		if (before(rest, e, order)) {
			*low = rest;
			low = &rest->child[order][1];
			rest = *low;
		} else {
			*high = rest;
			high = &rest->child[order][0];
			rest = *high;
		}
	}
	*low = NULL;
	*high = NULL;
}

static void tree_remove(struct extent **at, struct extent *e, int order)
{
	struct extent *low = e->child[order][0];
	struct extent *high = e->child[order][1];

	while (*at != e)
		at = &(*at)->child[order][before(*at, e, order)];
	while (low && high) {
		if (low->priority >= high->priority) {
			*at = low;
			at = &low->child[order][1];
			low = *at;
		} else {
			*at = high;
			at = &high->child[order][0];
			high = *at;
		}
	}
	*at = low ? low : high;
}

/* The last extent that begins at or below offset. */
static struct extent *floor_of(const struct alloc *alloc, uint64_t offset)
{
	struct extent *e = alloc->root[BY_OFFSET], *found = NULL;

	while (e) {
		bool right = e->offset <= offset;

		if (right)
			found = e;
		e = e->child[BY_OFFSET][right];
	}
	return found;
}

/* The first extent that begins at or above offset. */
static struct extent *ceiling_of(const struct alloc *alloc, uint64_t offset)
{
	struct extent *e = alloc->root[BY_OFFSET], *found = NULL;

	while (e) {
		bool right = e->offset < offset;

		if (!right)
			found = e;
		e = e->child[BY_OFFSET][right];
	}
	return found;
}

/* The smallest that fits; of several of one size, the lowest. */
static struct extent *best_fit(const struct alloc *alloc, uint64_t size)
{
	struct extent *e = alloc->root[BY_SIZE], *found = NULL;

	while (e) {
		bool right = e->size < size;

		if (!right)
			found = e;
		e = e->child[BY_SIZE][right];
	}
	return found;
}

/* ---- extents --------------------------------------------------------- */

static int reserve(struct alloc *alloc, uint64_t n)
{
	while (alloc->n_extents + alloc->n_spare < n) {
		struct extent *e = calloc(1, sizeof(*e));

		if (!e)
			return tarn_fail(ENOMEM,
				"no memory for the %llu extents of a pool",
				(unsigned long long)n);
		e->child[0][0] = alloc->spare;
		alloc->spare = e;
		alloc->n_spare++;
	}
	return 0;
}

static uint32_t next_random(struct alloc *alloc)
{
	alloc->random ^= alloc->random << 13;
	alloc->random ^= alloc->random >> 17;
	alloc->random ^= alloc->random << 5;
	return alloc->random;
}

static void extent_link(struct alloc *alloc, uint64_t offset, uint64_t size)
{
	struct extent *e = alloc->spare;

	assert(e);
	alloc->spare = e->child[0][0];
	alloc->n_spare--;
	alloc->n_extents++;
	e->offset = offset;
	e->size = size;
	e->priority = next_random(alloc);
	for (int order = 0; order < N_ORDERS; order++)
		tree_insert(&alloc->root[order], e, order);
}

static void extent_unlink(struct alloc *alloc, struct extent *e)
{
	for (int order = 0; order < N_ORDERS; order++)
		tree_remove(&alloc->root[order], e, order);
	e->child[0][0] = alloc->spare;
	alloc->spare = e;
	alloc->n_spare++;
	alloc->n_extents--;
}

/* Frees [offset, offset + size) and joins it with what is free on both sides;
 * a spare node is there. */
static void join(struct alloc *alloc, uint64_t offset, uint64_t size)
{
	struct extent *low = floor_of(alloc, offset);
	struct extent *high = ceiling_of(alloc, offset);

	assert(!low || low->offset + low->size <= offset);
	assert(!high || high->offset >= offset + size);
	if (low && low->offset + low->size == offset) {
		offset = low->offset;
		size += low->size;
		extent_unlink(alloc, low);
	}
	if (high && high->offset == offset + size) {
		size += high->size;
		extent_unlink(alloc, high);
	}
	extent_link(alloc, offset, size);
}

/* Leaves of e what is not in [offset, offset + size); a spare node is there. */
static void cut(
	struct alloc *alloc, struct extent *e, uint64_t offset, uint64_t size)
{
	uint64_t start = e->offset, end = e->offset + e->size;

	extent_unlink(alloc, e);
	if (start < offset)
		extent_link(alloc, start, offset - start);
	if (offset + size < end)
		extent_link(alloc, offset + size, end - (offset + size));
}

static void carve(
	struct alloc *alloc, struct extent *e, uint64_t offset, uint64_t size)
{
	cut(alloc, e, offset, size);
	alloc->used += size;
	alloc->n_taken++;
}

static int check_range(const char *what, uint64_t offset, uint64_t size)
{
	uint64_t end;

	if (!size || (offset | size) % ALLOC_UNIT ||
		add_u64(offset, size, &end))
		return tarn_fail(EINVAL,
			"%s: %llu bytes at %llu of a pool: neither may be "
			"anything but whole pages of %u",
			what, (unsigned long long)size,
			(unsigned long long)offset, ALLOC_UNIT);
	return 0;
}

/* ---- the face -------------------------------------------------------- */

int alloc_new(struct alloc **ret)
{
	struct alloc *alloc = calloc(1, sizeof(*alloc));

	if (!alloc)
		return tarn_fail(ENOMEM, "no memory for a pool's extents");
	alloc->random = 0x7a6e1f5bu; /* any but 0 */
	*ret = alloc;
	return 0;
}

struct alloc *alloc_free(struct alloc *alloc)
{
	if (!alloc)
		return NULL;
	while (alloc->root[BY_OFFSET])
		extent_unlink(alloc, alloc->root[BY_OFFSET]);
	while (alloc->spare) {
		struct extent *e = alloc->spare;

		alloc->spare = e->child[0][0];
		free(e);
	}
	free(alloc->spans);
	free(alloc);
	return NULL;
}

/* Notes [start, end) as added: joins the span before it, as pools grow, or
 * else begins one. */
static int span_add(struct alloc *alloc, uint64_t start, uint64_t end)
{
	struct span *spans, *before = NULL;

	for (uint32_t i = 0; i < alloc->n_spans; i++) {
		if (alloc->spans[i].end == start)
			before = &alloc->spans[i];
		if (start < alloc->spans[i].end && alloc->spans[i].start < end)
			return tarn_fail(EEXIST,
				"bytes %llu to %llu of a pool were added "
				"before",
				(unsigned long long)start,
				(unsigned long long)end);
	}
	if (before) {
		before->end = end;
		return 0;
	}
	spans = realloc(alloc->spans, (alloc->n_spans + 1) * sizeof(*spans));
	if (!spans)
		return tarn_fail(ENOMEM, "no memory for a pool's extents");
	spans[alloc->n_spans++] = (struct span) {start, end};
	alloc->spans = spans;
	return 0;
}

int alloc_add(struct alloc *alloc, uint64_t offset, uint64_t size)
{
	int r = check_range("add", offset, size);

	if (r >= 0)
		r = reserve(alloc, alloc->n_taken + alloc->n_spans + 2);
	if (r >= 0)
		r = span_add(alloc, offset, offset + size);
	if (r < 0)
		return r;
	join(alloc, offset, size);
	alloc->total += size;
	alloc->end = MAX(alloc->end, offset + size);
	return 0;
}

/* Cuts [start, end) out of all spans; room for one more is there. */
static void spans_cut(struct alloc *alloc, uint64_t start, uint64_t end)
{
	uint32_t n = alloc->n_spans, kept = 0;
	struct span rest = {0};

	alloc->end = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct span s = alloc->spans[i];

		if (start < s.end && s.start < end) {
			if (s.start < start && end < s.end)
				rest = (struct span) {end, s.end};
			if (s.start < start)
				s.end = start;
			else
				s.start = MIN(end, s.end);
		}
		if (s.start < s.end)
			alloc->spans[kept++] = s;
	}
	if (rest.end)
		alloc->spans[kept++] = rest;
	alloc->n_spans = kept;
	for (uint32_t i = 0; i < kept; i++)
		alloc->end = MAX(alloc->end, alloc->spans[i].end);
}

bool alloc_is_free(const struct alloc *alloc, uint64_t offset, uint64_t size)
{
	const struct extent *e = floor_of(alloc, offset);

	return e && offset - e->offset <= e->size &&
	       size <= e->size - (offset - e->offset);
}

int alloc_remove(struct alloc *alloc, uint64_t offset, uint64_t size)
{
	struct span *spans;
	int r = check_range("remove", offset, size);

	if (r < 0)
		return r;
	if (!alloc_is_free(alloc, offset, size))
		return tarn_fail(EBUSY,
			"bytes %llu to %llu of a pool are not all free",
			(unsigned long long)offset,
			(unsigned long long)(offset + size));
	r = reserve(alloc, alloc->n_taken + alloc->n_spans + 2);
	if (r < 0)
		return r;
	spans = realloc(alloc->spans, (alloc->n_spans + 1) * sizeof(*spans));
	if (!spans)
		return tarn_fail(ENOMEM, "no memory for a pool's extents");
	alloc->spans = spans;
	cut(alloc, floor_of(alloc, offset), offset, size);
	spans_cut(alloc, offset, offset + size);
	alloc->total -= size;
	return 0;
}

int alloc_take(struct alloc *alloc, uint64_t size, uint64_t *ret_offset)
{
	struct extent *e;
	int r = check_range("take", 0, size);

	if (r < 0)
		return r;
	e = best_fit(alloc, size);
	if (!e)
		return -ENOSPC;
	r = reserve(alloc, alloc->n_taken + 1 + alloc->n_spans + 1);
	if (r < 0)
		return r;
	*ret_offset = e->offset;
	carve(alloc, e, e->offset, size);
	return 0;
}

int alloc_take_at(struct alloc *alloc, uint64_t offset, uint64_t size)
{
	struct extent *e;
	int r = check_range("take", offset, size);

	if (r < 0)
		return r;
	e = floor_of(alloc, offset);
	if (!e || e->offset + e->size < offset + size)
		return tarn_fail(EBUSY,
			"bytes %llu to %llu of a pool are not all free",
			(unsigned long long)offset,
			(unsigned long long)(offset + size));
	r = reserve(alloc, alloc->n_taken + 1 + alloc->n_spans + 1);
	if (r < 0)
		return r;
	carve(alloc, e, offset, size);
	return 0;
}

void alloc_give(struct alloc *alloc, uint64_t offset, uint64_t size)
{
	assert(alloc->n_taken && size && size <= alloc->used);
	join(alloc, offset, size);
	alloc->used -= size;
	alloc->n_taken--;
}

uint64_t alloc_total(const struct alloc *alloc)
{
	return alloc->total;
}

uint64_t alloc_used(const struct alloc *alloc)
{
	return alloc->used;
}

uint64_t alloc_largest(const struct alloc *alloc)
{
	const struct extent *e = alloc->root[BY_SIZE];

	while (e && e->child[BY_SIZE][1])
		e = e->child[BY_SIZE][1];
	return e ? e->size : 0;
}

uint64_t alloc_tail(const struct alloc *alloc)
{
	const struct extent *e = floor_of(alloc, UINT64_MAX);

	return e && e->offset + e->size == alloc->end ? e->size : 0;
}
