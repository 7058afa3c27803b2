/* SPDX-License-Identifier: MIT */
/*
 * Messages out of place: requests marked as sent again that were not, or that
 * belong to another client; a resumption of what was not interrupted; a second
 * hello; names of pools that do not exist. None of them gives anything that a
 * plain request would not have given.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "tests/kit/must.h"
#include "tests/kit/publish_msg.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define NAME "said/again"

static struct daemon server;
static struct witness witness;

struct frame {
	struct wire_header header;
	unsigned char body[PUBLISH_MSG_MAX - sizeof(struct wire_header)];
};

/* A message as it was, flagged; the type of the answer. */
static int send_again(struct raw *raw, uint16_t type, uint32_t serial,
	const void *body, size_t size)
{
	static struct frame f;

	f.header = (struct wire_header) {.magic = WIRE_MAGIC,
		.type = type,
		.flags = WIRE_AGAIN,
		.serial = serial,
		.size = (uint32_t)size};
	memcpy(f.body, body, size);
	raw->error = 0;
	raw->text[0] = '\0';
	raw_frame(raw, &f, sizeof(f.header) + size, NULL, 0);
	return raw_answer(raw);
}

static uint64_t version(void)
{
	uint64_t v = 0;

	must(tarn_store_version(witness.store, NAME, &v));
	return v;
}

static struct publish_msg some_bytes(void)
{
	struct publish_msg p = {.n_bytes = 64};

	publish_msg_source(&p, SOURCE_BYTES, 64);
	publish_msg_name(&p, NAME, 0, 0, 64, 1);
	return p;
}

/* What another has published under a serial is not mine to have published. */
static void another_ones_serial(void)
{
	static unsigned char body[PUBLISH_MSG_MAX];
	struct publish_msg p = some_bytes();
	size_t size = publish_msg_write(&p, body);
	struct raw raws[2];
	uint64_t before;
	int type;

	raw_open(&raws[0], server.socket);
	raw_open(&raws[1], server.socket);
	is_int(WIRE_PUBLISHED, publish_msg_answer(&p, &raws[0]),
		"a client publishes");
	before = version();
	type = send_again(&raws[1], WIRE_PUBLISH, raws[0].serial, body, size);
	ok(type == WIRE_ERROR || version() == before + 1,
		"a client is not answered with another's completion");
	before = version();
	is_int(WIRE_PUBLISHED, publish_msg_answer(&p, &raws[0]),
		"the client whose serial was used publishes again");
	is_int((int64_t)before + 1, (int64_t)version(),
		"the other client's publication raises the version by one");
	/* The same serial, said to be new: it is new. */
	raws[0].serial--;
	is_int(WIRE_PUBLISHED, publish_msg_answer(&p, &raws[0]),
		"a serial that was used before is accepted");
	is_int((int64_t)before + 2, (int64_t)version(),
		"a serial that was used before publishes a new version");
	raw_close(&raws[0]);
	raw_close(&raws[1]);
	witness_is_served(&witness, "serials are forged");
}

static void other_requests_again(void)
{
	struct raw raw;

	raw_open(&raw, server.socket);
	is_int(WIRE_DONE, send_again(&raw, WIRE_REMOVE, 5, NAME, strlen(NAME)),
		"a removal that is falsely marked as sent again");
	is_int(WIRE_ERROR, send_again(&raw, WIRE_REMOVE, 5, NAME, strlen(NAME)),
		"an answered removal that is sent again finds no name");
	is_int(ENOENT, raw.error,
		"the error of the repeated removal is ENOENT");
	is_int(WIRE_ERROR, send_again(&raw, WIRE_REMOVE, 6, "a\nb", 3),
		"a malformed name is refused, also in a repeated removal");
	is_int(WIRE_PONG, send_again(&raw, WIRE_PING, 7, "", 0),
		"a question that is sent again is answered");
	raw_send(&raw, WIRE_RESENT, NULL, 0, NULL, 0);
	is_int(WIRE_PONG, send_again(&raw, WIRE_PING, 8, "", 0),
		"a client that resends nothing may end its resume");
	raw_close(&raw);
}

static void ends(struct raw *raw, const char *part, const char *what)
{
	is_int(WIRE_ERROR, raw_answer(raw), "a message is refused: %s", what);
	has_str(part, raw->text, "the error contains the reason");
	ok(raw_is_closed(raw), "the connection ends after the error");
	raw_close(raw);
}

static void resume_nothing(void)
{
	struct msg_restarted m = {.restarts = 7};
	struct raw raw;

	raw_open(&raw, server.socket);
	raw_send(&raw, WIRE_RESUME, &m, sizeof(m), NULL, 0);
	ends(&raw, "not interrupted", "a resumption of nothing");
	raw_connect(&raw, server.socket);
	raw_send(&raw, WIRE_RESUME, &m, sizeof(m), NULL, 0);
	ends(&raw, "before a hello", "one before a hello");
}

/* ---- hellos ------------------------------------------------------------ */

static void greet(struct raw *raw, const char *pool, size_t size)
{
	struct {
		struct msg_hello head;
		char pool[64];
	} hello = {.head = {.version = PROTOCOL_VERSION,
			   .version_min = PROTOCOL_OLDEST}};

	memcpy(hello.pool, pool, size);
	raw_connect(raw, server.socket);
	raw_send(raw, WIRE_HELLO, &hello, sizeof(hello.head) + size, NULL, 0);
}

static void odd_pools(void)
{
	static const char many[64] = "a pool whose name is far too long for it";
	static const struct {
		const char *what, *name;
		size_t size;
	} cases[] = {
		{"a pool that is not there", "models", 6},
		{"one of a single byte", "x", 1},
		{"a name with a NUL", "a\0b", 3},
		{"only a NUL", "\0", 1},
		{"what is no UTF-8", "\xff\xfe", 2},
		{"a name of 32 bytes", many, 32},
		{"one of 33", many, 33},
		{"one of 64", many, 64},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct raw raw;

		greet(&raw, cases[i].name, cases[i].size);
		is_int(WIRE_ERROR, raw_answer(&raw),
			"a hello gets no welcome: %s", cases[i].what);
		is_int(-1, raw.table, "a refused hello gets no control region");
		raw_close(&raw);
	}
	witness_is_served(&witness, "pools that are none");
}

static void twice(void)
{
	struct msg_hello hello = {
		.version = PROTOCOL_VERSION, .version_min = PROTOCOL_OLDEST};
	struct raw raw;

	raw_open(&raw, server.socket);
	raw_send(&raw, WIRE_HELLO, &hello, sizeof(hello), NULL, 0);
	ends(&raw, "second hello", "a second hello");
	/* Said again it is answered again: the first answer may be lost. */
	raw_open(&raw, server.socket);
	is_int(WIRE_WELCOME,
		send_again(&raw, WIRE_HELLO, 9, &hello, sizeof(hello)),
		"a second hello marked as sent again is answered");
	raw_close(&raw);
}

int main(void)
{
	const char *const args[] = {"--idle", "1", NULL};

	daemon_start(&server, "s", args);
	witness_begin(&witness, &server);
	another_ones_serial();
	other_requests_again();
	resume_nothing();
	odd_pools();
	twice();
	witness_can_load(&witness, "after all that");
	witness_end(&witness);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	remove_files();
	return done(50);
}
