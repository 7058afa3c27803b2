/* SPDX-License-Identifier: MIT */
/*
 * Going on in another region.
 *
 * The idea: a region is left while nobody writes it, so what it says then is
 * all there is to know, and a copy of it is as good. Two things must not
 * happen: that a reader takes what stands in the old one for what is true now,
 * and that he acquires a storage by a word which nobody who frees looks at any
 * more. So the old one is marked, and each of its words is changed to one that
 * fits no lease. This is F1 of shm/lease.h for all storages at once: who
 * acquires stores his slot, fences, and reads the word; here the words are
 * stored, then a fence, and only then does anybody look for leases on behalf
 * of the next region. Either he sees that it was left, or his lease is seen.
 *
 * The words that they were stay beside them, for the copy, and because a
 * region may be returned to when nothing comes of the move.
 */
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "shm/table_writer.h"

#define PAGE 4096ull

bool table_is_left(const struct table *table)
{
	/* Acquire: pairs with the release addition in turn_page; what is read
	 * after a 0 was true after it. */
	return atomic_load_explicit(
		       &table->header->left, memory_order_acquire) &
	       1;
}

uint64_t table_place(const struct table *table)
{
	/* Acquire: pairs with the release addition in turn_page, for who reads
	 * it first; the fence, for who reads it last. */
	uint32_t left = atomic_load_explicit(
		&table->header->left, memory_order_acquire);

	atomic_thread_fence(memory_order_acquire);
	return (uint64_t)table->header->moves << 32 | left;
}

/* ---- leaving ---------------------------------------------------------- */

static uint32_t n_storages(const struct table *table)
{
	uint32_t n = atomic_load_explicit(
		&table->header->n_storages, memory_order_relaxed);

	return MIN(n, TABLE_STORAGES_MAX);
}

static void turn_page(struct table *table)
{
	/* Release: pairs with the acquire loads in table_is_left and
	 * table_place. */
	atomic_fetch_add_explicit(
		&table->header->left, 1, memory_order_release);
}

/* Who waits for a commit looks again, and finds that it was left, or not. */
static void wake_all(struct table *table)
{
	_Atomic uint32_t *changed = &table->header->changed;

	/* Release: pairs with the acquire load in store_wait, as that of
	 * table_wake does. */
	atomic_fetch_add_explicit(changed, 1, memory_order_release);
	syscall(SYS_futex, changed, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void table_leave(struct table *table)
{
	/* First: a word that was changed is never seen without this. */
	turn_page(table);
	for (uint32_t i = 0; i < n_storages(table); i++) {
		struct table_storage *entry = &table->storages[i];
		uint64_t word = atomic_load_explicit(
			&entry->word, memory_order_relaxed);

		entry->left_word = word;
		/* Release: pairs with the acquire load in storage_now; who
		 * reads it knows that the region was left. */
		atomic_store_explicit(&entry->word,
			storage_word(storage_word_generation(word) + 1,
				STORAGE_FREE),
			memory_order_release);
	}
	/* F2. Pairs with the fences in lease_acquire and lease_release. */
	atomic_thread_fence(memory_order_seq_cst);
	wake_all(table);
}

void table_return(struct table *table)
{
	for (uint32_t i = 0; i < n_storages(table); i++) {
		struct table_storage *entry = &table->storages[i];

		/* Release: pairs with the acquire loads in lease_acquire and
		 * table_storage_get; the entry is as it was. */
		atomic_store_explicit(
			&entry->word, entry->left_word, memory_order_release);
		entry->left_word = 0;
	}
	turn_page(table);
	wake_all(table);
}

/* ---- copying ---------------------------------------------------------- */

/* What is in use of a part of a region. */
struct part {
	uint64_t offset, size;
};

enum { PARTS = 5 };

static void parts_of(const struct table *table, struct part parts[PARTS])
{
	const struct table_header *h = table->header;

	parts[0] = (struct part) {part_offset(table, table->pools),
		h->n_pools * sizeof(*table->pools)};
	parts[1] = (struct part) {part_offset(table, table->segments),
		h->n_segments * sizeof(*table->segments)};
	parts[2] = (struct part) {part_offset(table, table->storages),
		n_storages(table) * sizeof(*table->storages)};
	parts[3] = (struct part) {part_offset(table, table->buckets),
		h->n_buckets * sizeof(*table->buckets)};
	parts[4] = (struct part) {table->records_offset, h->records_used};
}

uint64_t table_footprint(const struct table *table)
{
	struct part parts[PARTS];
	uint64_t sum = PAGE;

	parts_of(table, parts);
	for (int i = 0; i < PARTS; i++)
		sum += (parts[i].size + PAGE - 1) & ~(PAGE - 1);
	return sum;
}

/* No part may reach into the next, whatever its count says. */
static int check_parts(
	const struct table *table, const struct part parts[PARTS])
{
	for (int i = 0; i < PARTS; i++) {
		uint64_t limit =
			i + 1 < PARTS ? parts[i + 1].offset : table->size;

		if (parts[i].size > limit - parts[i].offset)
			return tarn_fail(EPROTO,
				"control region: part %d says that %llu bytes "
				"of it are used, of %llu: the memory was "
				"overwritten",
				i, (unsigned long long)parts[i].size,
				(unsigned long long)(limit - parts[i].offset));
	}
	return 0;
}

static int copy_part(
	const struct table *from, struct table *to, const struct part *part)
{
	uint64_t start = round_down_u64(part->offset, PAGE);
	uint64_t end = (part->offset + part->size + PAGE - 1) & ~(PAGE - 1);

	if (!part->size)
		return 0;
	/* Missing memory shows here as an error, and nowhere as a SIGBUS. */
	if (madvise(to->map + start, end - start, MADV_POPULATE_WRITE) < 0)
		return tarn_fail(ENOMEM,
			"control region: no memory for a copy of %llu bytes: "
			"%s",
			(unsigned long long)part->size, tarn_errno_text(errno));
	memcpy(to->map + part->offset, from->map + part->offset, part->size);
	return 0;
}

/* Nobody has the new one yet: relaxed, all of it. */
static void copy_counts(const struct table_header *from, struct table_header *h)
{
	h->moves = from->moves + 1;
	h->committed = from->committed;
	h->restructuring = from->restructuring;
	h->n_buckets = from->n_buckets;
	h->changed = from->changed;
	h->removed = from->removed;
	h->n_pools = from->n_pools;
	h->n_segments = from->n_segments;
	h->n_storages = from->n_storages;
	h->n_dropped = from->n_dropped;
	h->n_names = from->n_names;
	h->records_used = from->records_used;
}

static void put_words_back(struct table *table)
{
	for (uint32_t i = 0; i < n_storages(table); i++) {
		struct table_storage *entry = &table->storages[i];

		atomic_store_explicit(
			&entry->word, entry->left_word, memory_order_relaxed);
		entry->left_word = 0;
	}
}

int table_copy(const struct table *from, int fd, struct table *ret)
{
	const struct table_header *h = from->header;
	struct part parts[PARTS];
	struct table to;
	int r;

	if (!table_is_left(from))
		return tarn_fail(EBUSY, "control region: it was not left yet");
	parts_of(from, parts);
	r = check_parts(from, parts);
	if (r >= 0)
		r = table_create(fd, from->instance, from->hash_seed, h->rule,
			h->uid, &to);
	if (r < 0)
		return r;
	for (int i = 0; i < PARTS && r >= 0; i++)
		r = copy_part(from, &to, &parts[i]);
	if (r < 0) {
		table_unmap(&to);
		return r;
	}
	copy_counts(h, to.header);
	put_words_back(&to);
	*ret = to;
	return 0;
}

/* ---- following -------------------------------------------------------- */

/* Wraps around, like a serial number. */
static bool is_later(const struct table *a, const struct table *b)
{
	return (int32_t)(a->header->moves - b->header->moves) > 0;
}

int table_follow(struct table *table, int fd)
{
	struct table next;
	int r = table_map(fd, false, &next);

	if (r < 0)
		return r;
	if (next.instance != table->instance ||
		next.hash_seed != table->hash_seed ||
		next.header->rule != table->header->rule)
		r = tarn_fail(EPROTO,
			"the control region that the daemon goes on in is "
			"another daemon's, or another rule's");
	else if (is_later(&next, table))
		r = 1;
	table_unmap(&next);
	if (r <= 0)
		return r;
	/* Who reads meanwhile reads the one or the other. */
	if (mmap(table->map, table->size, PROT_READ,
		    MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd,
		    0) == MAP_FAILED)
		return tarn_fail(errno, "control region: following it: %s",
			tarn_errno_text(errno));
	madvise(table->map, table->size, MADV_DONTDUMP);
	table_prefault(table);
	return 1;
}
