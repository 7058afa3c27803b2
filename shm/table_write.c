/* SPDX-License-Identifier: MIT */
/*
 * Transactions: any set of names changes at once, or not at all.
 *
 * Versions are written under the number committed + 1, which no reader uses
 * yet; storing that number shows all of them. Only then does the commit report
 * the replaced descriptors to the caller, and take out the records of removed
 * names. A server that dies before the store has changed nothing; one that dies
 * after it leaves the cleanup to the next. The completion of a request
 * (table_completions.c) is written under the same number.
 */
#include <assert.h>

#include "base/fail.h"
#include "shm/table_writer_internal.h"
#include "shm/wake.h"

/* Which version stands, and which is pending; -1: none. */
struct standing {
	int old, pending;
};

static struct standing standing(
	const struct table *table, const struct name_record *record)
{
	uint64_t committed = committed_of(table), best = 0;
	struct standing s = {-1, -1};

	for (int i = 0; i < 2; i++) {
		uint64_t commit = commit_of(record, i);

		if (commit > committed) {
			s.pending = i;
		} else if (commit > best) {
			s.old = i;
			best = commit;
		}
	}
	return s;
}

static bool removed(const struct name_record *record, int i)
{
	return record->versions[i].flags & NAME_REMOVED;
}

uint64_t version_pend(struct table_writer *writer, uint64_t offset,
	uint32_t flags, const struct tarn_descriptor *descriptor)
{
	struct name_record *record = record_of(writer->table, offset);
	struct standing s = standing(writer->table, record);
	uint64_t version = s.old < 0 ? 1 : record->versions[s.old].version + 1;
	uint64_t commit = committed_of(writer->table) + 1;
	int i = s.pending >= 0 ? s.pending : s.old >= 0 ? 1 - s.old : 0;

	/* Before the commit, so that it is valid after a crash; it is too high
	 * after an abort, which at worst makes a reader look up a set of names
	 * once more. */
	if (flags & NAME_REMOVED)
		atomic_store_explicit(&writer->table->header->removed, commit,
			memory_order_relaxed);
	version_write(
		record, i, commit, version, flags, &writer->stamp, descriptor);
	if (s.pending < 0)
		stack_push(&writer->touched, offset); /* reserved above */
	return version;
}

int table_begin(struct table_writer *writer)
{
	if (writer->open)
		return tarn_fail(EBUSY,
			"a transaction of the name table is open already");
	writer->open = true;
	writer->touched.n = 0;
	writer->completing = TABLE_NO_SLOT;
	writer->stamp = (struct stamp) {0};
	return 0;
}

void table_stamp(struct table_writer *writer, uint64_t expires, uint32_t uid)
{
	writer->stamp =
		(struct stamp) {.expires = expires, .publisher = uid + 1u};
}

int table_put(struct table_writer *writer, const char *name, size_t name_size,
	const struct tarn_descriptor *descriptor, uint64_t *ret_version)
{
	struct table *table = writer->table;
	uint64_t hash, offset, version;
	uint32_t hops;
	int r = name_check(name, name_size);

	assert(writer->open);
	if (r >= 0)
		r = stack_reserve(&writer->touched);
	if (r >= 0 && writer->stamp.expires)
		r = timers_reserve(writer);
	if (r < 0)
		return r;
	hash = name_hash(name, name_size, table->hash_seed);
	offset = chain_find(table, name, name_size, hash, &hops);
	if (offset) {
		version = version_pend(writer, offset, 0, descriptor);
	} else {
		if (hops >= CHAIN_MAX)
			return tarn_fail(ENOSPC,
				"%u names share the bucket of \"%.*s\", which "
				"is the limit",
				hops, (int)name_size, name);
		r = record_new(writer, name, name_size, hash, &offset);
		if (r < 0)
			return r;
		version = version_pend(writer, offset, 0, descriptor);
		chain_add(table, offset);
		writer->n_records++;
		bucket_split(writer);
	}
	if (ret_version)
		*ret_version = version;
	return 0;
}

int table_remove(
	struct table_writer *writer, const char *name, size_t name_size)
{
	struct table *table = writer->table;
	uint64_t hash = name_hash(name, name_size, table->hash_seed);
	uint32_t hops;
	uint64_t offset = chain_find(table, name, name_size, hash, &hops);
	int r = stack_reserve(&writer->touched);

	assert(writer->open);
	if (r < 0)
		return r;
	if (offset) {
		struct name_record *record = record_of(table, offset);
		struct standing s = standing(table, record);

		if (s.pending >= 0 && removed(record, s.pending))
			offset = 0;
	}
	if (!offset)
		return tarn_fail(ENOENT, "there is no tensor \"%.*s\"",
			(int)name_size, name);
	version_pend(writer, offset, NAME_REMOVED, NULL);
	return 0;
}

void table_wake(struct table_writer *writer)
{
	_Atomic uint32_t *changed = &writer->table->header->changed;

	/* Release: pairs with the acquire load of a waiter that reads changed,
	 * looks, and waits for it to change; the data that it looks at are
	 * there. */
	atomic_fetch_add_explicit(changed, 1, memory_order_release);
	wake_all(changed);
}

static void take_out(struct table_writer *writer, uint64_t offset)
{
	chain_remove(writer->table, offset);
	record_erase(writer, offset);
	writer->n_records--;
}

void table_commit(
	struct table_writer *writer, table_name_fn displaced, void *arg)
{
	struct table *table = writer->table;
	struct table_header *h = table->header;
	uint64_t committed = committed_of(table) + 1;
	uint64_t names =
		atomic_load_explicit(&h->n_names, memory_order_relaxed);

	assert(writer->open);
	/* Release: pairs with the acquire load in committed_now; all versions
	 * of this number are there. So is the completion, for the next server,
	 * if this one is killed: its stores happen in this order. */
	atomic_store_explicit(&h->committed, committed, memory_order_release);
	table_wake(writer);
	for (size_t n = 0; n < writer->touched.n; n++) {
		uint64_t offset = writer->touched.v[n];
		struct name_record *record = record_of(table, offset);
		int new = commit_of(record, 0) == committed ? 0 : 1;
		int old = commit_of(record, 1 - new) ? 1 - new : -1;
		bool gone = removed(record, new);

		names += (uint64_t)(old < 0) - gone;
		if (old >= 0 && displaced)
			displaced(arg, &record->versions[old].descriptor,
				publisher_of(&record->versions[old]));
		if (gone)
			take_out(writer, offset);
		else if (record->versions[new].expires)
			timer_set(
				writer, offset, record->versions[new].expires);
	}
	atomic_store_explicit(&h->n_names, names, memory_order_relaxed);
	writer->touched.n = 0;
	writer->open = false;
}

void table_abort(struct table_writer *writer)
{
	struct table *table = writer->table;

	for (size_t n = 0; n < writer->touched.n; n++) {
		uint64_t offset = writer->touched.v[n];
		struct name_record *record = record_of(table, offset);
		struct standing s = standing(table, record);

		if (s.old < 0)
			take_out(writer, offset);
		else if (s.pending >= 0)
			/* Relaxed: no reader has used it, nor will. */
			atomic_store_explicit(
				&record->versions[s.pending].commit, 0,
				memory_order_relaxed);
	}
	completion_drop(writer);
	writer->touched.n = 0;
	writer->open = false;
}
