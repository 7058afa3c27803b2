/* SPDX-License-Identifier: MIT */
/*
 * Names that end: which ones to remove, and when the next one ends.
 *
 * Each version records when it ends, so the region is the reference, and a new
 * writer finds all of it again. The heap only determines when to look. A name
 * that is renewed again and again needs no new timer each time: its timer
 * fires, finds a later end, and is set to that. Hence each record stores the
 * time of its valid timer; a new one is set only for an earlier time, and the
 * other becomes void.
 */
#include <assert.h>

#include "base/checked.h"
#include "base/fail.h"
#include "shm/table_writer_internal.h"

/* Void timers, which remain after a name's life was shortened, are swept out
 * when they may be most of the heap; 1 MiB of them is not worth a walk. */
#define VOID_MIN 65536u

static int reserve(struct timers *timers, size_t n)
{
	size_t room = MAX(MAX(timers->room * 2, 64u), n);
	struct timer *v;

	if (n <= timers->room)
		return 0;
	v = reallocarray(timers->v, room, sizeof(*v));
	if (!v)
		return tarn_fail(ENOMEM,
			"no memory for the expiry times of "
			"%zu names",
			room);
	timers->v = v;
	timers->room = room;
	return 0;
}

static void sift_up(struct timers *timers, size_t i)
{
	struct timer *v = timers->v, t = v[i];

	for (; i && v[(i - 1) / 2].at > t.at; i = (i - 1) / 2)
		v[i] = v[(i - 1) / 2];
	v[i] = t;
}

static void sift_down(struct timers *timers, size_t i)
{
	struct timer *v = timers->v, t = v[i];
	size_t n = timers->n, child;

	while ((child = 2 * i + 1) < n) {
		if (child + 1 < n && v[child + 1].at < v[child].at)
			child++;
		if (v[child].at >= t.at)
			break;
		v[i] = v[child];
		i = child;
	}
	v[i] = t;
}

static struct timer pop(struct timers *timers)
{
	struct timer top = timers->v[0];

	timers->v[0] = timers->v[--timers->n];
	if (timers->n)
		sift_down(timers, 0);
	return top;
}

void timer_set(struct table_writer *writer, uint64_t offset, uint64_t expires)
{
	struct name_record *record = record_of(writer->table, offset);
	struct timers *timers = &writer->timers;

	if (record->timer && record->timer <= expires)
		return;
	assert(timers->n < timers->room);
	record->timer = expires;
	timers->v[timers->n] = (struct timer) {expires, offset};
	sift_up(timers, timers->n++);
}

/* The end of a record's committed version; 0: it has none, or no version. */
static uint64_t end_of(
	const struct table *table, const struct name_record *record)
{
	uint64_t commit;
	int i = version_pick(record, committed_of(table), &commit);

	if (!record->name_size || i < 0 ||
		record->versions[i].flags & NAME_REMOVED)
		return 0;
	return record->versions[i].expires;
}

int timer_found(struct table_writer *writer, uint64_t offset, uint64_t expires)
{
	struct name_record *record = record_of(writer->table, offset);
	struct timers *timers = &writer->timers;
	int r;

	/* Most records have no end, and had none: their pages stay
	 * unwritten. */
	if (record->timer != expires)
		record->timer = expires;
	if (!expires)
		return 0;
	r = reserve(timers, timers->n + 1);
	if (r < 0)
		return r;
	timers->v[timers->n++] = (struct timer) {expires, offset};
	return 0;
}

void timers_order(struct table_writer *writer)
{
	struct timers *timers = &writer->timers;

	for (size_t i = timers->n / 2; i-- > 0;)
		sift_down(timers, i);
	timers->rebuilt_n = timers->n;
}

/* Collects all timers anew: too many are void. */
static int timers_rebuild(struct table_writer *writer)
{
	struct table *table = writer->table;
	uint64_t end = table->records_offset +
		       atomic_load_explicit(&table->header->records_used,
			       memory_order_relaxed);
	int r = 0;

	writer->timers.n = 0;
	/* Each record has a timer already, so there is room. */
	for (uint64_t offset = table->records_offset; offset < end && r >= 0;
		offset += record_of(table, offset)->size)
		r = timer_found(writer, offset,
			end_of(table, record_of(table, offset)));
	timers_order(writer);
	return r;
}

int timers_reserve(struct table_writer *writer)
{
	struct timers *timers = &writer->timers;
	int r = 0;

	if (timers->n > 4 * timers->rebuilt_n + VOID_MIN)
		r = timers_rebuild(writer);
	return r < 0 ? r : reserve(timers, timers->n + writer->touched.n + 1);
}

uint64_t table_next_expiry(const struct table_writer *writer)
{
	return writer->timers.n ? writer->timers.v[0].at : 0;
}

/* Counts the due timers from i on in the heap; below a timer that is not due
 * there is none that is. */
static size_t count_due(const struct timers *timers, size_t i, uint64_t now)
{
	if (i >= timers->n || timers->v[i].at > now)
		return 0;
	return 1 + count_due(timers, 2 * i + 1, now) +
	       count_due(timers, 2 * i + 2, now);
}

/* A timer fired: has the name ended, or been renewed? */
static bool has_ended(
	struct table_writer *writer, const struct timer *timer, uint64_t now)
{
	struct name_record *record = record_of(writer->table, timer->offset);
	uint64_t end;

	if (record->timer != timer->at)
		return false;
	record->timer = 0;
	end = end_of(writer->table, record);
	if (end > now)
		timer_set(writer, timer->offset, end);
	return end && end <= now;
}

int64_t table_expire(struct table_writer *writer, uint64_t now)
{
	struct timers *timers = &writer->timers;
	int64_t n = 0;
	int r = stack_reserve_n(&writer->touched, count_due(timers, 0, now));

	assert(writer->open && writer->touched.n == 0);
	if (r < 0)
		return r;
	while (timers->n && timers->v[0].at <= now) {
		struct timer timer = pop(timers);

		if (!has_ended(writer, &timer, now))
			continue;
		version_pend(writer, timer.offset, NAME_REMOVED, NULL);
		n++;
	}
	return n;
}
