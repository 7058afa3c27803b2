/* SPDX-License-Identifier: MIT */
/*
 * Chains: how a reader finds a name, and how the writer changes chains under
 * readers.
 *
 * This is linear hashing. The table gets one bucket more for each name more;
 * bucket n takes its names from bucket n - 2^k, and no other is touched.
 * Changes that could make a reader miss a name (a split, a record taken out)
 * happen while header.restructuring is odd; a record is added at the head of
 * its chain, which needs no such care.
 */
#include <string.h>

#include "shm/table_writer_internal.h"

void restructure_begin(struct table *table)
{
	struct table_header *h = table->header;
	uint32_t n =
		atomic_load_explicit(&h->restructuring, memory_order_relaxed);

	/* After a crash it is odd already: then it stays as it is. */
	atomic_store_explicit(&h->restructuring, n | 1, memory_order_relaxed);
	/* Pairs with the acquire fence at the end of walk(): a reader of a
	 * pointer stored after this sees the odd number, or a later one. */
	atomic_thread_fence(memory_order_release);
}

void restructure_end(struct table *table)
{
	struct table_header *h = table->header;
	uint32_t n =
		atomic_load_explicit(&h->restructuring, memory_order_relaxed);

	/* Release: pairs with the acquire load at the start of walk(); a reader
	 * that begins with this number sees the chains as they are now. */
	atomic_store_explicit(&h->restructuring, n + 1, memory_order_release);
}

static uint32_t buckets_now(const struct table *table)
{
	return atomic_load_explicit(
		&table->header->n_buckets, memory_order_relaxed);
}

uint64_t chain_find(const struct table *table, const char *name, size_t size,
	uint64_t hash, uint32_t *ret_hops)
{
	_Atomic uint64_t *link =
		&table->buckets[bucket_of(hash, buckets_now(table))];
	uint64_t offset;

	for (*ret_hops = 0;
		(offset = atomic_load_explicit(link, memory_order_relaxed));
		++*ret_hops) {
		struct name_record *record = record_of(table, offset);

		if (record->hash == hash && record->name_size == size &&
			memcmp(record->name, name, size) == 0)
			return offset;
		link = &record->next;
	}
	return 0;
}

void chain_add(struct table *table, uint64_t offset)
{
	struct name_record *record = record_of(table, offset);
	_Atomic uint64_t *head =
		&table->buckets[bucket_of(record->hash, buckets_now(table))];

	/* Release: pairs with the acquire load of next in walk(), for a reader
	 * that still stands on this record from its earlier use. */
	atomic_store_explicit(&record->next,
		atomic_load_explicit(head, memory_order_relaxed),
		memory_order_release);
	/* Release: pairs with the acquire load of the bucket in walk(); the
	 * record is complete for every reader that finds it. */
	atomic_store_explicit(head, offset, memory_order_release);
}

void chain_remove(struct table *table, uint64_t offset)
{
	struct name_record *record = record_of(table, offset);
	_Atomic uint64_t *link =
		&table->buckets[bucket_of(record->hash, buckets_now(table))];
	uint64_t at;

	while ((at = atomic_load_explicit(link, memory_order_relaxed)) &&
		at != offset)
		link = &record_of(table, at)->next;
	if (!at)
		return;
	restructure_begin(table);
	/* Release: pairs with the acquire loads in walk(); the records that
	 * follow in the chain were added before. */
	atomic_store_explicit(link,
		atomic_load_explicit(&record->next, memory_order_relaxed),
		memory_order_release);
	restructure_end(table);
}

void bucket_split(struct table_writer *writer)
{
	struct table *table = writer->table;
	uint32_t n = buckets_now(table);
	uint64_t start = part_offset(table, table->buckets), offset, next;
	_Atomic uint64_t *keep, *move;
	uint32_t from;

	if (n >= TABLE_BUCKETS_MAX || writer->n_records <= n)
		return;
	/* Without memory chains only get longer. */
	if (part_populate(writer, start, table->records_offset,
		    start + (n + 1ull) * sizeof(uint64_t),
		    &writer->buckets_ready) < 0)
		return;
	from = n - (1u << (31 - __builtin_clz(n)));
	keep = &table->buckets[from];
	move = &table->buckets[n];
	restructure_begin(table);
	/* The order stays, so at every moment all pointers lead forward and no
	 * reader can loop. Release each time: pairs with the acquire loads in
	 * walk(). */
	for (offset = atomic_load_explicit(keep, memory_order_relaxed); offset;
		offset = next) {
		struct name_record *record = record_of(table, offset);
		_Atomic uint64_t **tail =
			bucket_of(record->hash, n + 1) == from ? &keep : &move;

		next = atomic_load_explicit(
			&record->next, memory_order_relaxed);
		atomic_store_explicit(*tail, offset, memory_order_release);
		*tail = &record->next;
	}
	/* Ends both chains; pairs with the same acquire loads. */
	atomic_store_explicit(keep, 0, memory_order_release);
	atomic_store_explicit(move, 0, memory_order_release);
	/* Release: pairs with the acquire load of n_buckets in walk(). */
	atomic_store_explicit(
		&table->header->n_buckets, n + 1, memory_order_release);
	restructure_end(table);
}
