/* SPDX-License-Identifier: MIT */
/*
 * Replicas: the bytes of a storage once more, on another node.
 *
 * A replica is a storage like any other, whose entry says which one it is of.
 * Those of one storage are a list that begins in the entry of that storage. A
 * new version of a name has another storage, so no reader of it finds a replica
 * of the old version, and nothing has to change together.
 *
 * Why a reader never gets other bytes: of and of_generation are written with
 * the entry, before its word first shows this generation, and do not change
 * while it lasts. A reader that holds a lease on that generation, and then
 * finds in them the storage that it looks for, has a replica of that storage,
 * whatever the list was when it was walked. A list that changes meanwhile, or
 * that is damaged, costs at most TABLE_REPLICAS_MAX steps.
 */
#include "base/checked.h"
#include "shm/table_writer_internal.h"

/* Of an entry that may be written meanwhile; the reader of what it leads to
 * asks again. */
static bool looks_like(
	const struct table_storage *entry, uint32_t of, uint64_t generation)
{
	return PEEK(entry->flags) & STORAGE_REPLICA && PEEK(entry->of) == of &&
	       PEEK(entry->of_generation) == generation;
}

uint32_t table_replicas(const struct table *table, uint32_t index,
	uint64_t generation, struct table_replica *ret)
{
	/* Acquire: pairs with the release store of n_storages in
	 * table_storage_add. */
	uint32_t n = atomic_load_explicit(
		&table->header->n_storages, memory_order_acquire);
	uint32_t i, count = 0;

	n = MIN(n, TABLE_STORAGES_MAX);
	if (index >= n)
		return 0;
	/* Acquire: pairs with the release store in table_replica_show. */
	i = atomic_load_explicit(
		&table->storages[index].replica, memory_order_acquire);
	for (uint32_t steps = 0; i && i <= n && steps < TABLE_REPLICAS_MAX;
		steps++) {
		const struct table_storage *e = &table->storages[i - 1];
		/* Acquire: pairs with the release store in
		 * table_storage_add. */
		uint64_t word =
			atomic_load_explicit(&e->word, memory_order_acquire);

		if (storage_word_state(word) == STORAGE_LIVE &&
			looks_like(e, index, generation))
			ret[count++] = (struct table_replica) {
				.index = i - 1,
				.node = PEEK(e->replica_node),
				.generation = storage_word_generation(word),
			};
		/* Acquire: pairs with the release stores in table_replica_show
		 * and table_replica_hide. */
		i = atomic_load_explicit(&e->replica, memory_order_acquire);
	}
	return count;
}

bool table_is_replica(
	const struct table_storage *held, uint32_t of, uint64_t generation)
{
	return held->flags & STORAGE_REPLICA && held->of == of &&
	       held->of_generation == generation;
}

/* ---- the writer -------------------------------------------------------- */

static uint32_t next_of(const struct table_storage *entry)
{
	/* Only this thread writes it. */
	return atomic_load_explicit(&entry->replica, memory_order_relaxed);
}

void table_replica_show(struct table_writer *writer, uint32_t index)
{
	struct table_storage *entry = &writer->table->storages[index];
	struct table_storage *of = &writer->table->storages[entry->of];

	atomic_store_explicit(
		&entry->replica, next_of(of), memory_order_relaxed);
	/* Release: pairs with the acquire loads in table_replicas. */
	atomic_store_explicit(&of->replica, index + 1, memory_order_release);
}

void table_replica_hide(struct table_writer *writer, uint32_t index)
{
	struct table_storage *all = writer->table->storages;
	struct table_storage *at = &all[all[index].of];

	/* As many as there can be. */
	for (uint32_t i = 0; i < TABLE_REPLICAS_MAX && next_of(at); i++) {
		if (next_of(at) == index + 1) {
			/* Release: pairs with the acquire loads in
			 * table_replicas. */
			atomic_store_explicit(&at->replica,
				next_of(&all[index]), memory_order_release);
			return;
		}
		at = &all[next_of(at) - 1];
	}
}

void table_replicas_forget(struct table_writer *writer, uint32_t index)
{
	atomic_store_explicit(&writer->table->storages[index].replica, 0,
		memory_order_relaxed);
}
