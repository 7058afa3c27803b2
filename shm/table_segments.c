/* SPDX-License-Identifier: MIT */
/*
 * Segments: numbers that are used again.
 *
 * An entry has one word, which holds its state and the serial of the segment
 * that it describes. The writer changes the other fields only while the word is
 * DROPPED, then stores READY with the next serial. So a number and a serial
 * together name one segment for good, and a reader that keeps both with what it
 * has mapped learns from one load whether the number still belongs to that
 * segment. A region has as many numbers as there can be segments at one time,
 * however many come and go.
 *
 * Why no reader reads one segment's bytes in place of another's:
 *
 * - A segment is dropped when no storage lies in it, and a storage that any
 *   process leases keeps its bytes. So no reader uses a dropped segment, and a
 *   stale mapping is harmless until a storage lies at its addresses again.
 * - Such a storage is later than its segment: the writer drops the old segment
 *   (word, then header.segment_changes), shows the new one (word, number, then
 *   header.segment_changes), and only then stores the storage's word. A reader
 *   that acquires the storage's word sees the count changed, and replaces its
 *   mappings before it reads the bytes.
 * - A reader may copy an entry just before the segment is dropped, and map it
 *   after its number was used again. It keeps the serial that it copied, so
 *   that mapping is as stale as any other, and is removed at the next look. The
 *   descriptor that it requests comes with the serial of its segment
 *   (WIRE_SEGMENTS): a descriptor of another segment is not mapped.
 * - A server that dies between a word and the count leaves the count to the
 *   next server, which counts one change more (table_recover.c) before it
 *   serves any client.
 * - A forked child has a copy of the mappings with their numbers and serials,
 *   and maps the same region. It looks independently.
 * - Copy-on-write mappings (guards, private tensors) are made for a storage
 *   that their process leases, so its segment stays; the serial of the
 *   descriptor is compared with the serial that is mapped. The pool's twin is
 *   unmapped with the segment.
 * - Segments older than an upgrade keep their entries.
 * - A quarantined storage keeps its bytes, and so its segment, until the pipe
 *   of the loader that may still write has ended. The keeper and the loaders
 *   use their own numbers, each of which the keeper gives out once; a loader
 *   registers buffers by their place in its own list of segments.
 *
 * Readers: table_segment_get in table_read.c.
 */
#include "base/checked.h"
#include "base/fail.h"
#include "shm/table_writer_internal.h"

/* Makes readers look again. */
static void changed(struct table *table)
{
	/* Release: pairs with the acquire load in pool_segments_changes, so
	 * that its reader sees the entry that was written before. */
	atomic_fetch_add_explicit(
		&table->header->segment_changes, 1, memory_order_release);
}

static uint32_t n_segments(const struct table *table)
{
	/* Relaxed: only this thread writes it. */
	return atomic_load_explicit(
		&table->header->n_segments, memory_order_relaxed);
}

uint32_t table_spare_segment(const struct table *table, uint32_t from)
{
	uint32_t n = n_segments(table);

	/* Making a segment takes longer than this loop over all of them. */
	while (from < n && table_segment_serial(table, from))
		from++;
	return MIN(from, n);
}

/* Extends the entries by a number that no segment has had, after allocating
 * memory for the entry. */
static int extend(struct table_writer *writer, uint32_t number)
{
	struct table *table = writer->table;
	uint64_t start = part_offset(table, table->segments);

	if (number >= TABLE_SEGMENTS_MAX)
		return tarn_fail(ENOSPC,
			"a domain has at most %u segments at a time",
			TABLE_SEGMENTS_MAX);
	return part_populate(writer, start, part_offset(table, table->storages),
		start + (number + 1ull) * sizeof(*table->segments),
		&writer->segments_ready);
}

int table_add_segment(struct table_writer *writer, uint32_t number,
	uint32_t pool, uint32_t place, uint64_t offset, uint64_t size)
{
	struct table *table = writer->table;
	struct table_segment *segment = &table->segments[number];
	bool is_new = number >= n_segments(table);
	int r = is_new ? extend(writer, number) : 0;
	uint64_t word;

	if (r < 0)
		return r;
	word = atomic_load_explicit(&segment->word, memory_order_relaxed);
	/* Pairs with the acquire fence in table_segment_get. */
	atomic_thread_fence(memory_order_release);
	segment->pool = pool;
	segment->place = place;
	segment->offset = offset;
	segment->size = size;
	/* Release: pairs with the acquire load in table_segment_serial. */
	atomic_store_explicit(&segment->word,
		segment_word(segment_word_serial(word) + 1, SEGMENT_READY),
		memory_order_release);
	/* Release: pairs with the acquire loads of the readers of
	 * n_segments. */
	if (is_new)
		atomic_store_explicit(&table->header->n_segments, number + 1,
			memory_order_release);
	changed(table);
	return 0;
}

void table_drop_segment(struct table_writer *writer, uint32_t number)
{
	struct table *table = writer->table;
	_Atomic uint64_t *word = &table->segments[number].word;
	uint64_t serial = segment_word_serial(
		atomic_load_explicit(word, memory_order_relaxed));

	/* Release: pairs with the acquire load in table_segment_serial. */
	atomic_store_explicit(word, segment_word(serial, SEGMENT_DROPPED),
		memory_order_release);
	changed(table);
}
