/* SPDX-License-Identifier: MIT */
/*
 * Ranges of a pool, against a map of every page: they come and go as segments
 * are mapped and dropped, join, are cut in two, and never need more room than
 * there are segments.
 */
#include "lib/store/pool_extent.h"

#include <string.h>

#include "tests/kit/tap.h"

#define PAGES 128u
#define PIECES 16u /* segments, side by side */
#define EACH (PAGES / PIECES)

static bool here[PIECES];
static uint64_t seed = 7;

static uint32_t draw(uint32_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33) % n;
}

static bool model_covers(uint32_t from, uint32_t to)
{
	for (uint32_t page = from; page < to; page++)
		if (!here[page / EACH])
			return false;
	return true;
}

static bool agrees(const struct pool_extents *extents)
{
	uint32_t runs = 0;

	for (uint32_t i = 0; i < PIECES; i++)
		runs += here[i] && (i == 0 || !here[i - 1]);
	for (int i = 0; i < 20; i++) {
		uint32_t from = draw(PAGES), to = from + 1 + draw(PAGES - from);

		if (extents_cover(extents, from, to) != model_covers(from, to))
			return false;
	}
	return extents->n == runs;
}

int main(void)
{
	struct pool_extents extents = {0};
	int failed_at = -1;

	is_int(0, extents_reserve(&extents, PIECES),
		"room for all pieces is reserved");
	for (int i = 0; i < 20000 && failed_at < 0; i++) {
		uint32_t piece = draw(PIECES);

		if (here[piece])
			extents_remove(
				&extents, piece * EACH, (piece + 1) * EACH);
		else
			extents_add(&extents, piece * EACH, (piece + 1) * EACH);
		here[piece] = !here[piece];
		if (!agrees(&extents))
			failed_at = i;
	}
	is_int(-1, failed_at, "20000 random steps agree with the map");
	memset(here, 0, sizeof(here));
	extents_remove(&extents, 0, PAGES);
	ok(agrees(&extents), "all extents can be removed at once");
	extents_free(&extents);
	return done(3);
}
