/* SPDX-License-Identifier: MIT */
/*
 * Writing a control region (table.h): the server alone does, in one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/table.h"

/* The writer's private state: free lists, counts. It can be rebuilt from the
 * region (table_writer_new does so): after a crash, versions above
 * header.committed are dropped and an odd restructuring count is repaired. */
struct table_writer;
/* uid: of table_stamp(), the user that has published the name. */
typedef void (*table_name_fn)(
	void *arg, const struct tarn_descriptor *descriptor, uint32_t uid);
int table_writer_new(struct table *table, struct table_writer **ret);
/* The same, and calls visit for the storage of each name, in no order, during
 * the one walk along all names that this needs; a negative result ends it. The
 * counts in the header were checked before. */
int table_writer_take_over(struct table *table,
	int (*visit)(void *arg, const struct tarn_descriptor *descriptor,
		uint32_t uid),
	void *arg, struct table_writer **ret);
struct table_writer *table_writer_free(struct table_writer *writer);

int table_add_pool(struct table_writer *writer, const struct table_pool *pool);
/* The lowest number from from on that a new segment can have: the number of a
 * dropped segment, or the first number that no segment has had. */
uint32_t table_spare_segment(const struct table *table, uint32_t from);
/* Shows a segment under a spare number. -ENOSPC: there is no number left;
 * -ENOMEM. */
int table_add_segment(struct table_writer *writer, uint32_t number,
	uint32_t pool, uint32_t place, uint64_t offset, uint64_t size);

/* Drops a segment, in which no storage lies. Readers unmap it at their next
 * look; its number is spare from now on. */
void table_drop_segment(struct table_writer *writer, uint32_t number);

/* A free entry, filled in (word, landed excepted) and set to state. */
int table_storage_add(struct table_writer *writer,
	const struct table_storage *storage, enum storage_state state,
	uint32_t *ret_index, uint64_t *ret_generation);
/* Release-stores the word with the same generation. */
void table_storage_set(
	struct table_writer *writer, uint32_t index, enum storage_state state);
/* Marks it free under the next generation; an index whose generations run out
 * is retired. */
void table_storage_drop(struct table_writer *writer, uint32_t index);
/* Sets it to freeing, under the next generation, which no process has ever been
 * told: no lease on it stands, and none can be taken, until it is dropped. */
void table_storage_shut(struct table_writer *writer, uint32_t index);

/*
 * A transaction: names put and removed become visible together. Between begin
 * and commit only the writer sees them. put copies the descriptor; the two
 * return -ENOSPC/-ENOMEM with a sentence, after which abort is the only way.
 * displaced is called (from commit) for each descriptor that no longer stands
 * under a name, once per name, so that storages can be counted.
 */
int table_begin(struct table_writer *writer);
/* For the versions put from here on in this transaction: the time at which the
 * name ends (CLOCK_BOOTTIME ns; 0: never), and the uid that publishes it.
 * Before it is called: 0 and TABLE_NOBODY. */
void table_stamp(struct table_writer *writer, uint64_t expires, uint32_t uid);
int table_put(struct table_writer *writer, const char *name, size_t name_size,
	const struct tarn_descriptor *descriptor, uint64_t *ret_version);
int table_remove(struct table_writer *writer, const char *name,
	size_t name_size); /* -ENOENT */
/* The transaction does that request; once in a transaction. The slot stays
 * taken from the commit until table_completion_free. -ENOSPC, -ENOMEM: as
 * put. */
int table_complete(struct table_writer *writer, const struct completed *request,
	uint32_t *ret_slot);
void table_commit(
	struct table_writer *writer, table_name_fn displaced, void *arg);
void table_abort(struct table_writer *writer);
/* That request will not be sent again. */
void table_completion_free(struct table_writer *writer, uint32_t slot);
/* The descriptor that a commit has written under a name, while it is one of the
 * two versions that are kept. -ENOENT, without a sentence. */
int table_find_written(const struct table *table, const char *name,
	size_t name_size, uint64_t commit, struct tarn_descriptor *ret,
	uint64_t *ret_version);
/* Calls fn for the descriptor of each name, in no order. Not while a
 * transaction is open. */
void table_each(const struct table_writer *writer, table_name_fn fn, void *arg);
/* When the first name ends; 0: none does. That name may have been replaced
 * meanwhile: then table_expire removes nothing. */
uint64_t table_next_expiry(const struct table_writer *writer);
/* Removes, in a transaction that is open and has no other changes, all names
 * that have ended at that time: how many, or -ENOMEM and nothing is removed. */
int64_t table_expire(struct table_writer *writer, uint64_t now);

/* What a name leads to, and what was stamped on it. */
struct table_standing {
	struct tarn_descriptor descriptor;
	uint32_t uid; /* of table_stamp, as in table_name_fn */
	uint64_t expires;
};
/* -ENOENT, without a sentence. */
int table_standing(const struct table *table, const char *name,
	size_t name_size, struct table_standing *ret);

/*
 * Shows a live STORAGE_REPLICA to readers of the storage that it is of, and
 * takes it from them. A server that takes over shows those that it finds again,
 * after table_replicas_forget of all storages.
 */
void table_replica_show(struct table_writer *writer, uint32_t index);
void table_replica_hide(struct table_writer *writer, uint32_t index);
void table_replicas_forget(struct table_writer *writer, uint32_t index);
/* Wakes waiters on header.changed for events other than commits: bytes landed,
 * a storage's state. As wake_all() in wake.h; so does table_commit. */
void table_wake(struct table_writer *writer);
