/* SPDX-License-Identifier: MIT */
/*
 * Pools and storages: entries that are filled in, then shown.
 *
 * Each has one word (a count, or the storage's own) whose release store shows a
 * complete entry. A storage's index is used again under the next generation, so
 * that no old word ever matches a new storage.
 */
#include <string.h>

#include "base/fail.h"
#include "shm/table_writer_internal.h"

int table_add_pool(struct table_writer *writer, const struct table_pool *pool)
{
	struct table_header *h = writer->table->header;
	uint32_t n = atomic_load_explicit(&h->n_pools, memory_order_relaxed);

	if (n >= TABLE_POOLS_MAX)
		return tarn_fail(ENOSPC, "a domain has at most %u pools",
			TABLE_POOLS_MAX);
	writer->table->pools[n] = *pool;
	/* Release: pairs with the acquire loads of the readers of n_pools. */
	atomic_store_explicit(&h->n_pools, n + 1, memory_order_release);
	return 0;
}

/* A free index, whose entry is populated; a new one is not counted in yet. */
static int index_take(struct table_writer *writer, uint32_t *ret)
{
	struct table *table = writer->table;
	uint64_t start = part_offset(table, table->storages);
	uint32_t n = atomic_load_explicit(
		&table->header->n_storages, memory_order_relaxed);
	int r;

	if (writer->storages.n) {
		*ret = (uint32_t)writer->storages.v[--writer->storages.n];
		return 0;
	}
	if (n >= TABLE_STORAGES_MAX)
		return tarn_fail(ENOSPC, "a domain has at most %u storages",
			TABLE_STORAGES_MAX);
	r = part_populate(writer, start, part_offset(table, table->completions),
		start + (n + 1ull) * sizeof(struct table_storage),
		&writer->storages_ready);
	if (r >= 0)
		*ret = n;
	return r;
}

int table_storage_add(struct table_writer *writer,
	const struct table_storage *storage, enum storage_state state,
	uint32_t *ret_index, uint64_t *ret_generation)
{
	struct table *table = writer->table;
	struct table_header *h = table->header;
	struct table_storage *entry;
	uint64_t generation;
	uint32_t index = 0;
	int r = index_take(writer, &index);

	if (r < 0)
		return r;
	entry = &table->storages[index];
	generation = storage_word_generation(
		atomic_load_explicit(&entry->word, memory_order_relaxed));
	if (generation == 0)
		generation = 1; /* 0 would make an empty lease word */
	/* Pairs with the acquire fence in table_storage_get: a reader that has
	 * copied a field of this generation sees that the last one is over. */
	atomic_thread_fence(memory_order_release);
	memcpy((unsigned char *)entry + sizeof(entry->word),
		(const unsigned char *)storage + sizeof(entry->word),
		sizeof(*entry) - sizeof(entry->word));
	atomic_store_explicit(&entry->landed, 0, memory_order_relaxed);
	/* Release: pairs with the acquire loads of the word in
	 * table_storage_get and lease_acquire. */
	atomic_store_explicit(&entry->word, storage_word(generation, state),
		memory_order_release);
	/* Release: pairs with the acquire load in table_storage_get. */
	if (index >= atomic_load_explicit(&h->n_storages, memory_order_relaxed))
		atomic_store_explicit(
			&h->n_storages, index + 1, memory_order_release);
	*ret_index = index;
	*ret_generation = generation;
	return 0;
}

void table_storage_set(
	struct table_writer *writer, uint32_t index, enum storage_state state)
{
	_Atomic uint64_t *word = &writer->table->storages[index].word;
	uint64_t generation = storage_word_generation(
		atomic_load_explicit(word, memory_order_relaxed));

	/* Release: pairs with the acquire loads in lease_acquire and
	 * table_storage_get: LIVE means that the bytes are there. */
	atomic_store_explicit(
		word, storage_word(generation, state), memory_order_release);
}

void table_storage_shut(struct table_writer *writer, uint32_t index)
{
	_Atomic uint64_t *word = &writer->table->storages[index].word;
	uint64_t generation = 1 + storage_word_generation(atomic_load_explicit(
					  word, memory_order_relaxed));

	/* Release: pairs with the acquire loads in lease_acquire and
	 * table_storage_get. */
	atomic_store_explicit(word, storage_word(generation, STORAGE_FREEING),
		memory_order_release);
}

void table_storage_drop(struct table_writer *writer, uint32_t index)
{
	_Atomic uint64_t *word = &writer->table->storages[index].word;
	uint64_t generation = 1 + storage_word_generation(atomic_load_explicit(
					  word, memory_order_relaxed));

	/* Release: pairs with the acquire loads in lease_acquire and
	 * table_storage_get. */
	atomic_store_explicit(word, storage_word(generation, STORAGE_FREE),
		memory_order_release);
	/* The first generation that does not fit a lease word stays in the
	 * entry, and the index is never used again. */
	if (generation >> TABLE_GENERATION_BITS)
		return;
	/* Without memory for the list, the next writer finds it. */
	if (stack_reserve(&writer->storages) >= 0)
		stack_push(&writer->storages, index);
}
