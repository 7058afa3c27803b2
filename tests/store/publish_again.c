/* SPDX-License-Identifier: MIT */
/*
 * A publication that is sent again to a server that took over is done exactly
 * once: 1. it is done, and the server dies before its answer is in the socket;
 * 2. others publish over it, or remove it; 3. the client sends it again. The
 * next server finds its completion, answers, and changes nothing. Without a
 * completion it was not done, and is done now, whatever others did.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/kit/again.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/tap.h"

static struct daemon server;

/* One byte under a name. */
static size_t write_down(unsigned char *body, const char *name, uint32_t flags)
{
	struct {
		struct msg_publish head;
		struct msg_source source;
		struct msg_name name;
		int64_t shape, stride;
		char text[8];
		unsigned char bytes[8];
	} m = {
		.head = {.n_sources = 1, .n_names = 1, .flags = flags},
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

static int answer_with(
	const char *name, uint32_t serial, uint32_t flags, bool again)
{
	unsigned char body[256];
	size_t size = write_down(body, name, flags);

	return answer_to(WIRE_PUBLISH, serial, body, size, again);
}

static int answer(const char *name, uint32_t serial, bool again)
{
	return answer_with(name, serial, 0, again);
}

/* It is done, and the answer is lost with its server. */
static void lose_answer(const char *name, uint32_t serial, uint32_t flags)
{
	unsigned char body[256];
	size_t size = write_down(body, name, flags);

	fill_socket();
	request(WIRE_PUBLISH, serial, body, size, false);
	until_version(name, 1);
	change_server(&server);
	until_completions(1);
}

static void answered(const char *name, uint32_t serial)
{
	is_int(WIRE_PUBLISHED, answer(name, serial, true),
		"the next server answers the publication of %s", name);
	until_completions(0);
}

/* ---- it was done ------------------------------------------------------- */

static void test_stands(void)
{
	lose_answer("a", 1000, 0);
	answered("a", 1000);
	is_int(1, version_of("a"), "a completed publication is not done again");
	is_int(1, (int64_t)raw.published.version, "the answer has the version");
	is_int(1, (int64_t)raw.published.stored.size,
		"the answer has the size of the storage");
}

static void test_displaced(void)
{
	lose_answer("b", 2000, 0);
	publish("b");
	publish("b");
	answered("b", 2000);
	is_int(3, version_of("b"),
		"publications by two other clients stay in place");
	is_int(0, (int64_t)raw.published.version,
		"the version of a publication displaced twice is unknown");
}

static void test_removed(void)
{
	lose_answer("c", 3000, 0);
	take_away("c");
	answered("c", 3000);
	is_int(-ENOENT, version_of("c"),
		"a name that another client removed stays removed");
}

static void test_new(void)
{
	lose_answer("d", 4000, PUBLISH_NEW);
	is_int(WIRE_PUBLISHED, answer_with("d", 4000, PUBLISH_NEW, true),
		"a name that had to be new does not conflict with itself");
	until_completions(0);
}

static void test_two_deaths(void)
{
	lose_answer("e", 5000, 0);
	change_server(&server);
	until_completions(1);
	publish("e");
	answered("e", 5000);
	is_int(2, version_of("e"),
		"a publication is done once over two deaths");
}

/* ---- it was not done --------------------------------------------------- */

static void test_not_done(void)
{
	change_server(&server);
	publish("f");
	is_int(WIRE_PUBLISHED, answer("f", 6000, true),
		"a publication without completion is done after others' "
		"changes");
	is_int(2, version_of("f"),
		"a publication without completion is done once");
	until_completions(0);
}

/* ---- completions end ---------------------------------------------------- */

static void test_resent(void)
{
	lose_answer("g", 7000, 0);
	send_resent();
	until_completions(0);
	ok(true, "completions that the client does not send again are dropped");
}

static void test_left(void)
{
	lose_answer("h", 8000, 0);
	raw_close(&raw);
	until_completions(0);
	ok(true, "the completions of a client are dropped with it");
	raw_open(&raw, server.socket);
}

/* ---- when there is no room ------------------------------------------- */

static void test_no_room(void)
{
	struct raw busy;

	lose_answer("j", 9000, 0);
	take_room(&busy, &server);
	answered("j", 9000);
	is_int(WIRE_ERROR, answer("k", 9001, true),
		"a publication without completion may fail the second time");
	is_int(EDQUOT, raw.error,
		"a publication that does not fit is refused by the next "
		"server");
	give_room(&busy, &server);
}

/* ---- by the library ---------------------------------------------------- */

static int publish_one(tarn_store *store, const char *name)
{
	const int64_t shape[] = {1};
	struct tarn_publish_item item = {.name = name};
	uint64_t version = 0;
	int r = tarn_store_create(store, TARN_F32, 1, shape, 0, &item.tensor);

	if (r == 0)
		r = tarn_store_publish(store, &item, 1, NULL, &version);
	tarn_tensor_unref(item.tensor);
	return r < 0 ? r : -(int)version;
}

static void test_library(void)
{
	is_int(2, slept(&server, publish_one, "l", "l"),
		"a publication that the dead server never read is done after "
		"another");
	is_int(2, version_of("l"),
		"a publication that the dead server never read is done once");
	until_completions(0);
}

int main(void)
{
	const char *args[] = {"--segment-size", "64M", "--config", NULL, NULL};

	args[3] = little_room();
	daemon_start(&server, "sock", args);
	again_open(&server);
	test_stands();
	test_displaced();
	test_removed();
	test_new();
	test_two_deaths();
	test_not_done();
	test_resent();
	test_left();
	test_no_room();
	test_library();
	again_close();
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	remove(args[3]);
	return done(22);
}
