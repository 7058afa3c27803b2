/* SPDX-License-Identifier: MIT */
/*
 * A load that verifies: names appear when the bytes are those that were saved,
 * and not before; of a damaged file none does, and what stood there stays. And
 * the other way round: what lies in a pool is saved from there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "base/fd.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/save.h"
#include "tests/kit/tap.h"

enum { N = 3 };

static struct tarn_save_item items[N];

static int load(tarn_store *store, const char *name, bool verify)
{
	struct tarn_load_options o = {.name = name, .verify = verify};
	struct tarn_load_info info = {0};
	tarn_file *file = NULL;
	int r = tarn_file_open(in("f"), &file);

	if (r >= 0)
		r = tarn_store_load(store, file, &o, &info, NULL);
	tarn_file_unref(file);
	return r;
}

static void damage(uint64_t offset)
{
	_cleanup_fd_ int fd = open(in("f"), O_RDWR | O_CLOEXEC);
	char c;

	if (pread(fd, &c, 1, (off_t)offset) != 1)
		bail("pread: %m");
	c ^= 1;
	if (pwrite(fd, &c, 1, (off_t)offset) != 1)
		bail("pwrite: %m");
}

static bool exists(tarn_store *store, const char *name)
{
	tarn_tensor *t = NULL;
	int r = tarn_store_lookup(store, name, &t);

	tarn_tensor_unref(t);
	return r == 0;
}

/* All that was published, saved from the pool. */
static void test_from_pool(tarn_store *store)
{
	struct tarn_save_item shared[N];
	struct tarn_save_options o = {.align = 4096, .checksums = true};

	for (int i = 0; i < N; i++) {
		tarn_tensor *t = NULL;
		char name[64];

		snprintf(name, sizeof(name), "m/%s", items[i].name);
		if (tarn_store_lookup(store, name, &t) < 0)
			bail("%s", tarn_error_message());
		shared[i] = item_of(items[i].name, t);
	}
	is_int(0, tarn_save(in("g"), shared, N, &o, NULL), "from a pool: %s",
		tarn_error_message());
	holds(in("g"), items, N, "all is there");
	drop(shared, N);
}

int main(void)
{
	struct tarn_save_options o = {.checksums = true};
	tarn_store *store = NULL;
	struct daemon server;
	uint64_t size;

	daemon_start(&server, "s", NULL);
	if (tarn_store_open(server.socket, &store) < 0)
		bail("%s", tarn_error_message());
	items[0] = item_of("a", MADE(TARN_F32, 1, 400, 1001));
	items[1] = item_of("b", MADE(TARN_U8, 2, 3));
	items[2] = item_of("none", MADE(TARN_F16, 3, 0));
	if (tarn_save(in("f"), items, N, &o, NULL) < 0)
		bail("%s", tarn_error_message());
	is_int(0, load(store, "m", true), "verified: %s", tarn_error_message());
	ok(exists(store, "m/a") && exists(store, "m/b") &&
			exists(store, "m/none"),
		"then all names are there");
	is_int(0, load(store, NULL, true), "verified without a name");
	test_from_pool(store);

	size = 4096 + 400 * 1001 * 4;
	damage(size / 2);
	is_int(-EBADMSG, load(store, "n", true), "a damaged file");
	has_str("/f: tensor 'a' is damaged", tarn_error_message(),
		"the error contains the expected words");
	ok(!exists(store, "n/b"), "no name is there");
	is_int(-EBADMSG, load(store, "m", true), "onto good names");
	test_from_pool(store);
	is_int(0, load(store, "n", false), "it loads if nobody asks");
	ok(exists(store, "n/a"), "a load without --verify publishes the names");
	o.checksums = false;
	if (tarn_save(in("f"), items, N, &o, NULL) < 0)
		bail("%s", tarn_error_message());
	is_int(0, load(store, "p", true), "without checksums nothing differs");

	tarn_store_unref(store);
	drop(items, N);
	unlink(in("f"));
	unlink(in("g"));
	daemon_stop(&server);
	return done(14);
}
