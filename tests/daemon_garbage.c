/* SPDX-License-Identifier: MIT */
/*
 * Peers that send nonsense, too much, half of it, or nothing. Each loses its
 * own connection, with a sentence where it can still hear one; an innocent
 * client on the same daemon does not notice.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/checked.h"
#include "tests/raw_client.h"
#include "tests/tap.h"
#include "tests/witness.h"

static struct daemon server;
static struct witness witness;

struct frame {
	struct wire_header header;
	unsigned char body[256];
};

static long send_frame(struct raw *raw, uint16_t type, uint32_t flags,
	uint32_t said, size_t size, const int *fds, int n_fds)
{
	struct frame f = {.header = {.magic = WIRE_MAGIC,
				  .type = type,
				  .flags = flags,
				  .serial = 7,
				  .size = said}};

	return raw_frame(raw, &f, sizeof(f.header) + size, fds, n_fds);
}

/* Refused with a sentence, and closed. */
static void is_refused(struct raw *raw, const char *sentence, const char *what)
{
	int type = raw_hear(raw, RAW_PATIENCE_MS);

	is_int(WIRE_ERROR, type, "%s: refused", what);
	has_str(sentence, raw->text, "%s: told why", what);
	ok(type == 0 || raw_is_closed(raw), "%s: closed", what);
	raw_close(raw);
}

/* ---- frames ------------------------------------------------------------ */

/* From the same numbers every time. */
static void random_bytes(void)
{
	unsigned char bytes[1500];
	int closed = 0;

	srandom(20);
	for (int i = 0; i < 100; i++) {
		struct raw raw;
		size_t n = (size_t)random() % sizeof(bytes) + 1;

		for (size_t k = 0; k < n; k++)
			bytes[k] = (unsigned char)random();
		if (i % 2) /* past the first check */
			memcpy(bytes, (uint16_t[]) {WIRE_MAGIC}, 2);
		raw_connect(&raw, server.socket);
		raw_frame(&raw, bytes, n, NULL, 0);
		closed += raw_is_closed(&raw);
		raw_close(&raw);
	}
	is_int(100, closed, "random bytes end the connection, every time");
}

/* As many bytes as the message has, all of them random: past frames. */
static void random_bodies(void)
{
	unsigned char bytes[sizeof(struct wire_header) + 1024];
	int answered = 0;
	struct raw raw;

	srandom(21);
	for (int i = 0; i < 200; i++) {
		struct wire_header h = {.magic = WIRE_MAGIC,
			.type = (uint16_t)(random() % 9),
			.serial = (uint32_t)i,
			.size = (uint32_t)random() % 128};
		int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

		if (h.type == WIRE_STOP)
			h.type = WIRE_LOAD;
		raw_open(&raw, server.socket);
		for (uint32_t k = 0; k < h.size; k++)
			bytes[sizeof(h) + k] =
				random() % 3 ? 0 : (unsigned char)random();
		memcpy(bytes, &h, sizeof(h));
		raw_frame(&raw, bytes, sizeof(h) + h.size, &fd, i % 2);
		close(fd);
		raw_say(&raw, WIRE_STATUS, NULL, 0, NULL, 0);
		answered += raw_hear(&raw, RAW_PATIENCE_MS) >= 0;
		raw_close(&raw);
	}
	is_int(200, answered, "random bodies are answered, or end it");
}

static void bad_frames(void)
{
	static const struct {
		const char *what, *sentence;
		uint16_t type;
		uint32_t flags, said;
		size_t size;
	} cases[] = {
		{"a frame that says more than it has", "says 100 bytes",
			WIRE_STATUS, 0, 100, 20},
		{"a frame that says less", "says 10 bytes", WIRE_STATUS, 0, 10,
			20},
		{"unknown flags", "unknown flags 0x80", WIRE_STATUS, 0x80, 0,
			0},
		{"an empty frame that promises more", "promises more",
			WIRE_LOAD, WIRE_MORE, 0, 0},
		{"an unknown type", "type 99", 99, 0, 0, 0},
		{"a reply", "type 104", WIRE_LOADED, 0, 48, 48},
		{"a message from inside the daemon", "type 1303", 1303, 0, 8,
			8},
		{"a status with a body", "has 1 bytes", WIRE_STATUS, 0, 1, 1},
		{"a removal of nothing", "has 0 bytes", WIRE_REMOVE, 0, 0, 0},
		{"half a segments request", "has 4 bytes", WIRE_SEGMENTS, 0, 4,
			4},
		{"a load without its head", "has 8 bytes", WIRE_LOAD, 0, 8, 8},
	};
	struct raw raw;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		raw_open(&raw, server.socket);
		send_frame(&raw, cases[i].type, cases[i].flags, cases[i].said,
			cases[i].size, NULL, 0);
		is_refused(&raw, cases[i].sentence, cases[i].what);
	}
	raw_open(&raw, server.socket);
	raw_frame(&raw, "0123456789", 10, NULL, 0);
	is_refused(&raw, "shorter than its header", "a truncated header");
}

static void half_messages(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct raw raw, other;

	raw_open(&raw, server.socket);
	send_frame(&raw, WIRE_LOAD, WIRE_MORE, 200, 200, &fd, 1);
	raw_open(&other, server.socket);
	send_frame(&other, WIRE_LOAD, WIRE_MORE, 200, 200, &fd, 1);
	witness_is_served(&witness, "half a message has come");
	raw_close(&raw);
	send_frame(&other, WIRE_STATUS, 0, 0, 0, NULL, 0);
	is_refused(&other, "before message", "another message in the middle");
	raw_open(&raw, server.socket);
	send_frame(&raw, WIRE_LOAD, WIRE_MORE, 200, 200, NULL, 0);
	send_frame(&raw, WIRE_LOAD, 0, 200, 200, &fd, 1);
	is_refused(&raw, "later frame", "descriptors in a later frame");
	close(fd);
}

static void oversize(void)
{
	static unsigned char bytes[WIRE_FRAME_MAX + 1];
	struct wire_header h = {.magic = WIRE_MAGIC,
		.type = WIRE_LOAD,
		.flags = WIRE_MORE,
		.serial = 9,
		.size = WIRE_FRAME_MAX - sizeof(struct wire_header)};
	struct raw raw;
	long sent = 0;

	raw_open(&raw, server.socket);
	memcpy(bytes, &h, sizeof(h));
	/* It stops reading at the limit, and we notice by EPIPE. */
	for (int i = 0; i < 1100 && sent >= 0; i++)
		sent = raw_frame(&raw, bytes, WIRE_FRAME_MAX, NULL, 0);
	is_refused(&raw, "67108864 are allowed", "a load of more than 64 MiB");
	raw_open(&raw, server.socket);
	h.size = sizeof(bytes) - sizeof(h);
	memcpy(bytes, &h, sizeof(h));
	raw_frame(&raw, bytes, sizeof(bytes), NULL, 0);
	is_refused(&raw, "longer than the 65536", "a frame beyond the limit");
	raw_open(&raw, server.socket);
	h.type = WIRE_REMOVE;
	h.flags = 0;
	h.size = 1025;
	memcpy(bytes, &h, sizeof(h));
	raw_frame(&raw, bytes, sizeof(h) + 1025, NULL, 0);
	is_refused(&raw, "1024 are allowed", "a name of 1025 bytes");
}

static void too_many_descriptors(void)
{
	static const int counts[] = {65, 80, 81, 253};
	int fds[253];

	for (int i = 0; i < 253; i++)
		fds[i] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		struct raw raw;
		char what[40];

		snprintf(what, sizeof(what), "%d descriptors", counts[i]);
		raw_open(&raw, server.socket);
		send_frame(&raw, WIRE_STATUS, 0, 0, 0, fds, counts[i]);
		is_refused(&raw, "more than 64 descriptors", what);
	}
}

/* Those that no message wants are closed. */
static void unwanted_descriptors(void)
{
	int fds[64] = {0}, answered = 0;
	struct raw raw;

	raw_open(&raw, server.socket);
	for (int i = 0; i < 50; i++) {
		send_frame(&raw, WIRE_STATUS, 0, 0, 0, fds, 64);
		answered += raw_hear(&raw, RAW_PATIENCE_MS) == WIRE_STATUS_IS;
	}
	is_int(50, answered, "unwanted descriptors do not hurt");
	raw_close(&raw);
}

/* ---- the order of things ------------------------------------------------ */

static void greetings(void)
{
	struct msg_hello hello = {.version = 0};
	struct raw raw;

	raw_connect(&raw, server.socket);
	raw_say(&raw, WIRE_HELLO, &hello, sizeof(hello), NULL, 0);
	is_refused(&raw, "use the same tarn", "a client that is too old");
	hello = (struct msg_hello) {.version = 90, .version_min = 80};
	raw_connect(&raw, server.socket);
	raw_say(&raw, WIRE_HELLO, &hello, sizeof(hello), NULL, 0);
	is_refused(&raw, "speaks protocol 80 to 90", "one that is too new");
	hello = (struct msg_hello) {.version = 90, .version_min = 1};
	raw_connect(&raw, server.socket);
	raw_say(&raw, WIRE_HELLO, &hello, sizeof(hello), NULL, 0);
	is_int(WIRE_WELCOME, raw_hear(&raw, RAW_PATIENCE_MS),
		"a newer one "
		"that speaks the old too is welcome");
	is_int(PROTOCOL_VERSION, raw.welcome.version, "in this version");
	raw_say(&raw, WIRE_HELLO, &hello, sizeof(hello), NULL, 0);
	is_refused(&raw, "second hello", "a second hello");
	for (uint16_t type = WIRE_SEGMENTS; type <= WIRE_STOP; type++) {
		static const unsigned char body[16];
		static const uint32_t sizes[] = {8, 16, 8, 5, 16, 0, 0};

		raw_connect(&raw, server.socket);
		raw_say(&raw, type, body, sizes[type - WIRE_SEGMENTS], NULL, 0);
		is_refused(&raw, "before a hello", "no hello");
	}
}

/* Names and numbers that are nobody's are not worth a connection. */
static void nobodys(void)
{
	struct msg_cancel cancel = {.serial = 12345};
	struct msg_released released = {.index = ~0u, .generation = ~0ull};
	struct msg_segments segments = {.first = ~0u, .count = ~0u};
	struct raw raw;

	raw_open(&raw, server.socket);
	raw_say(&raw, WIRE_CANCEL, &cancel, sizeof(cancel), NULL, 0);
	for (uint32_t i = 0; i < 100; i++) {
		raw_say(&raw, WIRE_RELEASED, &released, sizeof(released), NULL,
			0);
		released = (struct msg_released) {.index = i, .generation = i};
	}
	raw_say(&raw, WIRE_SEGMENTS, &segments, sizeof(segments), NULL, 0);
	is_int(WIRE_SEGMENT_FDS, raw_hear(&raw, RAW_PATIENCE_MS),
		"segments that are not there");
	is_int(0, raw.n_fds, "none come");
	raw_say(&raw, WIRE_REMOVE, "\xff\xfe", 2, NULL, 0);
	is_int(WIRE_ERROR, raw_hear(&raw, RAW_PATIENCE_MS),
		"a name that is no UTF-8");
	is_int(EINVAL, raw.error, "EINVAL");
	raw_say(&raw, WIRE_REMOVE, "nobody", 6, NULL, 0);
	is_int(WIRE_ERROR, raw_hear(&raw, RAW_PATIENCE_MS), "an unknown name");
	is_int(ENOENT, raw.error, "ENOENT");
	raw_close(&raw);
}

/* ---- those who do not listen -------------------------------------------- */

static void never_reads(void)
{
	double end = seconds() + 60; /* 4 MiB of replies, on a busy machine */
	struct raw raw;
	int i = 0, err = 0;

	raw_open(&raw, server.socket);
	fcntl(raw.fd, F_SETFL, O_NONBLOCK);
	while (i < 60000 && seconds() < end) {
		long r = send_frame(&raw, WIRE_STATUS, 0, 0, 0, NULL, 0);

		err = r < 0 ? errno : 0;
		if (r < 0 && err != EAGAIN)
			break;
		if (r < 0)
			usleep(100);
		else if (++i == 1000)
			witness_is_served(&witness, "one does not read");
	}
	/* The first call that fails says that something was not read. */
	if (!ok(err == EPIPE || err == ECONNRESET,
		    "who does not read is dropped"))
		diag("after %d requests: error %d", i, err);
	raw_close(&raw);
}

static void hangs(void)
{
	struct raw raw[20];

	for (size_t i = 0; i < ARRAY_SIZE(raw); i++)
		raw_connect(&raw[i], server.socket);
	witness_is_served(&witness, "twenty are connected and say nothing");
	for (size_t i = 0; i < ARRAY_SIZE(raw); i++)
		raw_close(&raw[i]);
}

static void comes_and_goes(void)
{
	for (int i = 0; i < 500; i++) {
		struct raw raw;

		raw_connect(&raw, server.socket);
		raw_close(&raw);
	}
	witness_is_served(&witness, "500 came and went");
}

int main(void)
{
	const char *const args[] = {"--idle", "1", NULL};

	daemon_start(&server, "s", args);
	witness_begin(&witness, &server);
	random_bytes();
	random_bodies();
	bad_frames();
	half_messages();
	oversize();
	too_many_descriptors();
	unwanted_descriptors();
	greetings();
	nobodys();
	witness_compare(&witness);
	never_reads();
	hangs();
	comes_and_goes();
	witness_can_load(&witness, "after all that");
	witness_end(&witness);
	is_int(0, daemon_stop(&server), "the daemon ends in peace");
	remove_files();
	return done();
}
