/* SPDX-License-Identifier: MIT */
/*
 * A load that is said again, as to a server that took over: what was done is
 * answered from the table, and no name gets another version for it. That comes
 * before anything that may refuse for want of room.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/fd.h"
#include "tests/again_kit.h"
#include "tests/daemon_helper.h"
#include "tests/tap.h"
#include "tests/witness.h"

#define SIZE (3ull << 20)

static struct daemon server;
static const char *path;

static int load(const char *first, const char *second, bool again)
{
	struct order order = {0};
	int fd = opened(path), r;

	order_range(&order, 0, SIZE, 0);
	order_bytes(&order, first, 1000);
	order_bytes(&order, second, (int64_t)SIZE);
	raw.again = again;
	r = order_load(&order, &raw, fd, -1);
	raw.again = false;
	fd_close(fd);
	return r;
}

static void test_found(void)
{
	struct msg_loaded was;

	is_int(WIRE_LOADED, load("a", "b", false), "loaded");
	was = raw.loaded;
	is_int(WIRE_LOADED, load("a", "b", true), "and again");
	is_int(1, version_of("a"), "which is the first version still");
	is_int(1, version_of("b"), "of both");
	ok(was.index == raw.loaded.index && was.pool == raw.loaded.pool &&
			was.generation == raw.loaded.generation &&
			was.base == raw.loaded.base &&
			was.size == raw.loaded.size,
		"the answer says where it is");
	is_int(WIRE_LOADED, load("a", "b", false), "another load");
	is_int(2, version_of("a"), "is another version");
}

static void test_displaced(void)
{
	is_int(WIRE_LOADED, load("c", "d", false), "loaded");
	publish("c");
	is_int(WIRE_LOADED, load("c", "d", true), "again, as others come");
	is_int(2, version_of("c"), "who stand");
	publish("c");
	is_int(WIRE_LOADED, load("c", "d", true), "found by the other name");
	is_int(3, version_of("c"), "they stand");
	is_int(1, version_of("d"), "and it does");
}

static void test_not_done(void)
{
	raw.serial = 1000;
	is_int(WIRE_LOADED, load("e", "f", true), "what was not done is done");
	is_int(1, version_of("e"), "as the first version");
	is_int((int64_t)SIZE, (int64_t)raw.loaded.size, "with its bytes");
}

/* ---- when there is no room ------------------------------------------- */

/* Without bytes: it is no longer under way when something else is read. */
static int load_nothing(void)
{
	struct order order = {0};
	int fd = opened(path), r;

	order_bytes(&order, "x", 0);
	order_bytes(&order, "y", 0);
	r = order_load(&order, &raw, fd, -1);
	fd_close(fd);
	return r;
}

/* Until the server has read what else there is. */
static void until_refused(void)
{
	for (int i = 0; i < 2000; i++) {
		if (load_nothing() == WIRE_ERROR)
			return;
		usleep(10000);
	}
	bail("there is room for ever");
}

static void test_no_room(void)
{
	struct raw half;
	uint32_t serial;

	is_int(WIRE_LOADED, load("g", "h", false), "loaded");
	serial = raw.serial;
	say_half(&half, server.socket);
	until_refused();
	is_int(EDQUOT, raw.error, "now there is no room for requests");
	raw.serial = serial;
	is_int(WIRE_LOADED, load("g", "h", true),
		"what was done is told of all the same");
	is_int(1, version_of("g"), "and not done again");
	raw.serial = 2000;
	is_int(WIRE_ERROR, load("i", "j", true), "what was not");
	is_int(EDQUOT, raw.error, "may ask once more");
	raw_close(&half);
}

int main(void)
{
	const char *args[] = {"--config", NULL, NULL};

	args[1] = little_room();
	path = made_file("file", SIZE, 1);
	daemon_start(&server, "again.sock", args);
	raw_open(&raw, server.socket);
	if (table_map(raw.table, false, &table) < 0 ||
		tarn_store_open(server.socket, &other) < 0)
		bail("a second look: %s", tarn_error_message());
	test_found();
	test_displaced();
	test_not_done();
	test_no_room();
	unlink(args[1]);
	unlink(path);
	tarn_store_unref(other);
	table_unmap(&table);
	raw_close(&raw);
	is_int(0, daemon_stop(&server), "the daemon ends");
	return done();
}
