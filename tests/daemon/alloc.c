/* SPDX-License-Identifier: MIT */
/*
 * The allocator against a bitmap: thousands of seeded steps, each answer
 * compared with the one that looking at every page gives. Then the exact
 * cases: best fit, joining across segments, dropping them, refusals, and that
 * fifty thousand extents stay fast.
 */
#include "base/page.h"
#include "daemon/server/memory/alloc.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fail.h"
#include "tests/kit/tap.h"

#define PAGES 2048 /* of the model */

enum state { ABSENT, FREE, TAKEN };

static unsigned char model[PAGES];

struct taken {
	uint64_t page;
	uint64_t n;
};

static struct taken taken[PAGES];
static int n_taken;

static uint64_t seed = 42;

static uint64_t draw(uint64_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % n;
}

static void set(uint64_t page, uint64_t n, enum state state)
{
	memset(model + page, state, n);
}

static bool all(uint64_t page, uint64_t n, enum state state)
{
	for (uint64_t i = page; i < page + n; i++)
		if (model[i] != state)
			return false;
	return true;
}

/* The run of free pages that begins at page. */
static uint64_t run(uint64_t page)
{
	uint64_t n = 0;

	while (page + n < PAGES && model[page + n] == FREE)
		n++;
	return n;
}

/* Where a best fit of n pages is; PAGES when there is none. */
static uint64_t model_fit(uint64_t n)
{
	uint64_t best = PAGES, best_size = PAGES + 1;

	for (uint64_t page = 0; page < PAGES;) {
		uint64_t size = run(page);

		if (size >= n && size < best_size) {
			best = page;
			best_size = size;
		}
		page += size ? size : 1;
	}
	return best;
}

static bool same_sums(const struct alloc *alloc)
{
	uint64_t total = 0, used = 0, largest = 0, tail = 0, end = PAGES;

	for (uint64_t page = 0; page < PAGES; page++) {
		uint64_t size = run(page);

		total += model[page] != ABSENT;
		used += model[page] == TAKEN;
		largest = size > largest ? size : largest;
	}
	while (end && model[end - 1] == ABSENT)
		end--;
	while (end - tail && model[end - tail - 1] == FREE)
		tail++;
	return alloc_total(alloc) == total * PAGE &&
	       alloc_used(alloc) == used * PAGE &&
	       alloc_largest(alloc) == largest * PAGE &&
	       alloc_tail(alloc) == tail * PAGE;
}

static void remember(uint64_t page, uint64_t n)
{
	set(page, n, TAKEN);
	taken[n_taken++] = (struct taken) {page, n};
}

static bool step_take(struct alloc *alloc)
{
	uint64_t n = 1 + draw(draw(4) ? 8 : 64), offset = 77;
	uint64_t wanted = model_fit(n);
	int r = alloc_take(alloc, n * PAGE, &offset);

	if (wanted == PAGES)
		return r == -ENOSPC && offset == 77;
	if (r < 0 || offset != wanted * PAGE)
		return false;
	remember(wanted, n);
	return true;
}

static bool step_take_at(struct alloc *alloc)
{
	uint64_t n = 1 + draw(8), page = draw(PAGES - 8);
	int r = alloc_take_at(alloc, page * PAGE, n * PAGE);

	if (!all(page, n, FREE))
		return r == -EBUSY;
	if (r == 0)
		remember(page, n);
	return r == 0;
}

static bool step_add(struct alloc *alloc)
{
	uint64_t n = 1 + draw(64), page = draw(PAGES - 64);
	int r = alloc_add(alloc, page * PAGE, n * PAGE);

	if (!all(page, n, ABSENT))
		return r == -EEXIST;
	if (r == 0)
		set(page, n, FREE);
	return r == 0;
}

static bool step_remove(struct alloc *alloc)
{
	uint64_t n = 1 + draw(32), page = draw(PAGES - 32);
	bool is_free = all(page, n, FREE);
	int r;

	if (alloc_is_free(alloc, page * PAGE, n * PAGE) != is_free)
		return false;
	r = alloc_remove(alloc, page * PAGE, n * PAGE);
	if (!is_free)
		return r == -EBUSY;
	if (r == 0)
		set(page, n, ABSENT);
	return r == 0;
}

static bool step_give(struct alloc *alloc)
{
	int i;

	if (!n_taken)
		return true;
	i = (int)draw((uint64_t)n_taken);
	alloc_give(alloc, taken[i].page * PAGE, taken[i].n * PAGE);
	set(taken[i].page, taken[i].n, FREE);
	taken[i] = taken[--n_taken];
	return true;
}

static void against_the_model(void)
{
	struct alloc *alloc = NULL;
	int failed_at = -1;

	alloc_new(&alloc);
	for (int i = 0; i < 20000 && failed_at < 0; i++) {
		uint64_t what = draw(100);
		/* Waves of filling and of emptying. */
		uint64_t takes = i / 2000 % 2 ? 35 : 60;
		bool fine = what < 4           ? step_add(alloc)
			    : what < 7         ? step_remove(alloc)
			    : what < takes     ? step_take(alloc)
			    : what < takes + 5 ? step_take_at(alloc)
					       : step_give(alloc);

		if (!fine || (i % 16 == 0 && !same_sums(alloc)))
			failed_at = i;
	}
	is_int(-1, failed_at, "20000 random steps agree with the bitmap");
	while (n_taken)
		step_give(alloc);
	ok(same_sums(alloc) && alloc_used(alloc) == 0,
		"a segment whose pages are all released is as it was added");
	alloc_free(alloc);
}

static void exact_cases(void)
{
	struct alloc *alloc = NULL;
	uint64_t a = 0, b = 0, c = 0, d = 0;

	alloc_new(&alloc);
	is_int(-ENOSPC, alloc_take(alloc, PAGE, &a),
		"an allocator without segments is full");
	is_int(0, alloc_tail(alloc),
		"an allocator without segments has no tail");
	alloc_add(alloc, 0, 8 * PAGE);
	alloc_add(alloc, 8 * PAGE, 8 * PAGE);
	is_int(16 * PAGE, alloc_largest(alloc), "adjacent segments are joined");
	is_int(0, alloc_take(alloc, 12 * PAGE, &a),
		"an allocation may span adjacent segments");
	is_int(4 * PAGE, alloc_tail(alloc),
		"the rest behind an allocation is the tail");
	alloc_give(alloc, a, 12 * PAGE);

	alloc_take(alloc, 4 * PAGE, &a);
	alloc_take(alloc, PAGE, &b);
	alloc_take(alloc, 2 * PAGE, &c);
	alloc_take(alloc, PAGE, &d);
	alloc_give(alloc, a, 4 * PAGE);
	alloc_give(alloc, c, 2 * PAGE);
	alloc_take(alloc, 2 * PAGE, &d);
	is_int((int64_t)c, (int64_t)d,
		"the tighter of two holes is taken first");
	alloc_free(alloc);
}

/* A segment that is dropped, and one that comes in its place. */
static void dropped(void)
{
	struct alloc *alloc = NULL;
	uint64_t a = 0;

	alloc_new(&alloc);
	alloc_add(alloc, 0, 8 * PAGE);
	alloc_add(alloc, 8 * PAGE, 8 * PAGE);
	alloc_add(alloc, 16 * PAGE, 8 * PAGE);
	alloc_take(alloc, 2 * PAGE, &a);
	is_int(-EBUSY, alloc_remove(alloc, 0, 8 * PAGE),
		"a segment that is used in part cannot be removed");
	is_int(0, alloc_remove(alloc, 8 * PAGE, 8 * PAGE),
		"an unused segment is removed");
	is_int(16 * PAGE, alloc_total(alloc),
		"a removed segment is not counted");
	is_int(-ENOSPC, alloc_take(alloc, 9 * PAGE, &a),
		"the neighbours of a removed segment are not joined");
	is_int(0, alloc_remove(alloc, 16 * PAGE, 8 * PAGE),
		"the last segment is removed");
	is_int(6 * PAGE, alloc_tail(alloc),
		"the tail then lies before the removed segment");
	is_int(0, alloc_add(alloc, 8 * PAGE, 16 * PAGE),
		"a larger segment is added in the place");
	is_int(22 * PAGE, alloc_largest(alloc),
		"the added segment joins the free pages before it");
	is_int(0, alloc_take(alloc, 22 * PAGE, &a),
		"the joined pages are taken as one");
	alloc_free(alloc);
}

static void refusals(void)
{
	struct alloc *alloc = NULL;
	uint64_t offset = 0;

	alloc_new(&alloc);
	is_int(-EINVAL, alloc_add(alloc, 1, PAGE),
		"a segment at an unaligned offset is refused");
	is_int(-EINVAL, alloc_add(alloc, 0, PAGE + 1),
		"a segment of an unaligned size is refused");
	is_int(-EINVAL, alloc_add(alloc, 0, 0),
		"a segment without pages is refused");
	is_int(-EINVAL, alloc_add(alloc, -PAGE, 2 * PAGE),
		"a segment past 2^64 is refused");
	alloc_add(alloc, 0, 4 * PAGE);
	is_int(-EEXIST, alloc_add(alloc, 3 * PAGE, 2 * PAGE),
		"a segment that is there already is refused");
	is_int(-EINVAL, alloc_take(alloc, 0, &offset),
		"an allocation of no bytes is refused");
	is_int(-ENOSPC, alloc_take(alloc, 1ull << 62, &offset),
		"an allocation of more than there is is refused");
	is_int(-EINVAL, alloc_take_at(alloc, PAGE / 2, PAGE),
		"an allocation at half a page is refused");
	is_int(-EBUSY, alloc_take_at(alloc, 3 * PAGE, 2 * PAGE),
		"an allocation past the end is refused");
	is_int(0, alloc_take_at(alloc, PAGE, 2 * PAGE),
		"an allocation in the middle of a hole succeeds");
	is_int(-EBUSY, alloc_take_at(alloc, 2 * PAGE, 2 * PAGE),
		"an allocation over used pages is refused");
	is_int(4 * PAGE, alloc_total(alloc),
		"refused calls leave the total unchanged");
	is_int(2 * PAGE, alloc_used(alloc),
		"refused calls leave the used bytes unchanged");
	is_int(0, (int)!!alloc_free(NULL),
		"freeing an allocator that is NULL returns NULL");
	alloc_free(alloc);
}

/* With every other page free, n extents; then each is filled and freed. */
static void many(void)
{
	const uint64_t n = 50000;
	struct alloc *alloc = NULL;
	clock_t start = clock();
	uint64_t offset, wrong = 0;

	alloc_new(&alloc);
	alloc_add(alloc, 0, 2 * n * PAGE);
	for (uint64_t i = 0; i < n; i++)
		wrong += alloc_take_at(alloc, 2 * i * PAGE, PAGE) < 0;
	for (uint64_t i = 0; i < n; i++)
		wrong += alloc_take(alloc, PAGE, &offset) < 0 ||
			 offset != (2 * i + 1) * PAGE;
	is_int(0, (int64_t)wrong, "50000 holes are filled, lowest first");
	is_int(0, (int64_t)alloc_largest(alloc),
		"after that nothing is free in the allocator");
	for (uint64_t i = 0; i < 2 * n; i++)
		alloc_give(alloc, (i * 7919 % (2 * n)) * PAGE, PAGE);
	is_int((int64_t)(2 * n * PAGE), (int64_t)alloc_largest(alloc),
		"pages that are released in any order join");
	/* 200000 calls: a second is 5 us each, ten times what they take; a
	 * linear search would need minutes. */
	diag("%.2f s of CPU", (double)(clock() - start) / CLOCKS_PER_SEC);
	ok(clock() - start < 60 * CLOCKS_PER_SEC,
		"fifty thousand extents take little time");
	alloc_free(alloc);
}

int main(void)
{
	against_the_model();
	exact_cases();
	dropped();
	refusals();
	many();
	return done(35);
}
