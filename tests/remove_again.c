/* SPDX-License-Identifier: MIT */
/*
 * A removal that is said again, as to a server that took over, takes nothing
 * that others have published since: 1. a name is removed, and the server dies
 * before it answers; 2. somebody publishes under the same name; 3. who removed
 * it is told of the next server, and asks again. So with all that lies below a
 * prefix. What stood before it was first asked goes; so does what an old
 * client, who does not say since when, asks for.
 */
#include <errno.h>
#include <string.h>

#include <tarn/tarn.h>

#include "tests/again_kit.h"
#include "tests/restart_kit.h"
#include "tests/tap.h"

static struct daemon daemon_;

static bool stands(const char *name)
{
	return version_of(name) >= 0;
}

/* since 0: as an old client says it. */
static int take(const char *name, uint32_t serial, uint64_t since, bool again)
{
	unsigned char body[64] = {0};
	size_t size = strlen(name);

	memcpy(body, name, size);
	memcpy(body + size + 1, &since, sizeof(since));
	return answer_to(WIRE_REMOVE, serial, body,
		since ? size + REMOVE_SINCE_SIZE : size, again);
}

static int take_below(
	const char *prefix, uint32_t serial, uint64_t since, bool again)
{
	struct {
		struct msg_publish head;
		char prefix[8];
	} m = {.head = {.prefix_size = (uint32_t)strlen(prefix),
		       .flags = PUBLISH_REPLACE,
		       .since = since}};

	memcpy(m.prefix, prefix, strlen(prefix));
	return answer_to(WIRE_PUBLISH, serial, &m, sizeof(m), again);
}

static void test_name(void)
{
	uint64_t since;

	publish("a");
	since = now();
	is_int(WIRE_DONE, take("a", 100, since, false), "a name is removed");
	is_int(WIRE_DONE, take("a", 100, since, true),
		"and again, when there is nothing");
	publish("a");
	is_int(WIRE_ERROR, take("a", 100, since, true),
		"and again, when somebody has published it");
	is_int(EIO, raw.error, "which is refused, for nobody can tell");
	has_str("\"a\"", raw.text, "by name");
	ok(stands("a"), "so that what he has published stands");
	is_int(WIRE_DONE, take("a", 101, now(), true),
		"what stood before it was asked goes, as the dead one would "
		"have done it");
	ok(!stands("a"), "and is gone");
	publish("a");
	is_int(WIRE_DONE, take("a", 102, 0, true), "an old client is served");
	ok(!stands("a"), "as he was");
}

static void test_prefix(void)
{
	uint64_t since;

	publish("p/a");
	publish("p/b");
	since = now();
	is_int(WIRE_PUBLISHED, take_below("p/", 200, since, false),
		"all below a prefix is removed");
	is_int(WIRE_PUBLISHED, take_below("p/", 200, since, true),
		"and again, when there is nothing");
	publish("p/b");
	is_int(WIRE_ERROR, take_below("p/", 200, since, true),
		"and again, when somebody has published there");
	is_int(EIO, raw.error, "which is refused, for nobody can tell");
	has_str("\"p/\"", raw.text, "by its prefix");
	ok(stands("p/b"), "so that what he has published stands");
	since = now();
	publish("p/a");
	is_int(WIRE_PUBLISHED, take_below("p/", 201, since, true),
		"what was not done, as the older name there says, is done");
	ok(!stands("p/a") && !stands("p/b"), "of all that is there");
	publish("p/a");
	is_int(WIRE_PUBLISHED, take_below("p/", 202, 0, true),
		"an old client is served");
	ok(!stands("p/a"), "as he was");
}

/* With NULs where they are not expected. */
static void test_rubbish(void)
{
	static const char bodies[][12] = {"", "\0bcdefghij", "abc\0defghij"};

	for (size_t i = 0; i < 3; i++) {
		is_int(WIRE_ERROR,
			answer_to(WIRE_REMOVE, 300, bodies[i], 11, i & 1),
			"a name with a NUL in its middle is none");
		is_int(EINVAL, raw.error, "and is refused");
	}
}

/* ---- by the library ---------------------------------------------------- */

static void test_library(void)
{
	publish("y");
	is_int(EIO, slept(&daemon_, tarn_store_remove, "y", "y"),
		"who slept while another published is told that it is not "
		"known");
	ok(stands("y"), "and what that one has published stands");
}

int main(void)
{
	daemon_start(&daemon_, "sock", NULL);
	raw_open(&raw, daemon_.socket);
	if (table_map(raw.table, false, &table) < 0 ||
		tarn_store_open(daemon_.socket, &other) < 0)
		bail("%s", tarn_error_message());
	ok(raw.welcome.flags & WELCOME_SINCE, "a daemon says what it takes");
	test_name();
	test_prefix();
	test_rubbish();
	raw_close(&raw);
	test_library();
	tarn_store_unref(other);
	table_unmap(&table);
	is_int(0, daemon_stop(&daemon_), "the daemon ends well");
	return done();
}
