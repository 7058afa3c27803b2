/* SPDX-License-Identifier: MIT */
/*
 * A load with verification publishes its names once the bytes are those that
 * were saved. A damaged file publishes none, and older names stay. And the
 * other way round: tensors in a pool are saved from there.
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
	is_int(0, tarn_save(in("g"), shared, N, &o, NULL),
		"tensors in a pool are saved: %s", tarn_error_message());
	holds(in("g"), items, N, "the file saved from a pool has its elements");
	drop(shared, N);
}

int main(void)
{
	struct tarn_save_options o = {.checksums = true};
	tarn_store *store = NULL;
	struct daemon server;
	uint64_t size;

	daemon_start(&server, "s", NULL);
	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
	items[0] = item_of("a", MADE(TARN_F32, 1, 400, 1001));
	items[1] = item_of("b", MADE(TARN_U8, 2, 3));
	items[2] = item_of("none", MADE(TARN_F16, 3, 0));
	if (tarn_save(in("f"), items, N, &o, NULL) < 0)
		bail("%s", tarn_error_message());
	is_int(0, load(store, "m", true),
		"a load with verification succeeds: %s", tarn_error_message());
	ok(exists(store, "m/a") && exists(store, "m/b") &&
			exists(store, "m/none"),
		"a verified load publishes all names");
	is_int(0, load(store, NULL, true),
		"a verified load without a name succeeds");
	test_from_pool(store);

	size = 4096 + 400 * 1001 * 4;
	damage(size / 2);
	is_int(-EBADMSG, load(store, "n", true),
		"a verified load of a damaged file is refused");
	has_str("/f: tensor 'a' is damaged", tarn_error_message(),
		"the error contains the expected words");
	ok(!exists(store, "n/b"), "a refused load publishes no name");
	is_int(-EBADMSG, load(store, "m", true),
		"a refused load onto published names leaves them");
	test_from_pool(store);
	is_int(0, load(store, "n", false),
		"a damaged file is loaded without verification");
	ok(exists(store, "n/a"), "a load without --verify publishes the names");
	o.checksums = false;
	if (tarn_save(in("f"), items, N, &o, NULL) < 0)
		bail("%s", tarn_error_message());
	is_int(0, load(store, "p", true),
		"a file without checksums is loaded with verification");

	tarn_store_unref(store);
	drop(items, N);
	unlink(in("f"));
	unlink(in("g"));
	daemon_stop(&server);
	return done(14);
}
