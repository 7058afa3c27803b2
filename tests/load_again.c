/* SPDX-License-Identifier: MIT */
/*
 * A load that is said again, as to a server that took over: what was done is
 * answered from the table, and no name gets another version for it. Where
 * others have published something else since it is refused, since nobody can
 * tell whether it was done. All that comes before anything that may refuse for
 * want of room.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/fd.h"
#include "tests/again_kit.h"
#include "tests/restart_kit.h"
#include "tests/tap.h"
#include "tests/witness.h"

#define SIZE (3ull << 20)

static struct daemon server;
static const char *path;

/* Asks, and hears nothing yet. */
static void ask_since(
	const char *first, const char *second, bool again, uint64_t since)
{
	struct order order = {.since = since};
	int fd = opened(path);

	order_range(&order, 0, SIZE, 0);
	order_bytes(&order, first, 1000);
	order_bytes(&order, second, (int64_t)SIZE);
	raw.again = again;
	raw.error = 0;
	if (order_send(&order, &raw, fd, -1) < 0)
		bail("nothing can be said");
	raw.again = false;
	fd_close(fd);
}

static int load_since(
	const char *first, const char *second, bool again, uint64_t since)
{
	ask_since(first, second, again, since);
	return raw_answer(&raw);
}

static int load(const char *first, const char *second, bool again)
{
	return load_since(first, second, again, 0);
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

/* ---- what others did since ---------------------------------------------- */

/* Somebody, so often that the table tells no more who was there before. */
static void cover(const char *name)
{
	publish(name);
	publish(name);
}

static void refused(const char *first, const char *second, uint64_t since)
{
	int64_t version = version_of(first);

	is_int(WIRE_ERROR, load_since(first, second, true, since),
		"it is refused");
	is_int(EIO, raw.error, "for nobody can tell");
	has_str(first, raw.text, "by name");
	is_int(version, version_of(first), "and nothing happens");
}

static void test_covered(void)
{
	uint64_t since = now();

	is_int(WIRE_LOADED, load_since("k", "l", false, since), "loaded");
	cover("k");
	cover("l");
	diag("others have come since");
	refused("k", "l", since);
	publish("m");
	is_int(WIRE_LOADED, load_since("m", "n", true, now()),
		"what stood before it was asked is published over");
	is_int(2, version_of("m"), "as the dead one would have done");
	is_int(WIRE_LOADED, load("k", "l", true), "an old client is served");
	is_int(4, version_of("k"), "as he was");
}

static void test_removed(void)
{
	uint64_t since = now();

	is_int(WIRE_LOADED, load_since("o", "p", false, since), "loaded");
	if (tarn_store_remove(other, "o") < 0 ||
		tarn_store_remove(other, "p") < 0)
		bail("%s", tarn_error_message());
	is_int(WIRE_LOADED, load_since("o", "p", true, since),
		"what others have removed since is loaded again");
	is_int(1, version_of("o"), "and there again");
}

/* What was said before was read. */
static void until_heard(void)
{
	if (raw_say(&raw, WIRE_STATUS, NULL, 0, NULL, 0) < 0 ||
		raw_answer(&raw) != WIRE_STATUS_IS)
		bail("no status");
}

/* As to who asks again and finds something else when his file is read. */
static void test_meanwhile(void)
{
	pid_t loader = child_named(server.pid, "tarn-loader");
	uint64_t since = now();

	is_int(WIRE_LOADED, load_since("A", "B", false, since), "loaded");
	if (tarn_store_remove(other, "A") < 0 ||
		tarn_store_remove(other, "B") < 0)
		bail("%s", tarn_error_message());
	kill(loader, SIGSTOP);
	raw.serial = 5000;
	ask_since("A", "B", true, since);
	/* What is said next is heard next. */
	until_heard();
	publish("A");
	kill(loader, SIGCONT);
	is_int(WIRE_ERROR, raw_answer(&raw),
		"removed by others, and published while it is read: refused");
	is_int(EIO, raw.error, "for nobody can tell");
	is_int(1, version_of("A"), "and they stand");
}

static void test_at_once(void)
{
	uint64_t since = now();

	publish("C");
	raw.serial = 6000;
	ask_since("C", "D", true, since);
	is_int(WIRE_ERROR, raw_hear(&raw, RAW_PATIENCE_MS),
		"what no file's bytes can be is refused before any is read");
	is_int(EIO, raw.error, "for nobody can tell");
}

/* What stands may be the same, but the file cannot be read any more. */
static void test_unread(void)
{
	const char *whole = path;
	uint64_t since = now();

	is_int(WIRE_LOADED, load("I", "J", false), "others load it");
	path = made_file("short", 1000, 2);
	raw.serial = 8000;
	is_int(WIRE_ERROR, load_since("I", "J", true, since),
		"a file that is too short now fails");
	is_int(EIO, raw.error, "as what may have been done");
	has_str("nobody can tell", raw.text, "which it says");
	has_str("bytes", raw.text, "and why");
	unlink(path);
	path = whole;
}

/* Until the file is old enough for its bytes to be everybody's. */
static void until_cached(void)
{
	for (int i = 0; i < 600; i++) {
		if (load("q", "r", false) != WIRE_LOADED)
			bail("not loaded: %s", raw.text);
		if (raw.loaded.flags & LOADED_CACHED)
			return;
		usleep(50000);
	}
	bail("it is young for ever");
}

static void test_same(void)
{
	uint64_t since;

	until_cached();
	since = now();
	raw.serial = 3000;
	is_int(WIRE_LOADED, load_since("s", "t", true, since),
		"what many load under the same names, one loads");
	is_int(WIRE_LOADED, load("s", "t", false), "and another");
	is_int(WIRE_LOADED, load("s", "t", false), "and one more");
	raw.serial = 3000;
	is_int(WIRE_LOADED, load_since("s", "t", true, since),
		"the first one, again, finds what it would publish");
	is_int((int64_t)SIZE, (int64_t)raw.loaded.size, "and has it");
	raw.serial = 4000;
	load("s", "t", false);
	load("s", "t", false);
	publish("t");
	raw.serial = 3000;
	raw.error = 0;
	is_int(WIRE_ERROR, load_since("s", "t", true, since),
		"but not if one of them is something else");
	is_int(EIO, raw.error, "for nobody can tell");
}

/* ---- without bytes ----------------------------------------------------- */

static int load_nothing(
	const char *first, const char *second, bool again, uint64_t since)
{
	struct order order = {.since = since};
	int fd = opened(path), r;

	order_bytes(&order, first, 0);
	order_bytes(&order, second, 0);
	raw.again = again;
	r = order_load(&order, &raw, fd, -1);
	raw.again = false;
	fd_close(fd);
	return r;
}

/* What stands is no storage that the next server would give. */
static void test_nothing(void)
{
	uint64_t since = now();

	raw_open(&raw, server.socket);
	is_int(WIRE_LOADED, load_nothing("E", "H", false, since),
		"somebody loads nothing");
	raw_close(&raw);
	server_kill(&server);
	raw_open(&raw, server.socket);
	raw.serial = 7000;
	is_int(WIRE_LOADED, load_nothing("E", "H", true, since),
		"nothing is the same by whichever server");
	raw_close(&raw);
}

/* ---- by the library ---------------------------------------------------- */

/* Of a file's one tensor. */
static int load_by_library(tarn_store *store, const char *name)
{
	return tensor_load(store, tensor_file("of-one", 1, 4096), name);
}

static void test_library(void)
{
	int64_t version;

	if (load_by_library(other, "u") < 0)
		bail("%s", tarn_error_message());
	version = version_of("u/x");
	is_int(EIO, slept(&server, load_by_library, "u", "u/x"),
		"who slept while another published is told that it is not "
		"known");
	is_int(version + 1, version_of("u/x"),
		"and what that one has published stands");
	is_int(0, slept(&server, load_by_library, "v", "w"),
		"who is in nobody's way is served");
	is_int(1, version_of("v/x"), "once");
}

/* ---- when there is no room ------------------------------------------- */

/* It is no longer under way when something else is read. */
static int ask(void)
{
	return load_nothing("x", "y", false, 0);
}

static void test_no_room(void)
{
	struct raw half;
	uint64_t since = now();
	uint32_t serial, covered, same;

	is_int(WIRE_LOADED, load("i", "j", false), "another");
	covered = raw.serial;
	cover("i");
	cover("j");
	is_int(WIRE_LOADED, load("F", "G", false), "one more");
	same = raw.serial;
	load("F", "G", false);
	load("F", "G", false);
	is_int(WIRE_LOADED, load("g", "h", false), "loaded");
	serial = raw.serial;
	say_half(&half, server.socket);
	until_refused(ask);
	is_int(EDQUOT, raw.error, "now there is no room for requests");
	raw.serial = serial;
	is_int(WIRE_LOADED, load("g", "h", true),
		"what was done is told of all the same");
	is_int(1, version_of("g"), "and not done again");
	raw.serial = covered;
	is_int(WIRE_ERROR, load_since("i", "j", true, since),
		"what others have displaced is refused");
	is_int(EIO, raw.error, "as what may have been done");
	raw.serial = same;
	is_int(WIRE_ERROR, load_since("F", "G", true, since),
		"what may be the same as what others have loaded");
	is_int(EIO, raw.error, "is refused so, too");
	has_str("\"F\" was published by others", raw.text, "for what it is");
	has_str("quota of requests", raw.text, "and for want of room");
	raw.serial = 2000;
	is_int(WIRE_ERROR, load_since("z", "zz", true, now()), "what was not");
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
	test_covered();
	test_removed();
	test_meanwhile();
	test_at_once();
	test_unread();
	test_same();
	test_no_room();
	unlink(args[1]);
	raw_close(&raw);
	test_nothing();
	unlink(path);
	test_library();
	remove_files();
	tarn_store_unref(other);
	table_unmap(&table);
	is_int(0, daemon_stop(&server), "the daemon ends");
	return done();
}
