/* SPDX-License-Identifier: MIT */
/*
 * The row of records: allocating room for a name, and freeing it.
 *
 * Every step leaves a row that can be walked from its start, for readers that
 * list it and for the next server after a crash. New room is a hole before it
 * is counted in, and to cut a hole its second part is written first. Holes are
 * never joined: a reader may stand on the border. So there are few sizes of
 * them (size_for).
 */
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/fail.h"
#include "shm/table_writer_internal.h"

int stack_reserve_n(struct stack *stack, size_t n)
{
	if (stack->room - stack->n < n) {
		size_t room = MAX(MAX(stack->room * 2, 64u), stack->n + n);
		uint64_t *v = reallocarray(stack->v, room, sizeof(*v));

		if (!v)
			return tarn_fail(ENOMEM,
				"no memory for a list of %zu numbers", room);
		stack->v = v;
		stack->room = room;
	}
	return 0;
}

int stack_reserve(struct stack *stack)
{
	return stack_reserve_n(stack, 1);
}

bool stack_push(struct stack *stack, uint64_t value)
{
	if (stack->n == stack->room)
		return false;
	stack->v[stack->n++] = value;
	return true;
}

/* Each call populates a quarter more, between these bounds, so that there are
 * few calls. */
#define POPULATE_MIN (64ull << 10)
#define POPULATE_MAX (4ull << 20)

int part_populate(struct table_writer *writer, uint64_t start, uint64_t limit,
	uint64_t end, uint64_t *ready)
{
	uint64_t to;

	if (end > limit)
		return tarn_fail(ENOSPC,
			"the name table is full: a part of %llu MiB is used up",
			(unsigned long long)((limit - start) >> 20));
	if (end <= *ready)
		return 0;
	to = *ready +
	     MIN(MAX((*ready - start) / 4, POPULATE_MIN), POPULATE_MAX);
	to = MIN((MAX(to, end) + 4095) & ~4095ull, limit);
	/* Missing memory is an error here, and nowhere a SIGBUS. */
	if (madvise(writer->table->map + *ready, to - *ready,
		    MADV_POPULATE_WRITE) < 0)
		return tarn_fail(ENOMEM,
			"the name table cannot grow by %llu bytes: %s",
			(unsigned long long)(to - *ready),
			tarn_errno_text(errno));
	*ready = to;
	return 0;
}

static size_t class_of(uint64_t size)
{
	return (size - RECORD_SIZE_MIN) / RECORD_ALIGN;
}

void hole_keep(struct table_writer *writer, uint64_t offset)
{
	uint32_t size = record_of(writer->table, offset)->size;
	struct stack *stack = &writer->holes[class_of(size)];

	/* Without memory for the list this writer loses the hole; the next one
	 * finds it. */
	if (stack_reserve(stack) >= 0)
		stack_push(stack, offset);
}

/* Cuts a hole in two if the rest is large enough to be used. */
static void hole_cut(
	struct table_writer *writer, uint64_t offset, uint32_t size)
{
	struct name_record *hole = record_of(writer->table, offset), *rest;
	uint32_t left = hole->size - size;

	if (left < RECORD_SIZE_MIN)
		return;
	rest = record_of(writer->table, offset + size);
	memset(rest, 0, sizeof(*rest));
	rest->size = left;
	/* Release: pairs with the load of size in table_list, through the
	 * dependency of the next address on it; and for a crash: the second
	 * part is there before the border is. */
	__atomic_store_n(&hole->size, size, __ATOMIC_RELEASE);
	hole_keep(writer, offset + size);
}

/* A hole of that size, or of the next larger one; 0: none. */
static uint64_t hole_take(struct table_writer *writer, uint32_t size)
{
	for (size_t c = class_of(size); c < RECORD_CLASSES; c++) {
		struct stack *stack = &writer->holes[c];

		if (stack->n) {
			uint64_t offset = stack->v[--stack->n];

			hole_cut(writer, offset, size);
			return offset;
		}
	}
	return 0;
}

/* Adds room at the end, as a hole. */
static int hole_append(
	struct table_writer *writer, uint32_t size, uint64_t *ret_offset)
{
	struct table *table = writer->table;
	struct table_header *h = table->header;
	uint64_t used =
		atomic_load_explicit(&h->records_used, memory_order_relaxed);
	uint64_t offset = table->records_offset + used;
	struct name_record *hole;
	int r = part_populate(writer, table->records_offset, table->size,
		offset + RECORD_SIZE_MAX, &writer->records_ready);

	if (r < 0)
		return r;
	hole = record_of(table, offset);
	memset(hole, 0, sizeof(*hole));
	hole->size = size;
	/* Release: pairs with the acquire load in table_list; the row can be
	 * walked up to there. */
	atomic_store_explicit(
		&h->records_used, used + size, memory_order_release);
	*ret_offset = offset;
	return 0;
}

/*
 * There are three sizes only, of which the largest is the sum of the others.
 * Holes are never joined, so with a size for every length, names that grow
 * longer over the years would leave holes of sizes that no name needs any more.
 * With three, the row never exceeds the largest number of names that ever
 * existed at once, for each of the three sizes. Most names need the first; a
 * name of the third takes a quarter more room than it needs, on average.
 */
static uint32_t size_for(size_t name_size)
{
	size_t size = name_size <= RECORD_NAME_SHORT    ? RECORD_NAME_SHORT
		      : name_size <= RECORD_NAME_MIDDLE ? RECORD_NAME_MIDDLE
							: NAME_SIZE_MAX;

	return (uint32_t)(sizeof(struct name_record) + size);
}

int record_new(struct table_writer *writer, const char *name, size_t size,
	uint64_t hash, uint64_t *ret_offset)
{
	uint32_t need = size_for(size);
	uint64_t offset = hole_take(writer, need);
	struct name_record *record;

	if (!offset) {
		int r = hole_append(writer, need, &offset);

		if (r < 0)
			return r;
	}
	/* Its commit numbers are 0, which is all that readers rely on. */
	record = record_of(writer->table, offset);
	record->hash = hash;
	memcpy(record->name, name, size);
	/* Release, for a crash: the record counts as named only when the name
	 * is complete. */
	__atomic_store_n(&record->name_size, (uint32_t)size, __ATOMIC_RELEASE);
	*ret_offset = offset;
	return 0;
}

void record_erase(struct table_writer *writer, uint64_t offset)
{
	struct name_record *record = record_of(writer->table, offset);
	int newer = commit_of(record, 0) > commit_of(record, 1) ? 0 : 1;

	/* The older one first: alone, it would stand again, for concurrent
	 * readers and, if this process dies here, for ever. Release: pairs with
	 * the acquire load in version_pick; a reader that finds the newer one
	 * gone finds the older one gone when it looks again. */
	atomic_store_explicit(
		&record->versions[1 - newer].commit, 0, memory_order_relaxed);
	atomic_store_explicit(
		&record->versions[newer].commit, 0, memory_order_release);
	/* Pairs with the acquire fence in version_still: a reader of a byte of
	 * the next name sees that the commit number is gone. */
	atomic_thread_fence(memory_order_release);
	record->timer = 0;
	__atomic_store_n(&record->name_size, 0, __ATOMIC_RELAXED);
	hole_keep(writer, offset);
}

void version_write(struct name_record *record, int i, uint64_t commit,
	uint64_t version, uint32_t flags, const struct stamp *stamp,
	const struct tarn_descriptor *descriptor)
{
	struct name_version *v = &record->versions[i];

	/* Release: pairs with the acquire fences before the second look at
	 * committed in walk and record_copy: a reader that sees this version
	 * gone sees the commit after which it could go. */
	atomic_store_explicit(&v->commit, 0, memory_order_release);
	/* Pairs with the acquire fence in version_still: a reader that copies a
	 * byte written after this sees the 0, or the new number. */
	atomic_thread_fence(memory_order_release);
	v->version = version;
	v->flags = flags;
	v->expires = stamp->expires;
	v->publisher = stamp->publisher;
	if (descriptor)
		memcpy(&v->descriptor, descriptor, sizeof(*descriptor));
	/* Release: pairs with the acquire load in version_pick. */
	atomic_store_explicit(&v->commit, commit, memory_order_release);
}
