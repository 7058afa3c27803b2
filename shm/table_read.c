/* SPDX-License-Identifier: MIT */
/*
 * Look-ups, in any process, while the writer goes on writing.
 *
 * There are no locks; a reader proves afterwards that what it read was
 * consistent.
 *
 * A name that is found is proved by its own commit number. The writer sets the
 * number to 0 before it changes a version, or gives the record to another name,
 * and to a number above committed when it has finished; numbers at or below
 * committed are never written twice. So when the number is the same before and
 * after the name was compared and the descriptor copied, both are those of that
 * commit, even if the record was taken out and used again meanwhile. Which
 * chain led there does not matter.
 *
 * A name that is not found is proved by header.restructuring: even, and the
 * same before and after the walk, it proves that no record left its chain, so
 * none can have been missed, nor can the walk have strayed into another chain
 * by way of a record used again. Where the record was there but had no version
 * old enough, committed must be unchanged too: the newest version not above it
 * is never overwritten as long as it stands.
 *
 * Offsets are checked on use and chains are bounded, so that a corrupt region
 * costs time and a wrong answer at worst.
 */
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/fail.h"
#include "shm/record.h"

enum outcome { FOUND, ABSENT, AGAIN };

/*
 * A reader that has to try again waits a little longer each time: first for a
 * writer on another core, then for one that needs this core, or waits for one on
 * a busy machine. Some 20 ms in all: picked, not tuned. It does not yield: some
 * kernels (6.18) take a whole time slice from a thread for each sched_yield, and
 * let a few that yield starve all others, for a minute.
 */
#define TRIES_SPIN 64
#define TRIES_SLEEP 100

static bool try_again(unsigned int *tries)
{
	const struct timespec nap = {.tv_nsec = 200000};
	unsigned int n = (*tries)++;

	if (n < TRIES_SPIN) {
#if defined(__x86_64__)
		__builtin_ia32_pause();
#endif
	} else if (n < TRIES_SPIN + TRIES_SLEEP) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
	} else {
		return false;
	}
	return true;
}

static uint64_t committed_now(const struct table *table)
{
	/* Acquire: pairs with the release store in table_commit; all versions
	 * up to that number are there. */
	return atomic_load_explicit(
		&table->header->committed, memory_order_acquire);
}

struct wanted {
	const char *name;
	size_t size;
	uint64_t hash;
	uint64_t committed;
	uint64_t record; /* the one being examined */
};

/* One record whose hash matched. ABSENT: not this name, or not at this
 * snapshot; then *seen is set if committed must prove the result. */
static enum outcome record_match(const struct name_record *record,
	const struct wanted *wanted, struct table_name *ret, bool *seen)
{
	const struct name_version *version;
	uint64_t commit;
	uint32_t flags;
	int i = version_pick(record, wanted->committed, &commit);

	if (memcmp(record->name, wanted->name, wanted->size) != 0)
		return ABSENT;
	*seen = true;
	if (i < 0)
		return ABSENT;
	version = &record->versions[i];
	memcpy(&ret->descriptor, &version->descriptor, sizeof(ret->descriptor));
	ret->version = PEEK(version->version);
	ret->commit = commit;
	ret->record = wanted->record;
	flags = PEEK(version->flags);
	if (!version_still(record, i, commit))
		return AGAIN;
	return flags & NAME_REMOVED ? ABSENT : FOUND;
}

static enum outcome walk(const struct table *table, struct wanted *wanted,
	struct table_name *ret)
{
	const struct table_header *h = table->header;
	/* Acquire: pairs with the release store in restructure_end; the chains
	 * are in the state that it left, or newer. */
	uint32_t before =
		atomic_load_explicit(&h->restructuring, memory_order_acquire);
	/* Acquire: pairs with the release store in bucket_split. */
	uint32_t n = atomic_load_explicit(&h->n_buckets, memory_order_acquire);
	bool seen = false;
	uint64_t offset;

	if (n == 0 || n > TABLE_BUCKETS_MAX)
		return AGAIN;
	/* Acquire: pairs with the release store in chain_add; the record's
	 * fields were written before. */
	offset = atomic_load_explicit(
		&table->buckets[bucket_of(wanted->hash, n)],
		memory_order_acquire);
	for (uint32_t hops = 0; offset; hops++) {
		const struct name_record *record = record_at(table, offset);

		if (!record || hops == CHAIN_MAX)
			return AGAIN;
		if (PEEK(record->hash) == wanted->hash &&
			PEEK(record->name_size) == wanted->size) {
			enum outcome o;

			wanted->record = offset;
			o = record_match(record, wanted, ret, &seen);
			if (o != ABSENT)
				return o;
		}
		/* Acquire: pairs with the release stores in chain_add and
		 * bucket_split. */
		offset = atomic_load_explicit(
			&record->next, memory_order_acquire);
	}
	/* Pairs with the release fence in restructure_begin: a reader of a
	 * pointer written after it sees the odd number, or a later one. */
	atomic_thread_fence(memory_order_acquire);
	if (before & 1 || atomic_load_explicit(&h->restructuring,
				  memory_order_relaxed) != before)
		return AGAIN;
	/* Pairs with the release store in version_write that empties the
	 * older version: it comes after committed has moved on. */
	if (seen && atomic_load_explicit(&h->committed, memory_order_relaxed) !=
			    wanted->committed)
		return AGAIN;
	return ABSENT;
}

/* *ret may be written on failure too. */
static int find(const struct table *table, const char *name, size_t name_size,
	struct table_name *ret)
{
	struct wanted wanted = {.name = name, .size = name_size};
	unsigned int tries = 0;

	if (name_size == 0 || name_size > NAME_SIZE_MAX)
		return name_check(name, name_size);
	wanted.hash = name_hash(name, name_size, table->hash_seed);
	do {
		wanted.committed = committed_now(table);
		switch (walk(table, &wanted, ret)) {
		case FOUND:
			return 0;
		case ABSENT:
			return tarn_fail(ENOENT, "there is no tensor \"%.*s\"",
				(int)name_size, name);
		case AGAIN:
			break;
		}
	} while (try_again(&tries));
	return tarn_fail(EAGAIN,
		"the name table stayed busy while \"%.*s\" was looked up: its "
		"server may have just been replaced; try again",
		(int)name_size, name);
}

int table_lookup(const struct table *table, const char *name, size_t name_size,
	struct tarn_descriptor *ret, uint64_t *ret_version)
{
	struct table_name found;
	int r = find(table, name, name_size, &found);

	if (r == 0) {
		*ret = found.descriptor;
		*ret_version = found.version;
	}
	return r;
}

int table_find(const struct table *table, const char *name, size_t name_size,
	struct table_name *ret)
{
	return find(table, name, name_size, ret);
}

struct copy {
	struct tarn_descriptor descriptor;
	uint64_t version;
	uint32_t name_size;
	char name[NAME_SIZE_MAX + 1];
};

/* Copies a momentary state of the record, whichever name it had. */
static enum outcome record_copy(const struct table *table,
	const struct name_record *record, struct copy *ret)
{
	uint64_t committed = committed_now(table), commit;
	int i = version_pick(record, committed, &commit);
	uint32_t flags;

	ret->name_size = PEEK(record->name_size);
	if (ret->name_size == 0)
		return ABSENT;
	if (i < 0) {
		/* As in walk: a name that stands always has a version that is
		 * not above committed, unless that has moved on. Pairs with
		 * the release store in version_write. */
		atomic_thread_fence(memory_order_acquire);
		return atomic_load_explicit(&table->header->committed,
			       memory_order_relaxed) == committed
			       ? ABSENT
			       : AGAIN;
	}
	if (ret->name_size > NAME_SIZE_MAX)
		return AGAIN;
	memcpy(ret->name, record->name, ret->name_size);
	ret->name[ret->name_size] = '\0';
	memcpy(&ret->descriptor, &record->versions[i].descriptor,
		sizeof(ret->descriptor));
	ret->version = PEEK(record->versions[i].version);
	flags = PEEK(record->versions[i].flags);
	if (!version_still(record, i, commit))
		return AGAIN;
	return flags & NAME_REMOVED ? ABSENT : FOUND;
}

/* A name that stands throughout is listed exactly once, with one of the
 * versions that it had meanwhile; one that appears or vanishes during the walk
 * may be listed or not. */
int table_list(const struct table *table, const char *prefix,
	size_t prefix_size,
	int (*fn)(void *arg, const char *name, size_t name_size,
		const struct tarn_descriptor *descriptor, uint64_t version),
	void *arg)
{
	struct table_walk walk;
	struct copy copy;
	int r;

	table_walk_begin(table, &walk);
	while ((r = table_walk_next(table, &walk)) > 0) {
		const struct name_record *record =
			record_at(table, walk.record);
		enum outcome o = ABSENT;
		unsigned int tries = 0;

		if (record_may_begin(record, prefix, prefix_size))
			while ((o = record_copy(table, record, &copy)) ==
					AGAIN &&
				try_again(&tries))
				;
		if (o == AGAIN)
			return tarn_fail(EAGAIN,
				"the name table stayed busy while it was "
				"listed; try again");
		if (o == FOUND && copy.name_size >= prefix_size &&
			memcmp(copy.name, prefix, prefix_size) == 0) {
			r = fn(arg, copy.name, copy.name_size, &copy.descriptor,
				copy.version);
			if (r)
				return r;
		}
	}
	return r;
}

int table_storage_get(const struct table *table, uint32_t index,
	uint64_t generation, struct table_storage *ret)
{
	const struct table_storage *storage;
	uint64_t word, landed;

	if (index >= TABLE_STORAGES_MAX ||
		/* Acquire: pairs with the release store in
		 * table_storage_add; entries below it are populated. */
		index >= atomic_load_explicit(&table->header->n_storages,
				 memory_order_acquire))
		return tarn_fail(ESTALE, "there is no storage %u", index);
	storage = &table->storages[index];
	/* Acquire: pairs with the release store in table_storage_add; the
	 * entry's fields were written before. */
	word = atomic_load_explicit(&storage->word, memory_order_acquire);
	/* Acquire: pairs with the release store of the loader that counts
	 * bytes; those bytes are there. */
	landed = atomic_load_explicit(&storage->landed, memory_order_acquire);
	memcpy(ret, storage, sizeof(*ret));
	/* Pairs with the release fence in table_storage_add: a reader that has
	 * copied a field of the next generation sees the next word too. */
	atomic_thread_fence(memory_order_acquire);
	if (storage_word_generation(word) == generation)
		word = atomic_load_explicit(
			&storage->word, memory_order_relaxed);
	if (storage_word_generation(word) != generation ||
		storage_word_state(word) == STORAGE_FREE)
		return tarn_fail(ESTALE,
			"storage %u has generation %llu (state %d), not %llu: "
			"the tensor was removed",
			index,
			(unsigned long long)storage_word_generation(word),
			(int)storage_word_state(word),
			(unsigned long long)generation);
	atomic_store_explicit(&ret->word, word, memory_order_relaxed);
	atomic_store_explicit(&ret->landed, landed, memory_order_relaxed);
	return 0;
}

uint64_t table_segment_serial(const struct table *table, uint32_t number)
{
	/* Acquire: pairs with the release stores in table_add_segment and
	 * table_drop_segment. */
	uint64_t word = atomic_load_explicit(
		&table->segments[number].word, memory_order_acquire);

	return segment_word_state(word) == SEGMENT_READY
		       ? segment_word_serial(word)
		       : 0;
}

bool table_segment_get(
	const struct table *table, uint32_t number, struct segment_shown *ret)
{
	const struct table_segment *segment = &table->segments[number];
	struct segment_shown shown = {
		.serial = table_segment_serial(table, number)};

	if (!shown.serial)
		return false;
	memcpy(&shown.pool, &segment->pool, sizeof(shown.pool));
	memcpy(&shown.place, &segment->place, sizeof(shown.place));
	memcpy(&shown.offset, &segment->offset, sizeof(shown.offset));
	memcpy(&shown.size, &segment->size, sizeof(shown.size));
	/* Pairs with the release fence in table_add_segment: a reader that has
	 * copied a field of the next segment sees that this one was dropped. */
	atomic_thread_fence(memory_order_acquire);
	if (table_segment_serial(table, number) != shown.serial)
		return false;
	*ret = shown;
	return true;
}
