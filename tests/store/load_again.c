/* SPDX-License-Identifier: MIT */
/*
 * A load that is sent again to a server that took over publishes its names
 * exactly once: a completed load is answered from its completion, whatever
 * others did since, and before any check for room. A load that was under way
 * when the server died, or was never read, is done.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/fd.h"
#include "tests/kit/again.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define SIZE (3ull << 20)

static struct daemon server;
static const char *path;

/* Two tensors: the whole file, or nothing of it. */
static void ask_load(const char *first, const char *second, uint64_t size,
	uint32_t serial, bool again)
{
	struct order order = {0};
	int fd = opened(path);

	if (size)
		order_range(&order, 0, size, 0);
	order_bytes(&order, first, (int64_t)size / 2);
	order_bytes(&order, second, (int64_t)size);
	raw.serial = again ? serial : serial - 1;
	raw.again = again;
	raw.error = 0;
	if (order_send(&order, &raw, fd, -1) < 0)
		bail("load %u cannot be sent", serial);
	raw.again = false;
	fd_close(fd);
}

static int load_of(const char *first, const char *second, uint64_t size,
	uint32_t serial, bool again)
{
	ask_load(first, second, size, serial, again);
	return raw_answer(&raw);
}

static int load(
	const char *first, const char *second, uint32_t serial, bool again)
{
	return load_of(first, second, SIZE, serial, again);
}

/* It is done, and the answer is lost with its server. */
static void lose_answer(
	const char *first, const char *second, uint64_t size, uint32_t serial)
{
	fill_socket();
	ask_load(first, second, size, serial, false);
	until_version(second, 1);
	change_server(&server);
	until_completions(1);
}

static void answered(
	const char *first, const char *second, uint64_t size, uint32_t serial)
{
	is_int(WIRE_LOADED, load_of(first, second, size, serial, true),
		"the next server answers the load of %s", first);
	is_int((int64_t)size, (int64_t)raw.loaded.size,
		"the answer has the load's size");
	until_completions(0);
}

static void test_stands(void)
{
	struct table_name found;

	lose_answer("a", "b", SIZE, 1000);
	answered("a", "b", SIZE, 1000);
	is_int(1, version_of("a"), "the first name is not published again");
	is_int(1, version_of("b"), "the second name is not published again");
	if (table_find(&table, "a", 1, &found) < 0)
		bail("no name");
	is_int(found.descriptor.storage, raw.loaded.index,
		"the answer has the storage of the names");
	is_int((int64_t)found.descriptor.generation,
		(int64_t)raw.loaded.generation,
		"the answer has the generation of the storage");
	is_int((int64_t)found.descriptor.base, (int64_t)raw.loaded.base,
		"the answer has the place where the tensor begins");
}

static void test_displaced(void)
{
	lose_answer("c", "d", SIZE, 2000);
	for (int i = 0; i < 2; i++) {
		publish("c");
		publish("d");
	}
	answered("c", "d", SIZE, 2000);
	is_int(3, version_of("c"),
		"a publication by another client stays in place");
}

static void test_removed(void)
{
	lose_answer("e", "f", SIZE, 3000);
	take_away("e");
	take_away("f");
	publish("f");
	answered("e", "f", SIZE, 3000);
	is_int(-ENOENT, version_of("e"),
		"a name that another client removed stays removed");
	is_int(1, version_of("f"),
		"a name that replaced the removed one stays");
}

static void test_nothing(void)
{
	lose_answer("g", "h", 0, 4000);
	publish("g");
	answered("g", "h", 0, 4000);
	is_int(2, version_of("g"),
		"a load without bytes is completed once, too");
}

static void test_not_done(void)
{
	change_server(&server);
	publish("i");
	is_int(WIRE_LOADED, load("i", "j", 5000, true),
		"a load that was not completed is done after others' changes");
	is_int(2, version_of("i"),
		"the repeated load publishes the next version");
	is_int(1, version_of("j"),
		"the repeated load publishes each of its names");
}

/* The server dies while the loader reads. */
static void test_under_way(void)
{
	pid_t loader = child_named(server.pid, "tarn-loader");

	kill(loader, SIGSTOP);
	ask_load("k", "l", SIZE, 6000, false);
	if (raw_send(&raw, WIRE_PING, NULL, 0, NULL, 0) < 0 ||
		raw_answer(&raw) != WIRE_PONG)
		bail("no status");
	change_server(&server);
	kill(loader, SIGCONT);
	publish("k");
	is_int(WIRE_LOADED, load("k", "l", 6000, true),
		"a load that was under way is done again");
	is_int(2, version_of("k"), "a load that was under way is done once");
}

/* Names are what is done once; bytes may be loaded as often as one likes. */
static void test_without_names(void)
{
	struct order order = {0};
	int fd = opened(path);

	order_range(&order, 0, SIZE, 0);
	is_int(WIRE_LOADED, order_load(&order, &raw, fd, -1),
		"a load without a name is done");
	until_completions(0);
	ok(true, "a load without a name leaves no completion");
	fd_close(fd);
}

/* ---- by the library ---------------------------------------------------- */

/* Of a file's one tensor. */
static int load_by_library(tarn_store *store, const char *name)
{
	return tensor_load(store, tensor_file("of-one", 1, 4096), name);
}

static void test_library(void)
{
	is_int(0, slept(&server, load_by_library, "u", "u/x"),
		"a load that the dead server never read is done after a "
		"publication by others");
	is_int(2, version_of("u/x"),
		"a load that the dead server never read is done once");
	until_completions(0);
}

/* ---- when there is no room ------------------------------------------- */

static void test_no_room(void)
{
	struct raw busy;

	lose_answer("m", "n", SIZE, 9000);
	take_room(&busy, &server);
	answered("m", "n", SIZE, 9000);
	is_int(1, version_of("m"),
		"a load that was answered is not done again");
	is_int(WIRE_ERROR, load("o", "p", 9001, true),
		"a load that was not completed may fail the second time");
	is_int(EDQUOT, raw.error,
		"a load that does not fit is refused by the next server");
	give_room(&busy, &server);
}

int main(void)
{
	const char *args[] = {"--segment-size", "64M", "--config", NULL, NULL};

	args[3] = little_room();
	path = made_file("file", SIZE, 1);
	daemon_start(&server, "again.sock", args);
	again_open(&server);
	test_stands();
	test_displaced();
	test_removed();
	test_nothing();
	test_not_done();
	test_under_way();
	test_without_names();
	test_no_room();
	test_library();
	again_close();
	unlink(args[3]);
	unlink(path);
	remove_files();
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(32);
}
