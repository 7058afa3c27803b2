/* SPDX-License-Identifier: MIT */
/*
 * Beginning to write, after nobody or after one who died at any instruction.
 *
 * The idea: the row of records is the truth and can always be walked; chains,
 * counts and lists of holes follow from it. A record stands if its newest
 * committed version is no removal. If every named record stands and nobody
 * died while restructuring, the chains are right as they are; otherwise they
 * are built again, with restructuring odd, so that readers wait instead of
 * missing a name. Dying in here leaves the same work to the next.
 */
#include "base/checked.h"
#include "base/fail.h"
#include "shm/table_writer.h"

static uint64_t row_end(const struct table *table)
{
	return table->records_offset +
	       atomic_load_explicit(
		       &table->header->records_used, memory_order_relaxed);
}

static bool stands(const struct table *table, const struct name_record *record)
{
	uint64_t commit;
	int i = version_pick(record, committed_of(table), &commit);

	return record->name_size && i >= 0 &&
	       !(record->versions[i].flags & NAME_REMOVED);
}

static int damaged(const char *what, uint64_t where)
{
	return tarn_fail(EPROTO,
		"control region: %s at %llu cannot be: the memory was "
		"overwritten",
		what, (unsigned long long)where);
}

static int counts_check(const struct table *table)
{
	const struct table_header *h = table->header;
	uint64_t used =
		atomic_load_explicit(&h->records_used, memory_order_relaxed);
	uint32_t n = atomic_load_explicit(&h->n_buckets, memory_order_relaxed);

	if (used > table->size - table->records_offset || used % RECORD_ALIGN)
		return damaged("records_used", used);
	if (n < TABLE_BUCKETS_FIRST || n > TABLE_BUCKETS_MAX)
		return damaged("n_buckets", n);
	n = atomic_load_explicit(&h->n_storages, memory_order_relaxed);
	if (n > TABLE_STORAGES_MAX)
		return damaged("n_storages", n);
	n = atomic_load_explicit(&h->n_segments, memory_order_relaxed);
	if (n > TABLE_SEGMENTS_MAX)
		return damaged("n_segments", n);
	return 0;
}

static int record_check(
	const struct name_record *record, uint64_t offset, uint64_t end)
{
	if (record->size < RECORD_SIZE_MIN || record->size > RECORD_SIZE_MAX ||
		record->size % RECORD_ALIGN || record->size > end - offset)
		return damaged("a record's size", offset);
	if (record->name_size > record->size - sizeof(*record))
		return damaged("a name's size", offset);
	return 0;
}

/* Drops what was pending; *ret_dirty when a named record does not stand. */
static int drop_pending(struct table_writer *writer, bool *ret_dirty)
{
	struct table *table = writer->table;
	uint64_t end = row_end(table), committed = committed_of(table);

	*ret_dirty = false;
	for (uint64_t offset = table->records_offset; offset < end;) {
		struct name_record *record = record_at(table, offset);
		int r = record ? record_check(record, offset, end)
			       : damaged("a record", offset);

		if (r < 0)
			return r;
		/* Relaxed: no reader uses a number above committed. */
		for (int i = 0; i < 2; i++)
			if (commit_of(record, i) > committed)
				atomic_store_explicit(
					&record->versions[i].commit, 0,
					memory_order_relaxed);
		if (record->name_size && !stands(table, record))
			*ret_dirty = true;
		offset += record->size;
	}
	return 0;
}

static void rebuild_chains(struct table *table)
{
	uint32_t n = atomic_load_explicit(
		&table->header->n_buckets, memory_order_relaxed);
	uint64_t end = row_end(table);

	restructure_begin(table);
	for (uint32_t i = 0; i < n; i++)
		atomic_store_explicit(
			&table->buckets[i], 0, memory_order_relaxed);
	for (uint64_t offset = table->records_offset; offset < end;
		offset += record_of(table, offset)->size)
		if (stands(table, record_of(table, offset)))
			chain_add(table, offset);
	restructure_end(table);
}

/* Lists of holes, counts; what does not stand becomes a hole. */
static void find_rest(struct table_writer *writer)
{
	struct table *table = writer->table;
	struct table_header *h = table->header;
	uint64_t end = row_end(table);
	uint32_t n = atomic_load_explicit(&h->n_storages, memory_order_relaxed);

	for (uint64_t offset = table->records_offset; offset < end;
		offset += record_of(table, offset)->size) {
		if (stands(table, record_of(table, offset)))
			writer->n_records++;
		else
			record_erase(writer, offset);
	}
	atomic_store_explicit(
		&h->n_names, writer->n_records, memory_order_relaxed);
	/* Downwards, so that the lowest is taken first. */
	while (n-- > 0) {
		uint64_t word = atomic_load_explicit(
			&table->storages[n].word, memory_order_relaxed);

		if (storage_word_state(word) == STORAGE_FREE &&
			!(storage_word_generation(word) >>
				TABLE_GENERATION_BITS) &&
			stack_reserve(&writer->storages) >= 0)
			stack_push(&writer->storages, n);
	}
}

void table_each(const struct table_writer *writer,
	void (*fn)(void *arg, const struct tarn_descriptor *descriptor),
	void *arg)
{
	const struct table *table = writer->table;
	uint64_t end = row_end(table), commit;

	for (uint64_t offset = table->records_offset; offset < end;
		offset += record_of(table, offset)->size) {
		const struct name_record *record = record_of(table, offset);

		if (stands(table, record))
			fn(arg, &record
					 ->versions[version_pick(record,
						 committed_of(table), &commit)]
					 .descriptor);
	}
}

static uint64_t ready(
	const struct table *table, const void *part, uint64_t n, size_t size)
{
	return round_down_u64(part_offset(table, part) + n * size, 4096);
}

int table_writer_new(struct table *table, struct table_writer **ret)
{
	const struct table_header *h = table->header;
	struct table_writer *writer = calloc(1, sizeof(*writer));
	bool dirty;
	int r;

	if (!writer)
		return tarn_fail(ENOMEM, "no memory for a table's writer");
	writer->table = table;
	r = counts_check(table);
	if (r >= 0)
		r = drop_pending(writer, &dirty);
	if (r < 0) {
		table_writer_free(writer);
		return r;
	}
	if (dirty ||
		atomic_load_explicit(&h->restructuring, memory_order_relaxed) &
			1)
		rebuild_chains(table);
	/* The page that is in use partly may be populated once more. */
	writer->segments_ready = ready(table, table->segments,
		atomic_load_explicit(&h->n_segments, memory_order_relaxed),
		sizeof(*table->segments));
	writer->storages_ready = ready(table, table->storages,
		atomic_load_explicit(&h->n_storages, memory_order_relaxed),
		sizeof(*table->storages));
	writer->buckets_ready = ready(table, table->buckets,
		atomic_load_explicit(&h->n_buckets, memory_order_relaxed),
		sizeof(*table->buckets));
	writer->records_ready = round_down_u64(row_end(table), 4096);
	find_rest(writer);
	r = timers_rebuild(writer);
	if (r < 0) {
		table_writer_free(writer);
		return r;
	}
	*ret = writer;
	return 0;
}

struct table_writer *table_writer_free(struct table_writer *writer)
{
	if (writer) {
		free(writer->touched.v);
		free(writer->storages.v);
		free(writer->timers.v);
		for (size_t i = 0; i < RECORD_CLASSES; i++)
			free(writer->holes[i].v);
	}
	free(writer);
	return NULL;
}
