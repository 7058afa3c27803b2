/* SPDX-License-Identifier: MIT */
/*
 * Completions: which requests were done.
 *
 * A completion is written under the number of the transaction that does its
 * request, and is valid from the store that commits it. So a request was done
 * if and only if there is a completion of it, whatever instruction its server
 * died at. A server that takes over answers a repeated request from its
 * completion, and does a request that has none.
 *
 * Only servers read completions, one after the other. A process that is killed
 * has executed its instructions up to one of them, and none after it: the
 * stores before it reach memory, also those that were in a store buffer, before
 * the kernel lets the next server run. So the next server sees the stores in
 * program order up to that point, as long as the compiler keeps that order.
 */
#include <assert.h>

#include "base/fail.h"
#include "shm/table_writer_internal.h"

static void commit_set(struct table_completion *completion, uint64_t commit)
{
	/* Release: the fields are written before the number is. Pairs with the
	 * next server's read of the record, which the death of this one orders
	 * (above). */
	atomic_store_explicit(
		&completion->commit, commit, memory_order_release);
	/* Release: the slot is free before its fields are written again. Pairs
	 * with the same read. */
	atomic_thread_fence(memory_order_release);
}

static int slot_take(struct table_writer *writer, uint32_t *ret)
{
	struct table *table = writer->table;
	struct table_header *h = table->header;
	uint64_t start = part_offset(table, table->completions);
	uint32_t n =
		atomic_load_explicit(&h->n_completions, memory_order_relaxed);
	int r;

	if (writer->completions.n) {
		*ret = (uint32_t)writer->completions.v[--writer->completions.n];
		return 0;
	}
	if (n >= TABLE_COMPLETIONS_MAX)
		return tarn_fail(ENOSPC,
			"the answers to %u requests were not read yet, which "
			"is the limit of this pool; let its clients read "
			"theirs, or end",
			n);
	r = part_populate(writer, start, part_offset(table, table->buckets),
		start + (n + 1ull) * sizeof(struct table_completion),
		&writer->completions_ready);
	if (r < 0)
		return r;
	/* Relaxed: only the next server reads it, and finds the slot free. */
	atomic_store_explicit(&h->n_completions, n + 1, memory_order_relaxed);
	*ret = n;
	return 0;
}

int table_complete(struct table_writer *writer, const struct completed *request,
	uint32_t *ret_slot)
{
	struct table_completion *completion;
	uint32_t slot = 0;
	int r;

	assert(writer->open && writer->completing == TABLE_NO_SLOT);
	r = slot_take(writer, &slot);
	if (r < 0)
		return r;
	completion = &writer->table->completions[slot];
	completion->request = *request;
	commit_set(completion, committed_of(writer->table) + 1);
	writer->completing = slot;
	*ret_slot = slot;
	return 0;
}

void table_completion_free(struct table_writer *writer, uint32_t slot)
{
	commit_set(&writer->table->completions[slot], 0);
	/* Without memory for the list this writer loses the slot; the next one
	 * finds it. */
	if (stack_reserve(&writer->completions) >= 0)
		stack_push(&writer->completions, slot);
}

void completion_drop(struct table_writer *writer)
{
	if (writer->completing != TABLE_NO_SLOT)
		table_completion_free(writer, writer->completing);
	writer->completing = TABLE_NO_SLOT;
}

void completions_recover(struct table_writer *writer)
{
	const struct table *table = writer->table;
	uint64_t committed = committed_of(table);
	uint32_t n = atomic_load_explicit(
		&table->header->n_completions, memory_order_relaxed);

	writer->completing = TABLE_NO_SLOT;
	/* Downwards, so that the lowest is taken first. */
	while (n-- > 0) {
		uint64_t commit = atomic_load_explicit(
			&table->completions[n].commit, memory_order_relaxed);

		if (!commit || commit > committed)
			table_completion_free(writer, n);
	}
}
