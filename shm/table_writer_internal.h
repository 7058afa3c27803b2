/* SPDX-License-Identifier: MIT */
/*
 * The writer's private state. All of it can be rebuilt by walking the region,
 * which is what table_writer_take_over does.
 */
#pragma once

#include "shm/record.h"
#include "shm/table_writer.h"

/* Offsets or indices, last in, first out. */
struct stack {
	uint64_t *v;
	size_t n, room;
};

int stack_reserve(struct stack *stack);
/* Room for n more. */
int stack_reserve_n(struct stack *stack, size_t n);
/* False: no room; stack_reserve would have made it. */
bool stack_push(struct stack *stack, uint64_t value);

/* Records come in sizes that are multiples of 64: one list of holes each. */
#define RECORD_CLASSES ((RECORD_SIZE_MAX - RECORD_SIZE_MIN) / RECORD_ALIGN + 1)

static_assert(sizeof(struct name_record) % RECORD_ALIGN == 0, "row of records");

/* A time at which to check a record: a name may end then. */
struct timer {
	uint64_t at;
	uint64_t offset;
};

/* A binary heap, the earliest on top. */
struct timers {
	struct timer *v;
	size_t n, room;
	size_t rebuilt_n; /* their number after the last rebuild */
};

/* The fields of a version beside its descriptor. */
struct stamp {
	uint64_t expires;
	uint32_t publisher; /* as in name_version */
};

struct table_writer {
	struct table *table;
	bool open;          /* a transaction is open */
	struct stamp stamp; /* for versions put in it */
	struct timers timers;
	struct stack touched; /* the records that it changed, once each */
	struct stack holes[RECORD_CLASSES];
	struct stack storages;    /* free indices */
	struct stack completions; /* free slots */
	uint32_t completing; /* the slot of this transaction; TABLE_NO_SLOT */
	uint64_t n_records;  /* in chains, pending ones too */
	/* Region offsets up to which each part has its pages. */
	uint64_t segments_ready;
	uint64_t storages_ready;
	uint64_t completions_ready;
	uint64_t buckets_ready;
	uint64_t records_ready;
};

#define TABLE_NO_SLOT UINT32_MAX

/* Populates [.., end) of the part that begins at start and ends at limit. */
int part_populate(struct table_writer *writer, uint64_t start, uint64_t limit,
	uint64_t end, uint64_t *ready);

/* Where a part of the region begins, as an offset. */
static inline uint64_t part_offset(const struct table *table, const void *part)
{
	return (uint64_t)((const unsigned char *)part - table->map);
}

/* At an offset that the writer itself has made. */
static inline struct name_record *record_of(
	const struct table *table, uint64_t offset)
{
	return (struct name_record *)(void *)(table->map + offset);
}

/* The writer is the only one to store these, so relaxed loads are exact. */
static inline uint64_t commit_of(const struct name_record *record, int i)
{
	return atomic_load_explicit(
		&record->versions[i].commit, memory_order_relaxed);
}

static inline uint64_t committed_of(const struct table *table)
{
	return atomic_load_explicit(
		&table->header->committed, memory_order_relaxed);
}

static inline uint32_t publisher_of(const struct name_version *version)
{
	static_assert(0u - 1u == TABLE_NOBODY, "what is not known");
	return version->publisher - 1u;
}

/* ---- table_names.c: chains and records ------------------------------ */

void restructure_begin(struct table *table);
void restructure_end(struct table *table);

/* The record of a name, pending or not; 0 when there is none. *ret_hops is the
 * length of its chain up to there. */
uint64_t chain_find(const struct table *table, const char *name, size_t size,
	uint64_t hash, uint32_t *ret_hops);
void chain_add(struct table *table, uint64_t offset);
void chain_remove(struct table *table, uint64_t offset);
/* One bucket more, while there are more names than buckets. */
void bucket_split(struct table_writer *writer);

/* ---- table_records.c: the row of records ---------------------------- */

/* Takes a hole or room at the end, and writes the name into it; both versions
 * are empty, and no chain leads there. */
int record_new(struct table_writer *writer, const char *name, size_t size,
	uint64_t hash, uint64_t *ret_offset);
/* Makes it a hole that can be taken again; no chain leads to it any more. */
void record_erase(struct table_writer *writer, uint64_t offset);
/* Adds a hole to the list of its size. */
void hole_keep(struct table_writer *writer, uint64_t offset);
void version_write(struct name_record *record, int i, uint64_t commit,
	uint64_t version, uint32_t flags, const struct stamp *stamp,
	const struct tarn_descriptor *descriptor);

/* Writes the pending version of a record, and returns its version number;
 * touched must have room for one more. */
uint64_t version_pend(struct table_writer *writer, uint64_t offset,
	uint32_t flags, const struct tarn_descriptor *descriptor);

/* ---- table_completions.c: requests that were done ------------------- */

/* Drops pending completions, and finds the free slots. */
void completions_recover(struct table_writer *writer);
/* Drops the completion of a transaction that ends without a commit. */
void completion_drop(struct table_writer *writer);

/* ---- table_expiry.c: names that end --------------------------------- */

/* Room for a timer of each touched record and one more. */
int timers_reserve(struct table_writer *writer);
/* Notes that a committed version of that record ends at that time. */
void timer_set(struct table_writer *writer, uint64_t offset, uint64_t expires);
/* For a new writer, called for each record: its name ends then; 0: it does not,
 * or there is none. timers_order makes a heap of them, and is called after the
 * last. */
int timer_found(struct table_writer *writer, uint64_t offset, uint64_t expires);
void timers_order(struct table_writer *writer);
