/* SPDX-License-Identifier: MIT */
/*
 * Peers that send malformed messages, too many, half of one, or none. Each
 * loses its own connection, with an error where it can still receive one; an
 * innocent client of the same daemon does not notice.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/checked.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

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
	int type = raw_receive(raw, RAW_PATIENCE_MS);

	is_int(WIRE_ERROR, type, "%s: the message is refused", what);
	has_str(sentence, raw->text, "%s: the error says why", what);
	ok(type == 0 || raw_is_closed(raw), "%s: the connection is closed",
		what);
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
	is_int(100, closed, "random bytes end the connection each time");
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
		raw_send(&raw, WIRE_PING, NULL, 0, NULL, 0);
		answered += raw_receive(&raw, RAW_PATIENCE_MS) >= 0;
		raw_close(&raw);
	}
	is_int(200, answered,
		"random bodies are answered or end the connection");
}

static void bad_frames(void)
{
	static const struct {
		const char *what, *sentence;
		uint16_t type;
		uint32_t flags, said;
		size_t size;
	} cases[] = {
		{"a message that says more than it has", "a body of 100 bytes",
			WIRE_PING, 0, 100, 20},
		{"a message that says less", "a body of 10 bytes", WIRE_PING, 0,
			10, 20},
		{"unknown flags", "unknown flags 0x80", WIRE_PING, 0x80, 0, 0},
		{"a long body that is nowhere", "has 0 descriptors", WIRE_LOAD,
			WIRE_LONG, 200, 0},
		{"a long body that is there twice", "besides its memfd",
			WIRE_LOAD, WIRE_LONG, 200, 200},
		{"an unknown type", "type 99", 99, 0, 0, 0},
		{"a reply", "type 104", WIRE_LOADED, 0, 48, 48},
		{"a message from inside the daemon", "type 1303", 1303, 0, 8,
			8},
		{"a ping with a body", "has 1 bytes", WIRE_PING, 0, 1, 1},
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

/* A body of so many bytes in that file. */
static void send_long(struct raw *raw, uint16_t type, uint32_t size, int fd)
{
	send_frame(raw, type, WIRE_LONG, size, 0, &fd, 1);
}

/* Nothing that may block is read, or changes while it is. */
static void bad_bodies(void)
{
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC), pipes[2];
	struct raw raw;

	raw_open(&raw, server.socket);
	send_long(&raw, WIRE_LOAD, 200, fd);
	is_refused(&raw, "not in a memfd", "a long body in a device");
	close(fd);
	if (pipe2(pipes, O_CLOEXEC) < 0)
		bail("a pipe: %m");
	raw_open(&raw, server.socket);
	send_long(&raw, WIRE_LOAD, 200, pipes[0]);
	is_refused(&raw, "not in a memfd", "a long body in a pipe");
	close(pipes[0]);
	close(pipes[1]);
	fd = memfd_create("body", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, 200) < 0)
		bail("a memfd: %m");
	raw_open(&raw, server.socket);
	send_long(&raw, WIRE_LOAD, 200, fd);
	is_refused(&raw, "sealed", "a long body that may change");
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
	raw_open(&raw, server.socket);
	send_long(&raw, WIRE_LOAD, 201, fd);
	is_refused(&raw, "instead of 201", "a long body that is shorter");
	raw_open(&raw, server.socket);
	send_long(&raw, WIRE_PING, 200, fd);
	is_refused(&raw, "1 are allowed", "a long body of a short message");
	raw_open(&raw, server.socket);
	send_long(&raw, WIRE_LOAD, 200, fd);
	is_int(WIRE_ERROR, raw_receive(&raw, RAW_PATIENCE_MS),
		"a long body of zeros is read");
	is_int(EPROTO, raw.error,
		"a long body of zeros is answered with EPROTO");
	raw_close(&raw);
	close(fd);
	witness_is_served(&witness, "bodies are wrong");
}

static void oversize(void)
{
	static unsigned char bytes[WIRE_FRAME_MAX + 1];
	struct wire_header h = {.magic = WIRE_MAGIC,
		.type = WIRE_LOAD,
		.serial = 9,
		.size = sizeof(bytes) - sizeof(h)};
	int fd = memfd_create("body", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct raw raw;

	if (fd < 0 || ftruncate(fd, WIRE_MESSAGE_MAX + 1) < 0 ||
		fcntl(fd, F_ADD_SEALS,
			F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		bail("a memfd: %m");
	raw_open(&raw, server.socket);
	send_long(&raw, WIRE_LOAD, WIRE_MESSAGE_MAX + 1, fd);
	is_refused(&raw, "67108864 are allowed", "a load of more than 64 MiB");
	close(fd);
	raw_open(&raw, server.socket);
	memcpy(bytes, &h, sizeof(h));
	raw_frame(&raw, bytes, sizeof(bytes), NULL, 0);
	is_refused(
		&raw, "longer than the 65536", "a datagram beyond the limit");
	raw_open(&raw, server.socket);
	h.type = WIRE_REMOVE;
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
		send_frame(&raw, WIRE_PING, 0, 0, 0, fds, counts[i]);
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
		send_frame(&raw, WIRE_PING, 0, 0, 0, fds, 64);
		answered += raw_receive(&raw, RAW_PATIENCE_MS) == WIRE_PONG;
	}
	is_int(50, answered, "unwanted descriptors do no harm");
	raw_close(&raw);
}

/* ---- the order of things ------------------------------------------------ */

static void greetings(void)
{
	struct msg_hello hello = {.version = 0};
	struct raw raw;

	raw_connect(&raw, server.socket);
	raw_send(&raw, WIRE_HELLO, &hello, sizeof(hello), NULL, 0);
	is_refused(&raw, "use the same tarn", "a client that is too old");
	hello = (struct msg_hello) {.version = 90, .version_min = 80};
	raw_connect(&raw, server.socket);
	raw_send(&raw, WIRE_HELLO, &hello, sizeof(hello), NULL, 0);
	is_refused(&raw, "speaks protocol 80 to 90", "one that is too new");
	hello = (struct msg_hello) {.version = 90, .version_min = 1};
	raw_connect(&raw, server.socket);
	raw_send(&raw, WIRE_HELLO, &hello, sizeof(hello), NULL, 0);
	is_int(WIRE_WELCOME, raw_receive(&raw, RAW_PATIENCE_MS),
		"a newer client that also speaks this version is welcome");
	is_int(PROTOCOL_VERSION, raw.welcome.version,
		"the newer client is welcomed in this version");
	raw_send(&raw, WIRE_HELLO, &hello, sizeof(hello), NULL, 0);
	is_refused(&raw, "second hello", "a second hello");
	for (uint16_t type = WIRE_SEGMENTS; type <= WIRE_STOP; type++) {
		static const unsigned char body[sizeof(struct msg_load)];
		static const uint32_t sizes[] = {
			8, sizeof(struct msg_load), 8, 5, 16, 0, 0};

		raw_connect(&raw, server.socket);
		raw_send(
			&raw, type, body, sizes[type - WIRE_SEGMENTS], NULL, 0);
		is_refused(&raw, "before a hello", "no hello");
	}
}

/* Names and numbers that are nobody's are not worth a connection. */
static void nobodys(void)
{
	struct msg_cancel cancel = {.serial = 12345};
	struct msg_released released = {.index = ~0u, .generation = ~0ull};
	struct msg_segments segments = {.first = ~0u, .count = UINT16_MAX};
	struct raw raw;

	raw_open(&raw, server.socket);
	raw_send(&raw, WIRE_CANCEL, &cancel, sizeof(cancel), NULL, 0);
	for (uint32_t i = 0; i < 100; i++) {
		raw_send(&raw, WIRE_RELEASED, &released, sizeof(released), NULL,
			0);
		released = (struct msg_released) {.index = i, .generation = i};
	}
	raw_send(&raw, WIRE_SEGMENTS, &segments, sizeof(segments), NULL, 0);
	is_int(WIRE_SEGMENT_FDS, raw_receive(&raw, RAW_PATIENCE_MS),
		"segments that are not there");
	is_int(0, raw.n_fds,
		"segments that do not exist come without descriptors");
	raw_send(&raw, WIRE_REMOVE, "\xff\xfe", 2, NULL, 0);
	is_int(WIRE_ERROR, raw_receive(&raw, RAW_PATIENCE_MS),
		"a name that is no UTF-8");
	is_int(EINVAL, raw.error, "the error of a malformed name is EINVAL");
	raw_send(&raw, WIRE_REMOVE, "nobody", 6, NULL, 0);
	is_int(WIRE_ERROR, raw_receive(&raw, RAW_PATIENCE_MS),
		"the removal of an unknown name is refused");
	is_int(ENOENT, raw.error, "the error of an unknown name is ENOENT");
	raw_close(&raw);
}

/* ---- those who do not listen -------------------------------------------- */

/* Sends until the server reads no more of it: how many times. */
static int send_until_unread(struct raw *raw)
{
	int n = 0, tries = 0;

	fcntl(raw->fd, F_SETFL, O_NONBLOCK);
	while (tries < 10) {
		if (send_frame(raw, WIRE_PING, 0, 0, 0, NULL, 0) >= 0) {
			n++;
			tries = 0;
			continue;
		}
		if (errno != EAGAIN)
			bail("a question cannot be sent: %m");
		/* In which the server reads it, if it does. */
		witness_status(&witness);
		tries++;
	}
	fcntl(raw->fd, F_SETFL, 0);
	return n;
}

static void never_reads(void)
{
	struct raw raw;
	int n, answered = 0;

	raw_open(&raw, server.socket);
	n = send_until_unread(&raw);
	diag("%d questions", n);
	witness_is_served(&witness, "one does not read");
	while (answered < n && raw_receive(&raw, RAW_PATIENCE_MS) == WIRE_PONG)
		answered++;
	is_int(n, answered,
		"a client that did not read is served when it reads");
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
	bad_bodies();
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
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	remove_files();
	return done(140);
}
