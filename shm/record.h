/* SPDX-License-Identifier: MIT */
/*
 * Records of the name index, as readers and the writer both see them.
 *
 * The records part is a row of records and holes from its start up to
 * header.records_used. Each begins with a struct name_record whose size says
 * where the next one begins; one with name_size 0 is a hole, and a hole's two
 * commit numbers are 0. Boundaries are only ever added (a hole may be cut in
 * two), never taken away, so that a reader that stands on one can always walk
 * on.
 */
#pragma once

#include <string.h>

#include "shm/table.h"

#define NAME_SIZE_MAX 1024u
#define RECORD_ALIGN 64u
#define RECORD_SIZE_MIN (sizeof(struct name_record) + RECORD_ALIGN)
#define RECORD_SIZE_MAX (sizeof(struct name_record) + NAME_SIZE_MAX)
/* A record has room for a name of up to this many bytes, or for the longest. */
#define RECORD_NAME_SHORT 64u
#define RECORD_NAME_MIDDLE 256u
static_assert(2 * sizeof(struct name_record) + RECORD_NAME_SHORT +
			      RECORD_NAME_MIDDLE ==
		      RECORD_SIZE_MAX,
	"a hole of the largest is one of each of the others");

/* Names with one hash share a chain. With a random seed a chain of ten is long;
 * the bound is for an attacker that knows the seed, or a corrupt region. */
#define CHAIN_MAX 4096u

/* Linear hashing: the bucket of a hash when there are n of them. */
static inline uint32_t bucket_of(uint64_t hash, uint32_t n)
{
	uint32_t half = 1u << (31 - __builtin_clz(n));
	uint32_t bucket = (uint32_t)hash & (2 * half - 1);

	return bucket < n ? bucket : bucket - half;
}

/* The record at a region offset that another process wrote; NULL where no
 * record can be. Its name_size is still to be checked. */
static inline struct name_record *record_at(
	const struct table *table, uint64_t offset)
{
	if (offset < table->records_offset || offset % RECORD_ALIGN ||
		offset > table->size - RECORD_SIZE_MAX)
		return NULL;
	return (struct name_record *)(void *)(table->map + offset);
}

/*
 * Loads of plain fields that another process may be writing. They are atomic so
 * that the compiler reads once; the result is valid only if the commit number
 * is the same when read again.
 */
#define PEEK(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

/*
 * The version that a reader of snapshot committed uses: the newest not above
 * it. -1: none. *ret_commit is the number that must be there still after
 * copying.
 */
static inline int version_pick(const struct name_record *record,
	uint64_t committed, uint64_t *ret_commit)
{
	int best = -1;
	uint64_t best_commit = 0;

	for (int i = 0; i < 2; i++) {
		/* Acquire: pairs with the release store in version_write; the
		 * name and the descriptor are those of this commit or newer. */
		uint64_t commit = atomic_load_explicit(
			&record->versions[i].commit, memory_order_acquire);

		if (commit > best_commit && commit <= committed) {
			best = i;
			best_commit = commit;
		}
	}
	*ret_commit = best_commit;
	return best;
}

/* After copying: is all of the copy the version that was picked? */
static inline bool version_still(
	const struct name_record *record, int i, uint64_t commit)
{
	/* Pairs with the release fence in version_write and record_erase: a
	 * reader that has read a byte written after it sees the number gone. */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&record->versions[i].commit,
		       memory_order_relaxed) == commit;
}

/* No byte of a name changes while it stands. So a walk skips a record that does
 * not begin with the prefix without proof, and without reading the rest of
 * it. */
static inline bool record_may_begin(const struct name_record *record,
	const char *prefix, size_t prefix_size)
{
	return prefix_size <= NAME_SIZE_MAX &&
	       PEEK(record->name_size) >= prefix_size &&
	       memcmp(record->name, prefix, prefix_size) == 0;
}
