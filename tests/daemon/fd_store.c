/* SPDX-License-Identifier: MIT */
/*
 * The descriptors that the keeper holds for the next server are found by their
 * keys whatever their numbers, replaced without a leak, and dropped during a
 * walk.
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
		"a descriptor with the lowest key is stored");
	table.room = (uint32_t)fd + 1;
	is_int(0, fd_store_put(&table, &low, fd),
		"the table has room for its last number");
	far = fcntl(0, F_DUPFD_CLOEXEC, fd + 100);
	is_int(0, fd_store_put(&table, &high, far),
		"a descriptor with a large number is stored");
	is_int(far, fd_store_get(&table, &high),
		"the descriptor with the large number is found");
	is_int(fd, fd_store_get(&table, &low),
		"the descriptor with the small number is found");
	fd_store_free(&table);
	ok(!is_open(fd) && !is_open(far),
		"freeing the table closes both descriptors");
}

int main(void)
{
	struct fd_store table = {0};
	struct msg_fd_key key = key_of(7);
	int fds[MANY], wrong = 0, first;

	is_int(-1, fd_store_get(&table, &key),
		"an empty table finds no descriptor");
	fd_store_drop(&table, &key);
	for (uint64_t i = 0; i < MANY; i++) {
		key = key_of(i);
		fds[i] = fcntl(0, F_DUPFD_CLOEXEC, 3);
		if (fds[i] < 0)
			bail("no descriptor %d", (int)i);
		wrong += fd_store_put(&table, &key, fds[i]) != 0;
	}
	is_int(0, wrong, "%d descriptors are stored", MANY);
	for (uint64_t i = 0; i < MANY; i++) {
		key = key_of(i);
		wrong += fd_store_get(&table, &key) != fds[i];
	}
	is_int(0, wrong, "each descriptor is found under its key");
	key = key_of(8);
	key.kind = FD_OF_LEASES;
	is_int(-1, fd_store_get(&table, &key),
		"a descriptor is not found under another kind");
	key.kind = FD_OF_STORAGE;
	first = fcntl(0, F_DUPFD_CLOEXEC, 3);
	fd_store_put(&table, &key, first);
	is_int(first, fd_store_get(&table, &key),
		"a second descriptor under a key replaces the first");
	ok(!is_open(fds[8]), "the replaced descriptor is closed");
	is_int(MANY, table.n, "a replacement does not change the count");
	fd_store_each(&table, drop_even, &table);
	is_int(MANY / 2, table.n,
		"half of the descriptors are dropped during a walk");
	key = key_of(8);
	is_int(-1, fd_store_get(&table, &key),
		"a dropped descriptor is not found");
	key = key_of(9);
	is_int(fds[9], fd_store_get(&table, &key),
		"a descriptor that was not dropped is found");
	fd_store_free(&table);
	ok(!is_open(fds[9]),
		"freeing the table closes the remaining descriptors");
	test_limit();
	return done(17);
}
