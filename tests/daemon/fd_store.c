/* SPDX-License-Identifier: MIT */
/*
 * What the keeper holds for the next server is found by its key whatever the
 * number, replaced without a leak, and dropped while it is walked.
 */
#include <fcntl.h>
#include <unistd.h>

#include "daemon/loop/fd_store.h"
#include "tests/kit/tap.h"

enum { MANY = 500 };

static struct msg_fd_key key_of(uint64_t i)
{
	return (struct msg_fd_key) {
		.domain = i % 3, .kind = FD_OF_STORAGE, .a = i / 2, .b = i};
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void drop_even(void *arg, const struct stored_fd *stored)
{
	struct msg_fd_key key = stored->key;

	if (key.b % 2 == 0)
		fd_store_drop(arg, &key);
}

/* One that was begun knows what it can come to; more than that is new to it. */
static void test_limit(void)
{
	struct fd_store table = {0};
	struct msg_fd_key low = key_of(1), high = key_of(2);
	int fd = fcntl(0, F_DUPFD_CLOEXEC, 3), far;

	is_int(0, fd_store_reserve(&table),
		"one that has its room from the first");
	table.room = (uint32_t)fd + 1;
	is_int(0, fd_store_put(&table, &low, fd),
		"the last that it has room for");
	far = fcntl(0, F_DUPFD_CLOEXEC, fd + 100);
	is_int(0, fd_store_put(&table, &high, far), "one far beyond");
	is_int(far, fd_store_get(&table, &high), "which is found");
	is_int(fd, fd_store_get(&table, &low), "beside the other");
	fd_store_free(&table);
	ok(!is_open(fd) && !is_open(far), "the end closes both");
}

int main(void)
{
	struct fd_store table = {0};
	struct msg_fd_key key = key_of(7);
	int fds[MANY], wrong = 0, first;

	is_int(-1, fd_store_get(&table, &key), "an empty one has nothing");
	fd_store_drop(&table, &key);
	for (uint64_t i = 0; i < MANY; i++) {
		key = key_of(i);
		fds[i] = fcntl(0, F_DUPFD_CLOEXEC, 3);
		if (fds[i] < 0)
			bail("no descriptor %d", (int)i);
		wrong += fd_store_put(&table, &key, fds[i]) != 0;
	}
	is_int(0, wrong, "%d are taken", MANY);
	for (uint64_t i = 0; i < MANY; i++) {
		key = key_of(i);
		wrong += fd_store_get(&table, &key) != fds[i];
	}
	is_int(0, wrong, "each is found under its key");
	key = key_of(8);
	key.kind = FD_OF_LEASES;
	is_int(-1, fd_store_get(&table, &key), "not under one of another kind");
	key.kind = FD_OF_STORAGE;
	first = fcntl(0, F_DUPFD_CLOEXEC, 3);
	fd_store_put(&table, &key, first);
	is_int(first, fd_store_get(&table, &key), "a second one replaces it");
	ok(!is_open(fds[8]), "and the first is closed");
	is_int(MANY, table.n, "their number is the same");
	fd_store_each(&table, drop_even, &table);
	is_int(MANY / 2, table.n, "half are dropped while they are walked");
	key = key_of(8);
	is_int(-1, fd_store_get(&table, &key), "which are not found");
	key = key_of(9);
	is_int(fds[9], fd_store_get(&table, &key), "the others are");
	fd_store_free(&table);
	ok(!is_open(fds[9]), "the end closes them");
	test_limit();
	return done(17);
}
