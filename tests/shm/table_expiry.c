/* SPDX-License-Identifier: MIT */
/*
 * Names with a time to live, without a clock: the test sets the time.
 *
 * A set that was published together ends together, at its time and not before;
 * a name that is replaced or renewed has its newest end; a new writer knows
 * the same ends. Then names are put, renewed, removed and ended at random,
 * beside a list of what is right.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fail.h"
#include "shm/table_writer_internal.h"
#include "tests/kit/tap.h"

#define NAMES 200
#define ROUNDS 20000

static struct table table;
static struct table_writer *writer;

static void put(const char *name, uint64_t expires)
{
	struct tarn_descriptor d = {.size = expires};

	table_stamp(writer, expires, TABLE_NOBODY);
	if (table_put(writer, name, strlen(name), &d, NULL) < 0)
		bail("%s: %s", name, tarn_fail_message());
}

static void publish(const char *name, uint64_t expires)
{
	table_begin(writer);
	put(name, expires);
	table_commit(writer, NULL, NULL);
}

static void drop(const char *name)
{
	table_begin(writer);
	table_remove(writer, name, strlen(name));
	table_commit(writer, NULL, NULL);
}

static bool there(const char *name)
{
	struct tarn_descriptor d;
	uint64_t version;

	return table_lookup(&table, name, strlen(name), &d, &version) == 0;
}

static int n_displaced;

static void displaced(void *arg, const struct tarn_descriptor *d, uint32_t uid)
{
	n_displaced++;
}

/* How many ended. */
static int64_t time_is(uint64_t now)
{
	int64_t n;

	table_begin(writer);
	n = table_expire(writer, now);
	if (n > 0)
		table_commit(writer, displaced, NULL);
	else
		table_abort(writer);
	return n;
}

static void next_writer(void)
{
	writer = table_writer_free(writer);
	if (table_writer_new(&table, &writer) < 0)
		bail("%s", tarn_fail_message());
}

static void test_ends(void)
{
	is_int(0, (int64_t)table_next_expiry(writer),
		"without times to live no name ends");
	table_begin(writer);
	put("for ever", 0);
	put("set/a", 1000);
	put("set/b", 1000);
	put("later", 2000);
	is_int(0, (int64_t)table_next_expiry(writer),
		"a pending time to live has no effect before the commit");
	table_commit(writer, NULL, NULL);
	is_int(1000, (int64_t)table_next_expiry(writer),
		"the next end is that of the earliest name");
	is_int(0, time_is(999), "no name ends before its time");
	ok(there("set/a") && there("set/b"),
		"the names of a set exist before their end");
	n_displaced = 0;
	is_int(2, time_is(1000), "the set ends at its time");
	is_int(2, n_displaced,
		"the storages of the ended set lose their names");
	ok(!there("set/a") && !there("set/b"), "the set has ended as a whole");
	ok(there("later") && there("for ever"),
		"names with later ends or none still exist");
	is_int(2, (int64_t)table.header->n_names,
		"the table counts the two remaining names");
	is_int(1, time_is(5000), "a name with a late end ends at its time");
	is_int(0, (int64_t)table_next_expiry(writer), "no further end is due");
	is_int(0, time_is(UINT64_MAX),
		"no name without an end ends at the last time");
	ok(there("for ever"), "a name without an end still exists");
}

static void test_replaced(void)
{
	publish("a", 1000);
	publish("a", 3000);
	is_int(0, time_is(1000), "a renewed name outlives its old end");
	is_int(3000, (int64_t)table_next_expiry(writer),
		"a renewed name has its new end");
	publish("a", 2000);
	is_int(2000, (int64_t)table_next_expiry(writer),
		"a renewal may shorten a name's life");
	is_int(1, time_is(2000), "a shortened name ends at its new time");
	publish("a", 3000);
	is_int(1, time_is(3000), "a name that is put again has a new end");
	publish("a", 1000);
	publish("a", 0);
	is_int(0, time_is(1000), "a version without an end has none");
	ok(there("a"), "a version without an end stays when the old end comes");
	publish("b", 1000);
	drop("b");
	publish("c", 9000);
	is_int(0, time_is(1000), "a removed name does not end");
	ok(there("c"), "a name in a removed one's record does not end");
	drop("a");
	drop("c");
	table_begin(writer);
	put("d", 1000);
	table_abort(writer);
	is_int(0, time_is(UINT64_MAX),
		"a name that was never committed does not end");
}

static void test_crash(void)
{
	publish("old", 1000);
	publish("renewed", 1000);
	publish("renewed", 2000);
	publish("stays", 1000);
	publish("stays", 0);
	table_begin(writer);
	put("stays", 1000);
	next_writer(); /* the old one died before its commit */
	is_int(1000, (int64_t)table_next_expiry(writer),
		"a new writer knows the next end");
	is_int(1, time_is(1000),
		"a new writer ends the first name at its time");
	ok(there("renewed") && there("stays"),
		"a new writer keeps names with later ends or none");
	is_int(1, time_is(2000),
		"a new writer ends the second name at its time");
	ok(there("stays"), "a name without an end stays");
	drop("stays");
}

static void test_renewals(void)
{
	for (uint64_t i = 1; i <= 100000; i++)
		publish("beat", 1000 + i);
	is_int(1, (int64_t)writer->timers.n,
		"many renewals of a name need one timer");
	is_int(0, time_is(100000),
		"a name that was renewed many times still exists");
	is_int(1, time_is(101000),
		"a name that was renewed many times ends at its last end");
	for (uint64_t i = 1; i <= 200000; i++)
		publish("fading", 1200000 - i);
	diag("%zu timers are left", writer->timers.n);
	ok(writer->timers.n < 70000, "void timers are removed");
	is_int(0, time_is(999999), "a name does not end before its last end");
	is_int(1, time_is(1000000),
		"a name ends at its last end, whatever came before");
	is_int(0, time_is(UINT64_MAX), "no void timer ends a name");
}

static void test_random(void)
{
	uint64_t ends[NAMES] = {0}, now = 1, when;
	bool is[NAMES] = {false};
	int wrong = 0;
	char name[16];

	srand(1);
	for (int round = 0; round < ROUNDS; round++) {
		int i = rand() % NAMES, what = rand() % 20;

		snprintf(name, sizeof(name), "r/%d", i);
		if (what < 2 && is[i]) {
			drop(name);
			is[i] = false;
		} else if (what == 2) {
			now += (uint64_t)(rand() % 50);
			time_is(now);
			for (int j = 0; j < NAMES; j++)
				if (is[j] && ends[j] && ends[j] <= now)
					is[j] = false;
		} else if (what == 3 && round % 7 == 0) {
			next_writer();
		} else {
			when = rand() % 4 ? now + 1 + (uint64_t)(rand() % 300)
					  : 0;
			publish(name, when);
			is[i] = true;
			ends[i] = when;
		}
		wrong += there(name) != is[i];
	}
	for (int i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "r/%d", i);
		wrong += there(name) != is[i];
		if (is[i])
			drop(name);
	}
	is_int(0, wrong, "%d random steps end the right names", ROUNDS);
}

int main(void)
{
	int fd = memfd_create("table", MFD_CLOEXEC);

	if (fd < 0 || table_create(fd, 77, 4711, 1, 2, &table) < 0 ||
		table_writer_new(&table, &writer) < 0)
		bail("%s", tarn_fail_message());
	test_ends();
	test_replaced();
	test_crash();
	test_renewals();
	test_random();
	table_writer_free(writer);
	table_unmap(&table);
	close(fd);
	return done(37);
}
