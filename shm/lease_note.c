/* SPDX-License-Identifier: MIT */
/*
 * Notes of when leases were released.
 *
 * A small table: all indices of one residue share an entry, and the last note
 * wins. All accesses are relaxed, and an entry is not read atomically: a reader
 * that sees the word of one note and the time of another takes one storage's
 * time for another's.
 */
#include <time.h>

#include "shm/lease.h"

/* The coarse clock is exact enough, and costs a fifth of the exact one. */
static uint64_t about_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint32_t place_of(uint64_t word)
{
	return (uint32_t)word % LEASE_NOTES;
}

static uint32_t part_of(uint32_t place)
{
	return 1u << place / LEASE_NOTES_PART;
}

static uint32_t parts(const struct lease_page *page)
{
	return atomic_load_explicit(&page->noted, memory_order_relaxed);
}

void lease_note(struct lease_page *page, uint32_t slot)
{
	uint64_t word =
		atomic_load_explicit(&page->slots[slot], memory_order_relaxed);
	uint32_t place = place_of(word), noted = parts(page);

	if (!(noted & part_of(place)))
		atomic_store_explicit(&page->noted, noted | part_of(place),
			memory_order_relaxed);
	atomic_store_explicit(
		&page->notes[place].word, word, memory_order_relaxed);
	atomic_store_explicit(
		&page->notes[place].at, about_now(), memory_order_relaxed);
}

uint64_t lease_noted(
	const struct lease_page *page, uint32_t index, uint64_t generation)
{
	uint64_t word = lease_word(index, generation);
	uint32_t place = place_of(word);

	if (!(parts(page) & part_of(place)) ||
		atomic_load_explicit(
			&page->notes[place].word, memory_order_relaxed) != word)
		return 0;
	return atomic_load_explicit(
		&page->notes[place].at, memory_order_relaxed);
}

void lease_each_note(const struct lease_page *page,
	void (*fn)(void *arg, uint64_t word, uint64_t at), void *arg)
{
	uint32_t noted = parts(page);

	for (uint32_t i = 0; i < LEASE_NOTES; i++) {
		uint64_t word;

		if (!(noted & part_of(i)))
			continue;
		word = atomic_load_explicit(
			&page->notes[i].word, memory_order_relaxed);
		if (word && place_of(word) == i)
			fn(arg, word,
				atomic_load_explicit(&page->notes[i].at,
					memory_order_relaxed));
	}
}
