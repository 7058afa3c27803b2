/* SPDX-License-Identifier: MIT */
/*
 * Names of random lengths come and go for a long time, and their memory is
 * used again: the memory of a store is bounded by what it holds at once,
 * however long it lives and however lengths change meanwhile.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "shm/record.h"
#include "shm/segment.h"
#include "shm/table_writer.h"
#include "tests/kit/tap.h"

#define NAMES 2000u
#define STEPS 40000u

static struct table table;
static struct table_writer *writer;
static uint64_t seed = 5;
static uint32_t turns[NAMES]; /* a number a name has for life; 0: none */
static uint32_t lengths[NAMES];

static uint32_t draw(uint32_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33) % n;
}

static const char *name_of(uint32_t i)
{
	static char name[NAME_SIZE_MAX + 1];
	int n = snprintf(name, sizeof(name), "%u/%u/", i, turns[i]);

	memset(name + n, 'x', lengths[i] - (uint32_t)n);
	name[lengths[i]] = 0;
	return name;
}

static void displaced(void *arg, const struct tarn_descriptor *d, uint32_t uid)
{
	++*(uint32_t *)arg;
}

static void remove_one(uint32_t i)
{
	uint32_t n = 0;

	if (!lengths[i])
		return;
	if (table_begin(writer) < 0 ||
		table_remove(writer, name_of(i), lengths[i]) < 0)
		bail("remove: %s", tarn_fail_message());
	table_commit(writer, displaced, &n);
	lengths[i] = 0;
}

static void put_one(uint32_t i, uint32_t from, uint32_t to)
{
	struct tarn_descriptor d = {.base = i};
	uint32_t n = 0;

	remove_one(i);
	turns[i]++;
	lengths[i] = from + draw(to - from + 1);
	if (table_begin(writer) < 0 ||
		table_put(writer, name_of(i), lengths[i], &d, NULL) < 0)
		bail("put: %s", tarn_fail_message());
	table_commit(writer, displaced, &n);
}

static uint64_t live(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < NAMES; i++)
		if (lengths[i])
			sum += (sizeof(struct name_record) + lengths[i] + 63) &
			       ~63ull;
	return sum;
}

static uint64_t used(void)
{
	return table.header->records_used;
}

static void any_length(void)
{
	uint64_t half = 0, before = used();

	for (uint32_t i = 0; i < NAMES; i++)
		put_one(i, 24, 1000);
	for (uint32_t i = 0; i < STEPS; i++) {
		put_one(draw(NAMES), 24, 1000);
		if (i == STEPS / 2)
			half = used();
	}
	diag("%.2f x of what there is after %u steps, %.2f x half-way",
		(double)used() / (double)live(), STEPS,
		(double)half / (double)live());
	ok(used() <= MAX(live() * 3 / 2, before),
		"lengths of all kinds take at most half as much room again");
}

/* One length for a while, then another. */
static void drifting(uint32_t first, uint32_t last, int step)
{
	uint64_t most = 0;

	for (uint32_t size = first; size != last;
		size = (uint32_t)((int)size + step)) {
		for (uint32_t i = 0; i < NAMES; i++)
			put_one(i, size, size);
		most = MAX(most, live());
	}
	diag("%u to %u: %.2f x of the most there was", first, last,
		(double)used() / (double)most);
	ok(used() < most * 5 / 2,
		"lengths that change take bounded room, from %u to %u", first,
		last);
}

static void all_are_there(void)
{
	uint32_t wrong = 0;

	for (uint32_t i = 0; i < NAMES; i++) {
		struct tarn_descriptor d;
		uint64_t version;

		wrong += table_lookup(&table, name_of(i), lengths[i], &d,
				 &version) < 0 ||
			 d.base != i;
	}
	is_int(0, wrong, "all names that were put are found");
	is_int(NAMES, (int64_t)table.header->n_names,
		"the table has no other names");
}

int main(void)
{
	int fd;

	if (segment_create("tarn-churn", 4096, 12, &fd) < 0 ||
		table_create(fd, 1, 99, 0, 0, &table) < 0 ||
		table_writer_new(&table, &writer) < 0)
		bail("table: %s", tarn_fail_message());
	any_length();
	drifting(64, 1024, 64);
	drifting(1024, 64, -64);
	drifting(64, 1024, 64);
	all_are_there();
	table_writer_free(writer);
	if (table_writer_new(&table, &writer) < 0)
		bail("the next writer: %s", tarn_fail_message());
	drifting(1000, 40, -120);
	any_length();
	all_are_there();
	table_writer_free(writer);
	table_unmap(&table);
	close(fd);
	return done(10);
}
