/* SPDX-License-Identifier: MIT */
/*
 * Beginning to write, in a new region or after a writer that died at any
 * instruction.
 *
 * The row of records is the reference and can always be walked; chains, counts
 * and lists of holes follow from it. A record stands if its newest committed
 * version is no removal. One pass drops pending versions, collects the standing
 * records and the holes, and notes whether any record has a name but does not
 * stand. If there is none, and no writer died while restructuring, the chains
 * are correct as they are. Otherwise two more passes follow, in this order:
 * chains are rebuilt from the standing records, with restructuring odd, so that
 * readers wait instead of missing a name; and only then, when no chain leads to
 * them, the fallen records become holes. A writer that dies before the last of
 * these leaves a fallen record with a name, or an odd number, and the next one
 * does the same work.
 *
 * It does no harm if the writes of the first pass happen again, or not at all:
 * an emptied pending version is the same as none, and timers are the writer's
 * own.
 */
#include "base/checked.h"
#include "base/fail.h"
#include "base/page.h"
#include "shm/table_writer_internal.h"

/* Records. Measured: 8 to 16 are alike, 4 costs a fourteenth more. */
#define AHEAD 8

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
		"control region: %s at %llu is impossible: the memory was "
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
	n = atomic_load_explicit(&h->n_completions, memory_order_relaxed);
	if (n > TABLE_COMPLETIONS_MAX)
		return damaged("n_completions", n);
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

/* ---- the one pass ------------------------------------------------------ */

/* The state of the walk along the row. */
struct recovery {
	struct table_writer *writer;
	int (*visit)(void *arg, const struct tarn_descriptor *descriptor,
		uint32_t uid);
	void *arg;
	bool dirty; /* a named record does not stand */
};

/* Within a page the processor prefetches by itself; here a line of each third
 * is needed, on a new page every five records. So the walk prefetches a few
 * records ahead, as if those were of this one's size: most are. Not the
 * descriptors behind the commit numbers: with them, more lines would be on
 * their way than a core can wait for, and the pass take a third longer. */
static void read_ahead(const struct name_record *record)
{
	const struct name_record *ahead =
		(const void *)((const unsigned char *)record +
			       (size_t)AHEAD * record->size);

	__builtin_prefetch(ahead);
	for (int i = 0; i < 2; i++)
		__builtin_prefetch(&ahead->versions[i]);
}

static int recover_standing(struct recovery *recovery, uint64_t offset,
	const struct name_version *v)
{
	recovery->writer->n_records++;
	if (recovery->visit) {
		int r = recovery->visit(
			recovery->arg, &v->descriptor, publisher_of(v));

		if (r < 0)
			return r;
	}
	return timer_found(recovery->writer, offset, v->expires);
}

static int recover_record(struct recovery *recovery, uint64_t offset)
{
	struct table_writer *writer = recovery->writer;
	struct name_record *record = record_of(writer->table, offset);
	uint64_t committed = committed_of(writer->table), commit;
	int i;

	/* A hole's commit numbers were cleared before its name was. */
	if (!record->name_size) {
		hole_keep(writer, offset);
		return timer_found(writer, offset, 0);
	}
	/* Relaxed: no reader uses a number above committed. */
	for (i = 0; i < 2; i++)
		if (commit_of(record, i) > committed)
			atomic_store_explicit(&record->versions[i].commit, 0,
				memory_order_relaxed);
	i = version_pick(record, committed, &commit);
	if (i >= 0 && !(record->versions[i].flags & NAME_REMOVED))
		return recover_standing(recovery, offset, &record->versions[i]);
	recovery->dirty = true;
	return 0;
}

static int recover_row(struct recovery *recovery)
{
	const struct table *table = recovery->writer->table;
	uint64_t offset = table->records_offset, end = row_end(table);
	int r = 0;

	while (offset < end && r >= 0) {
		const struct name_record *record = record_at(table, offset);

		r = record ? record_check(record, offset, end)
			   : damaged("a record", offset);
		if (r < 0)
			break;
		read_ahead(record);
		r = recover_record(recovery, offset);
		offset += record->size;
	}
	return r;
}

/* ---- what did not stand ------------------------------------------------ */

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

/* Makes holes of the records that do not stand and are in no chain any more. */
static void erase_fallen(struct table_writer *writer)
{
	struct table *table = writer->table;
	uint64_t end = row_end(table);

	for (uint64_t offset = table->records_offset; offset < end;
		offset += record_of(table, offset)->size) {
		struct name_record *record = record_of(table, offset);

		if (record->name_size && !stands(table, record))
			record_erase(writer, offset);
	}
}

/* ---- the rest ---------------------------------------------------------- */

static void find_free_storages(struct table_writer *writer)
{
	const struct table *table = writer->table;
	uint32_t n = atomic_load_explicit(
		&table->header->n_storages, memory_order_relaxed);

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

void table_each(const struct table_writer *writer, table_name_fn fn, void *arg)
{
	const struct table *table = writer->table;
	uint64_t end = row_end(table), commit;

	for (uint64_t offset = table->records_offset; offset < end;
		offset += record_of(table, offset)->size) {
		const struct name_record *record = record_of(table, offset);
		const struct name_version *v;

		if (!stands(table, record))
			continue;
		v = &record->versions[version_pick(
			record, committed_of(table), &commit)];
		fn(arg, &v->descriptor, publisher_of(v));
	}
}

static uint64_t ready(
	const struct table *table, const void *part, uint64_t n, size_t size)
{
	return round_down_u64(part_offset(table, part) + n * size, PAGE);
}

/* A page that is partly in use may be populated once more. */
static void find_ready(struct table_writer *writer)
{
	const struct table *table = writer->table;
	const struct table_header *h = table->header;

	writer->segments_ready = ready(table, table->segments,
		atomic_load_explicit(&h->n_segments, memory_order_relaxed),
		sizeof(*table->segments));
	writer->storages_ready = ready(table, table->storages,
		atomic_load_explicit(&h->n_storages, memory_order_relaxed),
		sizeof(*table->storages));
	writer->completions_ready = ready(table, table->completions,
		atomic_load_explicit(&h->n_completions, memory_order_relaxed),
		sizeof(*table->completions));
	writer->buckets_ready = ready(table, table->buckets,
		atomic_load_explicit(&h->n_buckets, memory_order_relaxed),
		sizeof(*table->buckets));
	writer->records_ready = round_down_u64(row_end(table), PAGE);
}

static int recover(struct recovery *recovery)
{
	struct table_writer *writer = recovery->writer;
	struct table *table = writer->table;
	struct table_header *h = table->header;
	int r = counts_check(table);

	if (r >= 0)
		r = recover_row(recovery);
	if (r < 0)
		return r;
	if (recovery->dirty ||
		atomic_load_explicit(&h->restructuring, memory_order_relaxed) &
			1)
		rebuild_chains(table);
	if (recovery->dirty)
		erase_fallen(writer);
	atomic_store_explicit(
		&h->n_names, writer->n_records, memory_order_relaxed);
	timers_order(writer);
	/* The last writer may have died between a segment's word and the count
	 * of changes; without this no reader would look at that word. Release:
	 * pairs with the acquire load in pool_segments_changes. */
	atomic_fetch_add_explicit(&h->segment_changes, 1, memory_order_release);
	find_ready(writer);
	find_free_storages(writer);
	completions_recover(writer);
	return 0;
}

int table_writer_take_over(struct table *table,
	int (*visit)(void *arg, const struct tarn_descriptor *descriptor,
		uint32_t uid),
	void *arg, struct table_writer **ret)
{
	struct table_writer *writer = calloc(1, sizeof(*writer));
	struct recovery recovery = {
		.writer = writer, .visit = visit, .arg = arg};
	int r;

	if (!writer)
		return tarn_fail(ENOMEM, "no memory for a table's writer");
	writer->table = table;
	r = recover(&recovery);
	if (r < 0) {
		table_writer_free(writer);
		return r;
	}
	*ret = writer;
	return 0;
}

int table_writer_new(struct table *table, struct table_writer **ret)
{
	return table_writer_take_over(table, NULL, NULL, ret);
}

struct table_writer *table_writer_free(struct table_writer *writer)
{
	if (writer) {
		free(writer->touched.v);
		free(writer->storages.v);
		free(writer->completions.v);
		free(writer->timers.v);
		for (size_t i = 0; i < RECORD_CLASSES; i++)
			free(writer->holes[i].v);
	}
	free(writer);
	return NULL;
}
