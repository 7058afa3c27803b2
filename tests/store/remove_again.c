/* SPDX-License-Identifier: MIT */
/*
 * A removal that is sent again to a server that took over removes nothing that
 * others have published since: 1. a name is removed, and the server dies
 * before its answer is in the socket; 2. another client publishes under the
 * same name; 3. the client sends its request again, and is answered. The same
 * holds for removals of a prefix. A removal that was not done is done.
 */
#include <errno.h>
#include <string.h>

#include <tarn/tarn.h>

#include "tests/kit/again.h"
#include "tests/kit/report.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"

static struct daemon daemon_;

static bool stands(const char *name)
{
	return version_of(name) >= 0;
}

static int take(const char *name, uint32_t serial, bool again)
{
	return answer_to(WIRE_REMOVE, serial, name, strlen(name), again);
}

struct below {
	struct msg_publish head;
	char prefix[8];
};

static struct below below(const char *prefix)
{
	struct below m = {.head = {.prefix_size = (uint32_t)strlen(prefix),
				  .flags = PUBLISH_REPLACE}};

	memcpy(m.prefix, prefix, strlen(prefix));
	return m;
}

static int take_below(const char *prefix, uint32_t serial, bool again)
{
	struct below m = below(prefix);

	return answer_to(WIRE_PUBLISH, serial, &m, sizeof(m), again);
}

static void test_name(void)
{
	publish("a");
	fill_socket();
	request(WIRE_REMOVE, 1000, "a", 1, false);
	until_version("a", -ENOENT);
	change_server(&daemon_);
	publish("a");
	is_int(WIRE_DONE, take("a", 1000, true),
		"the next server answers a completed removal");
	ok(stands("a"),
		"a publication after a completed removal stays in place");
	until_completions(0);
	change_server(&daemon_);
	is_int(WIRE_DONE, take("a", 1001, true),
		"a removal without completion is done");
	ok(!stands("a"), "the name is gone after the removal was sent again");
	is_int(WIRE_ERROR, take("a", 1002, true),
		"a removal of a missing name fails, also when repeated");
	is_int(ENOENT, raw.error,
		"the repeated removal fails with the same error");
	until_completions(0);
}

static void test_prefix(void)
{
	struct below m = below("p/");

	publish("p/a");
	publish("p/b");
	fill_socket();
	request(WIRE_PUBLISH, 2000, &m, sizeof(m), false);
	until_version("p/b", -ENOENT);
	change_server(&daemon_);
	publish("p/b");
	is_int(WIRE_PUBLISHED, take_below("p/", 2000, true),
		"the next server answers a completed removal of a prefix");
	ok(stands("p/b"),
		"publications below the removed prefix stay in place");
	until_completions(0);
	is_int(WIRE_PUBLISHED, take_below("p/", 2001, true),
		"a removal of a prefix without completion is done");
	ok(!stands("p/b"), "no name is left below the prefix");
}

/* With NULs where they are not expected. */
static void test_rubbish(void)
{
	static const char bodies[][12] = {"", "\0bcdefghij", "abc\0defghij"};

	for (size_t i = 0; i < 3; i++) {
		is_int(WIRE_ERROR,
			answer_to(WIRE_REMOVE, 3000, bodies[i], 11, i & 1),
			"a name with a NUL is malformed");
		is_int(EINVAL, raw.error,
			"a removal of a name with a NUL in it is refused");
	}
}

/* A client whose answer waits for room in its socket is not heard, and so has
 * nothing else done; once it has read, it is. */
static void test_unread(void)
{
	struct tarn_report_daemon status;

	publish("q/1");
	publish("q/2");
	fill_socket();
	request(WIRE_REMOVE, 10000, "q/1", 3, false);
	until_version("q/1", -ENOENT);
	request(WIRE_REMOVE, 10001, "q/2", 3, false);
	/* In each of which the server has a turn. */
	for (int i = 0; i < 10; i++)
		if (report_daemon(other, &status) < 0)
			bail("status: %s", tarn_error_message());
	ok(stands("q/2"),
		"a client that does not read its answers is not read either");
	until_completions(1);
	for (int i = 0; i < 2; i++) {
		int type;

		while ((type = raw_answer(&raw)) == WIRE_PONG)
			;
		is_int(WIRE_DONE, type,
			"answer %d arrives when the client reads", i);
	}
	ok(!stands("q/2"), "the client's removals are done");
	until_completions(0);
}

/* ---- by the library ---------------------------------------------------- */

static void test_library(void)
{
	publish("y");
	is_int(0, slept(&daemon_, tarn_store_remove, "y", "y"),
		"a removal that the dead server never read is done after a "
		"publication by others");
	ok(!stands("y"), "the name is gone after the next server removed it");
	until_completions(0);
}

int main(void)
{
	daemon_start(&daemon_, "sock", NULL);
	again_open(&daemon_);
	test_name();
	test_prefix();
	test_rubbish();
	test_unread();
	test_library();
	again_close();
	is_int(0, daemon_stop(&daemon_), "the daemon ends without an error");
	return done(23);
}
