/* SPDX-License-Identifier: MIT */
/*
 * What the keeper holds for the next server is found by its key whatever the
 * number, replaced without a leak, and dropped while it is walked.
 */
#include <fcntl.h>
#include <unistd.h>

#include "daemon/kept.h"
#include "tests/tap.h"

enum { MANY = 500 };

static struct msg_keep key_of(uint64_t i)
{
	return (struct msg_keep) {
		.rule = i % 3, .kind = KEEP_STORAGE, .a = i / 2, .b = i};
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void drop_even(void *arg, const struct kept *kept)
{
	struct msg_keep key = kept->key;

	if (key.b % 2 == 0)
		kept_drop(arg, &key);
}

/* One that was begun knows what it can come to; more than that is new to it. */
static void test_limit(void)
{
	struct kept_table table = {0};
	struct msg_keep low = key_of(1), high = key_of(2);
	int fd = fcntl(0, F_DUPFD_CLOEXEC, 3), far;

	is_int(0, kept_begin(&table), "one that has its room from the first");
	table.room = (uint32_t)fd + 1;
	is_int(0, kept_put(&table, &low, fd), "the last that it has room for");
	far = fcntl(0, F_DUPFD_CLOEXEC, fd + 100);
	is_int(0, kept_put(&table, &high, far), "one far beyond");
	is_int(far, kept_get(&table, &high), "which is found");
	is_int(fd, kept_get(&table, &low), "beside the other");
	kept_free(&table);
	ok(!is_open(fd) && !is_open(far), "the end closes both");
}

int main(void)
{
	struct kept_table table = {0};
	struct msg_keep key = key_of(7);
	int fds[MANY], wrong = 0, first;

	is_int(-1, kept_get(&table, &key), "an empty one has nothing");
	kept_drop(&table, &key);
	for (uint64_t i = 0; i < MANY; i++) {
		key = key_of(i);
		fds[i] = fcntl(0, F_DUPFD_CLOEXEC, 3);
		if (fds[i] < 0)
			bail("no descriptor %d", (int)i);
		wrong += kept_put(&table, &key, fds[i]) != 0;
	}
	is_int(0, wrong, "%d are taken", MANY);
	for (uint64_t i = 0; i < MANY; i++) {
		key = key_of(i);
		wrong += kept_get(&table, &key) != fds[i];
	}
	is_int(0, wrong, "each is found under its key");
	key = key_of(8);
	key.kind = KEEP_LEASES;
	is_int(-1, kept_get(&table, &key), "not under one of another kind");
	key.kind = KEEP_STORAGE;
	first = fcntl(0, F_DUPFD_CLOEXEC, 3);
	kept_put(&table, &key, first);
	is_int(first, kept_get(&table, &key), "a second one replaces it");
	ok(!is_open(fds[8]), "and the first is closed");
	is_int(MANY, table.n, "their number is the same");
	kept_each(&table, drop_even, &table);
	is_int(MANY / 2, table.n, "half are dropped while they are walked");
	key = key_of(8);
	is_int(-1, kept_get(&table, &key), "which are not found");
	key = key_of(9);
	is_int(fds[9], kept_get(&table, &key), "the others are");
	kept_free(&table);
	ok(!is_open(fds[9]), "the end closes them");
	test_limit();
	return done();
}
