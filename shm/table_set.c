/* SPDX-License-Identifier: MIT */
/*
 * Sets of names as one commit left them.
 *
 * Every version carries the number of its commit, and the two newest are kept.
 * So what commit `at` left under a name is the newest version not above `at`,
 * for as long as the name is published at most once more. Where that version is
 * one of the two, nothing lies between it and the next: a version in between
 * would have overwritten it. For a reader that has leased the tensor of a
 * version, it suffices that its number is still the one that is picked.
 *
 * A walk along the records that begins after `at` was committed finds every
 * name that that commit left, unless the name was removed since and its record
 * erased. The writer notes the number of a removal in header.removed before it
 * touches the record, so a note not above `at`, read after the walk, proves
 * that none was removed. The note is too high after an aborted transaction;
 * then committed has not moved, which proves the same.
 */
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "shm/record.h"

uint64_t table_committed(const struct table *table)
{
	/* Acquire: pairs with the release store in table_commit; all versions
	 * up to that number are there. */
	return atomic_load_explicit(
		&table->header->committed, memory_order_acquire);
}

bool table_removed_since(const struct table *table, uint64_t at)
{
	/* Pairs with the release fences in version_write and record_erase: a
	 * reader that has seen a write of either of them for a removal sees the
	 * note, and record_erase comes after committed has moved. */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(
		       &table->header->removed, memory_order_relaxed) > at &&
	       atomic_load_explicit(
		       &table->header->committed, memory_order_relaxed) != at;
}

/* ---- the row of records ---------------------------------------------- */

/* The walk does not use chains: boundaries never vanish, whatever is split or
 * taken out meanwhile. */
void table_walk_begin(const struct table *table, struct table_walk *walk)
{
	/* Acquire: pairs with the release store in record_new. */
	uint64_t used = atomic_load_explicit(
		&table->header->records_used, memory_order_acquire);

	walk->record = 0;
	walk->next = table->records_offset;
	walk->end = walk->next + MIN(used, table->size - walk->next);
}

int table_walk_next(const struct table *table, struct table_walk *walk)
{
	while (walk->next < walk->end) {
		uint64_t offset = walk->next;
		const struct name_record *record = record_at(table, offset);
		/* Read once, before the rest; it only ever gets smaller, and
		 * then the walk skips a boundary that was a hole's. */
		uint32_t size = record ? PEEK(record->size) : 0;

		/* The last hole may be too near the end to hold a record. */
		if (!record && walk->end - offset < RECORD_SIZE_MAX)
			return 0;
		if (size < RECORD_ALIGN || size % RECORD_ALIGN)
			return tarn_fail(EPROTO,
				"control region: the record at %llu has a size "
				"of %u",
				(unsigned long long)offset, size);
		walk->next += size;
		if (size < RECORD_SIZE_MIN)
			continue;
		walk->record = offset;
		return 1;
	}
	return 0;
}

/* ---- one record ------------------------------------------------------ */

bool table_record_holds(const struct table *table, uint64_t offset,
	uint64_t commit, uint64_t at)
{
	const struct name_record *record = record_at(table, offset);
	uint64_t picked;
	int i;

	if (!record)
		return false;
	i = version_pick(record, at, &picked);
	/* The two numbers were read one after the other. If this one was read
	 * first, the newer one may have been written and then erased or
	 * overwritten before the second was read; but this one is erased or
	 * overwritten before it. */
	return i >= 0 && picked == commit && version_still(record, i, commit);
}

/* A record without a version of that commit or an older one. If the first
 * version of the name is above it, the name came later. Otherwise the name may
 * have been published twice since, unless nothing was committed. */
static enum table_at came_later(const struct table *table,
	const struct name_record *record, uint64_t at)
{
	for (int i = 0; i < 2; i++) {
		/* Acquire: pairs with the release store in version_write, as
		 * that of version_pick does. */
		uint64_t commit = atomic_load_explicit(
			&record->versions[i].commit, memory_order_acquire);

		if (commit > at && PEEK(record->versions[i].version) == 1 &&
			version_still(record, i, commit))
			return TABLE_AT_NOTHING;
	}
	/* As in record_copy of table_read.c: pairs with the release store in
	 * version_write. */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(
		       &table->header->committed, memory_order_relaxed) == at
		       ? TABLE_AT_NOTHING
		       : TABLE_AT_LOST;
}

enum table_at table_record_at(const struct table *table, uint64_t offset,
	uint64_t at, const char *prefix, size_t prefix_size,
	struct table_row *ret)
{
	const struct name_record *record = record_at(table, offset);
	const struct name_version *version;
	uint32_t flags;
	int i;

	static_assert(sizeof(ret->name) == NAME_SIZE_MAX + 1, "any name");
	if (!record || PEEK(record->name_size) == 0 ||
		!record_may_begin(record, prefix, prefix_size))
		return TABLE_AT_NOTHING;
	i = version_pick(record, at, &ret->found.commit);
	if (i < 0)
		return came_later(table, record, at);
	version = &record->versions[i];
	ret->name_size = PEEK(record->name_size);
	if (ret->name_size > NAME_SIZE_MAX)
		return TABLE_AT_LOST;
	memcpy(ret->name, record->name, ret->name_size);
	ret->name[ret->name_size] = '\0';
	ret->found.descriptor = version->descriptor;
	ret->found.version = PEEK(version->version);
	ret->found.record = offset;
	flags = PEEK(version->flags);
	if (!version_still(record, i, ret->found.commit))
		return TABLE_AT_LOST;
	/* The record may have got another name after it was first examined. */
	if (flags & NAME_REMOVED || ret->name_size < prefix_size ||
		memcmp(ret->name, prefix, prefix_size) != 0)
		return TABLE_AT_NOTHING;
	return TABLE_AT_NAME;
}
