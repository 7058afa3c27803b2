/* SPDX-License-Identifier: MIT */
/*
 * Mapping the pages of a control region before the first look-up needs them.
 *
 * Only pages in use are mapped: a page beyond the counts is a hole, and reading
 * a hole of a memfd would allocate it.
 */
#include <sys/mman.h>

#include "base/checked.h"
#include "base/page.h"
#include "shm/record.h"
#include "shm/table.h"

/* More is left to page faults: few readers walk all of a large region. */
#define PREFAULT_MAX (8ull << 20)

static void prefault(
	const struct table *table, const void *part, uint64_t bytes)
{
	uint64_t from = (uint64_t)((const unsigned char *)part - table->map);
	uint64_t start = round_down_u64(from, PAGE), end;

	/* The peer wrote the count: it may have any value. */
	if (bytes > PREFAULT_MAX || round_up_u64(from + bytes, PAGE, &end) ||
		end > table->size || end == start)
		return;
	/* Where the kernel does not support this, the first look-up faults. */
	madvise(table->map + start, end - start, MADV_POPULATE_READ);
}

void table_prefault(const struct table *table)
{
	const struct table_header *h = table->header;

	/* Relaxed: hints, bounded above. */
	prefault(table, h, sizeof(*h));
	prefault(table, table->storages,
		(uint64_t)atomic_load_explicit(
			&h->n_storages, memory_order_relaxed) *
			sizeof(*table->storages));
	prefault(table, table->buckets,
		(uint64_t)atomic_load_explicit(
			&h->n_buckets, memory_order_relaxed) *
			sizeof(*table->buckets));
	prefault(table, table->map + table->records_offset,
		atomic_load_explicit(&h->records_used, memory_order_relaxed));
}
