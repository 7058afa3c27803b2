/* SPDX-License-Identifier: MIT */
/*
 * Messages over a real socket: each arrives whole, short or long; everything
 * else is refused with a sentence, and no descriptor stays open. The queue of a
 * sender is in wire_queue.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "tests/kit/tap.h"
#include "tests/kit/wire.h"

static uint32_t only_hello(uint16_t type)
{
	return type == WIRE_HELLO ? 16 : 0;
}

/* More than this is not admitted. */
#define ADMITTED 200000u

static int admit(void *arg, uint32_t size, bool again)
{
	++*(int *)arg;
	return again || size <= ADMITTED
		       ? 0
		       : tarn_fail(EDQUOT, "too long for this");
}

static int n_asked;
static const struct wire_reader strict = {
	.limit = only_hello, .admit = admit, .arg = &n_asked};

__attribute__((format(printf, 3, 4))) static void refused(
	int error, const char *part, const char *format, ...)
{
	char what[128];
	va_list args;

	struct wire_message message;
	int fds = count_fds(getpid());
	int r = wire_receive(socks[1], &strict, &message);

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	is_int(-error, r, "a malformed message is refused: %s", what);
	has_str(part, tarn_fail_message(),
		"the error of a malformed message contains the expected words");
	is_int(fds, count_fds(getpid()),
		"the refused message leaves no descriptor open");
}

/* Frames of which each is wrong by itself. */
static void test_wrong_frames(void)
{
	struct wire_header h = head(WIRE_HELLO, 16);

	h.magic = 0x4547;
	frame(h, 16, 3);
	refused(EPROTO, "0x4547", "another magic");
	if (send(socks[0], "GET /", 5, 0) != 5)
		bail("send: %m");
	refused(EPROTO, "5 bytes", "half a header");
	frame(head(WIRE_HELLO, 16), 12, 1);
	refused(EPROTO, "a body of 16 bytes", "half a body");
	frame(head(WIRE_LOAD, 16), 16, 1);
	refused(EPROTO, "type 3", "a type that is not expected");
	h = head(WIRE_HELLO, 16);
	h.flags = 10;
	frame(h, 16, 0);
	refused(EPROTO, "0xa", "an unknown flag");
}

static void test_too_much(void)
{
	frame(head(WIRE_HELLO, 17), 17, 2);
	refused(EMSGSIZE, "16 are allowed", "a body over its type's limit");
	frame(head(WIRE_HELLO, WIRE_FRAME_MAX), WIRE_FRAME_MAX, 4);
	refused(EMSGSIZE, "65536", "a datagram over the limit");
	frame(head(WIRE_HELLO, 16), 16, WIRE_FDS_MAX + 1);
	refused(ETOOMANYREFS, "64", "one descriptor too many");
	frame(head(WIRE_HELLO, 16), 16, 200);
	refused(ETOOMANYREFS, "64", "many too many");
}

/* Bodies that say that they are long, and are not as they must be. */
static void test_wrong_bodies(void)
{
	struct wire_header h = head(WIRE_HELLO, 16);
	const char *path = "/proc/self/fd/%d";
	char name[64];
	int fd = memory_of(16, SEALED), bad, pipes[2];

	h.flags = WIRE_LONG;
	frame(h, 16, 1);
	refused(EPROTO, "besides its memfd", "a body at two places");
	frame(h, 0, 0);
	refused(EPROTO, "has 0 descriptors", "a long body without a memfd");
	h.size = 0;
	frame_long(h, 1, fd);
	refused(EPROTO, "0 bytes", "an empty long body");
	h.size = 15;
	frame_long(h, 1, fd);
	refused(EPROTO, "has 16 bytes", "a memfd that is larger than it says");
	h.size = 16;
	frame_long(h, WIRE_FDS_MAX + 2, fd);
	refused(ETOOMANYREFS, "64", "one descriptor too many beside a memfd");
	snprintf(name, sizeof(name), path, fd);
	bad = open(name, O_PATH | O_CLOEXEC);
	frame_long(h, 1, bad);
	refused(EPROTO, "not in a memfd", "a memfd that cannot be read");
	bad = fd_close(bad);
	for (int i = 0; i < 3; i++) {
		static const int seals[] = {
			F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE};

		bad = memory_of(16, SEALED & ~seals[i]);
		frame_long(h, 1, bad);
		refused(EPROTO, "sealed", "a memfd without seal 0x%x",
			seals[i]);
		bad = fd_close(bad);
	}
	bad = memory_of(16, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE);
	frame_long(h, 1, bad);
	refused(EPROTO, "sealed", "a memfd that mappings may still change");
	bad = fd_close(bad);
	/* To read any of these would block, or fail. */
	if (pipe2(pipes, O_CLOEXEC) < 0)
		bail("a pipe: %m");
	frame_long(h, 1, pipes[0]);
	refused(EPROTO, "not in a memfd", "a pipe");
	frame_long(h, 1, socks[1]);
	refused(EPROTO, "not in a memfd", "a socket");
	close(pipes[0]);
	close(pipes[1]);
	bad = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	frame_long(h, 1, bad);
	refused(EPROTO, "not in a memfd", "a file");
	fd_close(bad);
	fd_close(fd);
}

/* What a memfd that was opened for writing only, or has huge pages, is. */
static void test_odd_memory(void)
{
	struct wire_header h = head(WIRE_HELLO, 16);
	struct wire_message m;
	char name[64];
	int fd = memory_of(16, 0), bad;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	bad = open(name, O_WRONLY | O_CLOEXEC);
	fcntl(fd, F_ADD_SEALS, SEALED);
	frame_long(h, 1, bad);
	refused(EPROTO, "Bad file descriptor", "a memfd opened for writing");
	fd_close(bad);
	fd_close(fd);
	fd = memfd_create("hole", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, 16) < 0 ||
		fcntl(fd, F_ADD_SEALS, SEALED) < 0)
		bail("a memfd with a hole: %m");
	frame_long(h, 1, fd);
	refused(EPROTO, "has holes", "a body in a memfd with a hole");
	fd_close(fd);
	fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING |
					  MFD_HUGETLB |
					  21u << 26 /* MFD_HUGE_2MB */);
	if (fd < 0 || ftruncate(fd, 2 << 20) < 0 ||
		fcntl(fd, F_ADD_SEALS, SEALED) < 0) {
		skip(1, "no memfd of huge pages can be made here");
		fd_close(fd);
		return;
	}
	h.size = 2 << 20;
	frame_long(h, 1, fd);
	fd_close(fd);
	is_int(-EPROTO, wire_receive(socks[1], NULL, &m),
		"a body in a memfd of huge pages, none of which there is, is "
		"refused");
}

/* The receiver has no room for it now: the message is lost, its sender is
 * known, and the next one is found. */
static void test_not_admitted(void)
{
	static const struct wire_reader modest = {
		.admit = admit, .arg = &n_asked};
	struct wire_header h = head(WIRE_HELLO, BIG);
	struct wire_message m;
	int fd = memory_of(BIG, SEALED), fds;

	fresh();
	frame_long(h, 3, fd);
	h.serial = 8;
	h.size = 100;
	frame(h, 100, 0);
	fds = count_fds(getpid());
	n_asked = 0;
	is_int(-EDQUOT, wire_receive(socks[1], &modest, &m),
		"a long body that is not admitted is refused");
	has_str("too long", tarn_fail_message(),
		"the error says that the body is too long");
	ok(m.serial == 7 && m.type == WIRE_HELLO && !m.n_fds && !m.body,
		"the refused message's type and serial are known");
	is_int(fds, count_fds(getpid()),
		"no descriptor of the refused message is left");
	is_int(1, wire_receive(socks[1], &modest, &m),
		"the next message is received");
	is_int(8, m.serial, "the next message has its own serial");
	is_int(1, n_asked,
		"the admission callback is not called for short bodies");
	wire_message_clear(&m);
	h = head(WIRE_HELLO, BIG);
	h.flags |= WIRE_AGAIN;
	frame_long(h, 1, fd);
	is_int(1, wire_receive(socks[1], &modest, &m),
		"a long body that is sent again is admitted");
	ok(m.again && m.size == BIG,
		"the long body that is sent again is whole");
	wire_message_clear(&m);
	fd_close(fd);
}

/* All of it over one connection, which is as good as new after each. */
static void test_refused(void)
{
	struct wire_message message;

	fresh();
	is_int(-EAGAIN, wire_receive(socks[1], NULL, &message),
		"an empty socket asks to try again");
	test_wrong_frames();
	test_too_much();
	test_wrong_bodies();
	test_odd_memory();
	frame(head(WIRE_HELLO, 16), 16, 1);
	is_int(1, wire_receive(socks[1], &strict, &message),
		"a valid message is received after all refused ones");
	wire_message_clear(&message);
	socks[0] = fd_close(socks[0]);
	is_int(-EPIPE, wire_receive(socks[1], NULL, &message),
		"a receive from a closed peer is EPIPE");
	is_int(-EPIPE, wire_send(socks[1], WIRE_OUT(1, 1, "x", 1)),
		"a send to a closed peer is EPIPE, without a signal");
}

/* A long body that is read in steps. */
static void test_read_on(void)
{
	const struct wire_reader reader = {.leaves_long = true};
	int fd = memory_of(BIG, SEALED), fds;
	struct wire_message m;

	fresh();
	fds = count_fds(getpid());
	frame_long(head(5, BIG), 2, fd);
	is_int(1, wire_receive(socks[1], &reader, &m),
		"a message whose body is left in its memfd is received");
	is_int(BIG, m.unread, "all of the body is unread at first");
	is_int(1, m.n_fds,
		"the sender's own descriptor is not taken for the body");
	is_int(0, wire_read_on(&m, BIG - 1),
		"a read of all but one byte leaves one unread");
	is_int(1, m.unread, "one byte is counted as unread");
	is_int(1, wire_read_on(&m, BIG), "the next read completes the body");
	is_mem(big, m.body, BIG, "the body is that of the memfd");
	is_int(fds + 2, count_fds(getpid()),
		"the message has its descriptor and its memfd");
	fd_close(wire_take_long(&m));
	is_int(-1, wire_take_long(&m),
		"the body's memfd is taken from the message once");
	wire_message_clear(&m);
	frame_long(head(5, BIG), 1, fd);
	is_int(1, wire_receive(socks[1], &reader, &m),
		"another message with its body in a memfd is received");
	wire_message_clear(&m);
	is_int(fds, count_fds(getpid()),
		"a message that is not read closes its memfd");
	frame_long(head(5, BIG - 1), 1, fd);
	is_int(-EPROTO, wire_receive(socks[1], &reader, &m),
		"a memfd of another size than the body is refused");
	frame(head(5, 3), 3, 0);
	is_int(1, wire_receive(socks[1], &reader, &m),
		"a short message is received");
	is_int(0, m.unread, "a short message is read at once");
	wire_message_clear(&m);
	fd_close(fd);
}

/* Prepared once, sent twice. */
static void test_prepared(void)
{
	struct wire_out out = *WIRE_OUT(5, 1, big, BIG);
	struct wire_message m;
	int fds;

	fresh();
	fds = count_fds(getpid());
	is_int(0, wire_out_prepare(&out), "a long message is prepared");
	is_int(fds + 1, count_fds(getpid()),
		"a prepared long message takes a descriptor");
	for (int i = 0; i < 2; i++) {
		is_int(0, wire_send(socks[0], &out),
			"a prepared message is sent");
		is_int(1, wire_receive(socks[1], NULL, &m),
			"the message that was sent is received");
		is_mem(big, m.body, BIG, "the prepared message has its bytes");
		is_int(0, m.n_fds,
			"the prepared message has no descriptor of its own");
		wire_message_clear(&m);
	}
	wire_out_done(&out);
	is_int(fds, count_fds(getpid()),
		"no descriptor is left after the prepared message");
}

/* A socket that asks is told who sent what, beside all descriptors. */
static void test_sender(void)
{
	struct wire_message m = {0};
	int yes = 1;

	fresh();
	frame(head(WIRE_HELLO, 16), 16, 0);
	is_int(1, wire_receive(socks[1], &strict, &m),
		"a message without credentials is received");
	is_int(0, m.pid,
		"a message has no sender where the socket does not ask for "
		"one");
	wire_message_clear(&m);
	setsockopt(socks[1], SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes));
	frame(head(WIRE_HELLO, 16), 16, WIRE_FDS_MAX);
	is_int(1, wire_receive(socks[1], &strict, &m),
		"a message with credentials is received");
	is_int(getpid(), m.pid,
		"a message has the sender's process where the socket asks");
	is_int(WIRE_FDS_MAX, m.n_fds,
		"a message with the most descriptors is received");
	wire_message_clear(&m);
	frame(head(WIRE_HELLO, 16), 16, WIRE_FDS_MAX + 1);
	is_int(-ETOOMANYREFS, wire_receive(socks[1], &strict, &m),
		"a message with one descriptor too many is refused");
}

/* The kernel reports that the peer had not read everything before it delivers
 * what the peer had sent. */
static void test_reset(void)
{
	struct wire_message m = {0};

	fresh();
	frame(head(WIRE_HELLO, 16), 16, 1);
	frame(head(WIRE_HELLO, 16), 16, 0);
	if (wire_send(socks[1], WIRE_OUT(WIRE_PING, 0, NULL, 0)) < 0)
		bail("%s", tarn_fail_message());
	socks[0] = fd_close(socks[0]);
	is_int(1, wire_receive(socks[1], &strict, &m),
		"a message of a peer that ended without reading is received");
	is_int(1, m.n_fds, "its descriptor is received");
	wire_message_clear(&m);
	is_int(1, wire_receive(socks[1], &strict, &m),
		"the last message of that peer is received");
	wire_message_clear(&m);
	is_int(-EPIPE, wire_receive(socks[1], &strict, &m),
		"then the end of that peer is noticed");
}

int main(void)
{
	kit_wire_begin();
	test_refused();
	test_not_admitted();
	test_read_on();
	test_prepared();
	test_sender();
	test_reset();
	kit_wire_end();
	return done(122);
}
