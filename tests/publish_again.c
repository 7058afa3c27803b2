/* SPDX-License-Identifier: MIT */
/*
 * A publication that is said again, as to a server that took over: it is done
 * once. What is found in the table is answered from there; what others may
 * have displaced or removed since is refused, since nobody can tell whether
 * it was done, unless they have published the same; what nobody has touched is
 * done. All that comes before anything that may refuse for want of room.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/again_kit.h"
#include "tests/daemon_helper.h"
#include "tests/tap.h"

static struct daemon server;

/* One byte under a name. */
static size_t write_down(unsigned char *body, const char *name, uint64_t since)
{
	struct {
		struct msg_publish head;
		struct msg_source source;
		struct msg_name name;
		int64_t shape, stride;
		char text[8];
		unsigned char bytes[8];
	} m = {
		.head = {.n_sources = 1, .n_names = 1, .since = since},
		.source = {.kind = SOURCE_BYTES, .size = 1},
		.name = {.name_size = (uint16_t)strlen(name),
			.dtype = TARN_U8,
			.ndim = 1},
		.shape = 1,
		.stride = 1,
		.bytes = {42},
	};

	memcpy(m.text, name, strlen(name));
	memcpy(body, &m, sizeof(m));
	return sizeof(m);
}

/* The answer to a publication under that serial, said again or not. */
static int answer(const char *name, uint32_t serial, uint64_t since, bool again)
{
	unsigned char body[256];
	size_t size = write_down(body, name, since);

	return answer_to(WIRE_PUBLISH, serial, body, size, again);
}

static void refused(const char *name, uint32_t serial, uint64_t since)
{
	int64_t version = version_of(name);

	is_int(WIRE_ERROR, answer(name, serial, since, true), "it is refused");
	is_int(EIO, raw.error, "for nobody can tell");
	has_str(name, raw.text, "by name");
	is_int(version, version_of(name), "and nothing happens");
}

static void test_found(void)
{
	is_int(WIRE_PUBLISHED, answer("a", 100, now(), false), "published");
	is_int(1, version_of("a"), "as the first version");
	is_int(WIRE_PUBLISHED, answer("a", 100, now() - 1, true), "and again");
	is_int(1, version_of("a"), "which is the first version still");
	publish("a");
	is_int(WIRE_PUBLISHED, answer("a", 100, now() - 2, true),
		"when another has come since, it is found too");
	is_int(2, version_of("a"), "and the other stands");
}

static void test_displaced(void)
{
	uint64_t since = now();

	is_int(WIRE_PUBLISHED, answer("b", 101, since, false), "published");
	publish("b");
	publish("b");
	diag("two others have come since");
	refused("b", 101, since);
}

static void test_removed(void)
{
	uint64_t since = now();

	is_int(WIRE_PUBLISHED, answer("c", 102, since, false), "published");
	if (tarn_store_remove(other, "c") < 0)
		bail("%s", tarn_error_message());
	diag("it was removed since");
	refused("c", 102, since);
}

static void test_lost(void)
{
	uint64_t since = now();

	publish("x");
	is_int(WIRE_PUBLISHED, answer("d", 103, since, true),
		"what the dead one never read is done, whatever others did");
	is_int(1, version_of("d"), "once");
	is_int(WIRE_PUBLISHED, answer("b", 104, now(), true),
		"also under a name that stands");
	is_int(4, version_of("b"), "as its next version");
}

/* ---- when there is no room ------------------------------------------- */

static int ask(void)
{
	static uint32_t serial = 300;

	return answer("f", serial++, now(), false);
}

static void test_no_room(void)
{
	struct raw half;
	uint64_t since = now();

	is_int(WIRE_PUBLISHED, answer("e", 105, since, false), "published");
	is_int(WIRE_PUBLISHED, answer("g", 106, since, false), "another");
	publish("g");
	publish("g");
	say_half(&half, server.socket);
	until_refused(ask);
	is_int(EDQUOT, raw.error, "now there is no room for requests");
	is_int(WIRE_PUBLISHED, answer("e", 105, since, true),
		"what was done is told of all the same");
	is_int(1, version_of("e"), "and not done again");
	is_int(WIRE_ERROR, answer("g", 106, since, true),
		"what others have displaced is refused");
	is_int(EIO, raw.error, "as what may have been done");
	is_int(WIRE_ERROR, answer("h", 107, now(), true), "what was not");
	is_int(EDQUOT, raw.error, "may ask once more");
	raw_close(&half);
}

/* ---- by the library ---------------------------------------------------- */

/* What many publish under the same names, as who loads all shards of an index
 * does when it has them: here a tensor that is there already, as NAME. */
static tarn_tensor *held;
static const char *replace;

static int hold(tarn_store *store, const char *name)
{
	(void)name;
	return tarn_store_get(store, "there", &held);
}

static int publish_held(tarn_store *store, const char *name)
{
	struct tarn_publish_options options = {.replace = replace};
	struct tarn_publish_item item = {.name = name, .tensor = held};

	return tarn_store_publish(store, &item, 1, &options, NULL);
}

static int slept_over(const char *name, bool same, const char *another)
{
	struct sleeper s;

	sleeper_begin(&s, &server, hold, publish_held, name);
	sleeper_crash(&s, &server);
	if (same && publish_held(other, name) < 0)
		bail("%s", tarn_error_message());
	if (another)
		publish(another);
	return sleeper_end(&s);
}

static void test_library(void)
{
	publish("there");
	if (hold(other, NULL) < 0)
		bail("%s", tarn_error_message());
	is_int(0, slept_over("i", true, NULL),
		"what many publish under one name is no doubt");
	is_int(1, version_of("i"), "and is not published again");
	is_int(EIO, slept_over("j", true, "j"), "if it is what stands");
	is_int(2, version_of("j"), "which something else does");
	replace = "p/";
	is_int(EIO, slept_over("p/i", true, "p/j"),
		"nor if others would go with it");
	is_int(1, version_of("p/j"), "who stand");
	replace = NULL;
	is_int(0, slept_over("k", false, NULL), "without others it is done");
	is_int(1, version_of("k"), "once");
	tarn_tensor_unref(held);
}

int main(void)
{
	const char *args[] = {"--config", NULL, NULL};

	args[1] = little_room();
	daemon_start(&server, "sock", args);
	raw_open(&raw, server.socket);
	if (table_map(raw.table, false, &table) < 0 ||
		tarn_store_open(server.socket, &other) < 0)
		bail("%s", tarn_error_message());
	test_found();
	test_displaced();
	test_removed();
	test_lost();
	test_no_room();
	raw_close(&raw);
	test_library();
	tarn_store_unref(other);
	table_unmap(&table);
	is_int(0, daemon_stop(&server), "the daemon ends well");
	remove(args[1]);
	return done();
}
