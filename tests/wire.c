/* SPDX-License-Identifier: MIT */
/*
 * Messages over a real socket: whole ones arrive whole, in one frame or many;
 * everything else is refused with a sentence, and no descriptor stays open.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "tests/tap.h"
#include "tests/wire_kit.h"

static uint32_t only_hello(uint16_t type)
{
	return type == WIRE_HELLO ? 16 : 0;
}

static void refused(int error, const char *part, const char *what)
{
	struct wire_message message;
	int fds = count_fds(getpid());
	int r = wire_receive(reader, socks[1], only_hello, &message);

	is_int(-error, r, "%s is refused", what);
	has_str(part, tarn_fail_message(), "with a sentence");
	is_int(fds, count_fds(getpid()), "and leaves no descriptor");
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
	refused(EPROTO, "says 16", "half a body");
	frame(head(WIRE_LOAD, 16), 16, 1);
	refused(EPROTO, "type 3", "a type that is not expected");
	h = head(WIRE_HELLO, 16);
	h.flags = 6;
	frame(h, 16, 0);
	refused(EPROTO, "0x6", "an unknown flag");
	h.flags = WIRE_MORE;
	h.size = 0;
	frame(h, 0, 0);
	refused(EPROTO, "promises more", "an empty frame of many");
}

static void test_too_much(void)
{
	frame(head(WIRE_HELLO, 17), 17, 2);
	refused(EMSGSIZE, "16 are allowed", "a body over its type's limit");
	frame(head(WIRE_HELLO, WIRE_FRAME_MAX), WIRE_FRAME_MAX, 4);
	refused(EMSGSIZE, "65536", "a frame over the limit");
	frame(head(WIRE_HELLO, 16), 16, WIRE_FDS_MAX + 1);
	refused(ETOOMANYREFS, "64", "one descriptor too many");
	frame(head(WIRE_HELLO, 16), 16, 200);
	refused(ETOOMANYREFS, "64", "many too many");
}

/* What follows a frame that promised more. */
static void test_wrong_rest(void)
{
	struct wire_message message;
	struct wire_header h = head(WIRE_HELLO, 8);
	int fds;

	h.flags = WIRE_MORE;
	frame(h, 8, 2);
	is_int(0, wire_receive(reader, socks[1], only_hello, &message),
		"the first of two frames");
	h.serial = 8;
	frame(h, 8, 0);
	fds = count_fds(getpid());
	is_int(-EPROTO, wire_receive(reader, socks[1], only_hello, &message),
		"another message before it is whole");
	is_int(fds - 2, count_fds(getpid()), "closes what came before");
	h.serial = 7;
	frame(h, 8, 0);
	is_int(0, wire_receive(reader, socks[1], only_hello, &message),
		"a new beginning");
	frame(h, 8, 1);
	refused(EPROTO, "later frame", "descriptors with a later frame");
	frame(h, 8, 0);
	wire_receive(reader, socks[1], only_hello, &message);
	frame(h, 9, 0);
	refused(EPROTO, "says 8", "a later frame that lies");
}

/* All of it over one connection, which is as good as new after each. */
static void test_refused(void)
{
	struct wire_message message;

	fresh();
	is_int(-EAGAIN, wire_receive(reader, socks[1], NULL, &message),
		"nothing is there yet");
	test_wrong_frames();
	test_too_much();
	test_wrong_rest();
	frame(head(WIRE_HELLO, 16), 16, 1);
	is_int(1, wire_receive(reader, socks[1], only_hello, &message),
		"after all that, an honest one is taken");
	wire_message_clear(&message);
	socks[0] = fd_close(socks[0]);
	is_int(-EPIPE, wire_receive(reader, socks[1], NULL, &message),
		"a closed peer");
	is_int(-EPIPE, wire_send(socks[1], 1, 1, "x", 1, NULL, 0),
		"is noticed by the sender too, without a signal");
}

/* As much as it takes, of one descriptor; what is too much leaves no trace. */
static void test_push(struct wire_writer *writer, int fd)
{
	int fds = count_fds(getpid());

	is_int(1, wire_flush(writer, socks[0]), "an empty queue is away");
	is_int(0, wire_push(writer, 5, 9, big, BIG, &fd, 1), "a long message");
	is_int(-ENOBUFS, wire_push(writer, 5, 9, big, BIG, &fd, 1),
		"a second one is too much");
	is_int(0, wire_push(writer, 6, 10, NULL, 0, NULL, 0),
		"an empty one is not");
	is_int(-EINVAL, wire_push(writer, 6, 10, NULL, 0, &fd, 65),
		"65 descriptors are");
	is_int(-EBADF, wire_push(writer, 6, 10, NULL, 0, (int[]) {fd, -7}, 2),
		"a descriptor that is none");
	is_int(fds + 1, count_fds(getpid()), "one descriptor is kept");
}

/* A long message's only descriptor, which is that file. */
static void test_its_descriptor(struct wire_message *message, dev_t device)
{
	struct stat st;
	int fd;

	is_int(1, message->n_fds, "with its descriptor");
	fd = wire_take_fd(message, 0);
	ok(fstat(fd, &st) == 0 && st.st_rdev == device, "which is that file");
	is_int(FD_CLOEXEC, fcntl(fd, F_GETFD), "and CLOEXEC");
	is_int(-1, wire_take_fd(message, 0), "taken once");
	is_int(-1, wire_take_fd(message, 1), "and there is no other");
	fd_close(fd);
}

/* What was pushed comes, the long one in many frames. */
static void test_frames(struct wire_writer *writer, dev_t device)
{
	struct wire_message message;
	int r = 0, flushes = 0;

	while (r == 0) {
		wire_flush(writer, socks[0]);
		r = wire_receive(reader, socks[1], NULL, &message);
		flushes++;
	}
	diag("%d frames", flushes);
	is_int(1, r, "the long one arrives");
	ok(flushes > 4, "in many frames");
	is_int(BIG, message.size, "whole");
	is_mem(big, message.body, BIG, "and the same");
	is_int(9, message.serial, "under its serial");
	ok(((uintptr_t)message.body & 7) == 0, "aligned");
	test_its_descriptor(&message, device);
	wire_message_clear(&message);
	is_int(1, wire_flush(writer, socks[0]), "all is away");
	ok(wire_writer_empty(writer), "the queue is empty");
	is_int(1, wire_receive(reader, socks[1], NULL, &message), "the last");
	is_int(0, message.size, "is empty");
	wire_message_clear(&message);
}

/* A peer that does not read: the socket fills up, nothing blocks. */
static void test_full_socket(struct wire_writer *writer)
{
	int r;

	do
		r = wire_push(writer, 5, 1, big, 50000, &socks[0], 1);
	while (r == 0 && (r = wire_flush(writer, socks[0])) == 1);
	is_int(0, r, "a full socket is no error");
	ok(!wire_writer_empty(writer), "what it did not take is kept");
	fresh();
	socks[1] = fd_close(socks[1]);
	is_int(-EPIPE, wire_flush(writer, socks[0]),
		"a peer that is gone is one");
}

static void test_queue(void)
{
	struct wire_writer *writer = NULL;
	int fds, fd = open("/dev/null", O_RDONLY);
	struct stat st = {0};

	fresh();
	fds = count_fds(getpid());
	wire_writer_new(BIG + 65536, &writer);
	test_push(writer, fd);
	fstat(fd, &st);
	fd = fd_close(fd);
	test_frames(writer, st.st_rdev);
	test_full_socket(writer);
	writer = wire_writer_free(writer);
	fresh();
	is_int(fds - 1, count_fds(getpid()), "and no descriptor is left");
}

/* Two connections, one room for frames: what is half there is each one's. */
static void test_beside(void)
{
	struct wire_reader *other = NULL;
	struct wire_message message;
	struct wire_header h = head(WIRE_HELLO, 3);
	int pair[2];

	fresh();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair) < 0)
		bail("socketpair: %m");
	is_int(0, wire_reader_new_beside(reader, &other), "a reader beside");
	h.flags = WIRE_MORE;
	frame(h, 3, 0);
	is_int(0, wire_receive(reader, socks[1], NULL, &message), "one half");
	is_int(0, wire_send(pair[0], 5, 1, big + 50, 9, NULL, 0), "meanwhile");
	is_int(1, wire_receive(other, pair[1], NULL, &message), "another");
	is_mem(big + 50, message.body, 9, "is itself");
	wire_message_clear(&message);
	h.flags = 0;
	frame(h, 3, 0);
	is_int(1, wire_receive(reader, socks[1], NULL, &message), "the rest");
	is_int(6, message.size, "makes it whole");
	is_mem(big, message.body, 3, "from its first byte");
	is_mem(big, message.body + 3, 3, "to its last");
	wire_message_clear(&message);
	other = wire_reader_free(other);
	fd_close(pair[0]);
	fd_close(pair[1]);
}

/* A socket that asks is told who sent what, beside all descriptors. */
static void test_sender(void)
{
	struct wire_message m = {0};
	int yes = 1;

	fresh();
	frame(head(WIRE_HELLO, 16), 16, 0);
	is_int(1, wire_receive(reader, socks[1], only_hello, &m), "a message");
	is_int(0, m.pid, "is nobody's where nobody has asked");
	wire_message_clear(&m);
	setsockopt(socks[1], SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes));
	frame(head(WIRE_HELLO, 16), 16, WIRE_FDS_MAX);
	is_int(1, wire_receive(reader, socks[1], only_hello, &m), "another");
	is_int(getpid(), m.pid, "is this process's");
	is_int(WIRE_FDS_MAX, m.n_fds, "with all descriptors");
	wire_message_clear(&m);
	frame(head(WIRE_HELLO, 16), 16, WIRE_FDS_MAX + 1);
	is_int(-ETOOMANYREFS, wire_receive(reader, socks[1], only_hello, &m),
		"and no more");
}

/* What can be sent at once needs no place in the queue; what cannot leaves
 * nothing behind. */
static void test_try(void)
{
	struct wire_writer *writer = NULL;
	struct wire_message message;
	int fd = open("/dev/null", O_RDONLY);

	fresh();
	wire_writer_new(BIG + 65536, &writer);
	ok(wire_try(writer, socks[0], 5, 9, big, 100, &fd, 1),
		"what fits is sent at once");
	ok(wire_writer_empty(writer), "and not queued");
	is_int(1, wire_receive(reader, socks[1], NULL, &message), "it arrives");
	ok(message.type == 5 && message.serial == 9 && message.size == 100,
		"as what it is");
	is_int(1, message.n_fds, "with its descriptor");
	wire_message_clear(&message);
	ok(wire_try(writer, socks[0], 6, 10, NULL, 0, NULL, 0), "an empty one");
	is_int(1, wire_receive(reader, socks[1], NULL, &message), "arrives");
	wire_message_clear(&message);
	ok(!wire_try(writer, socks[0], 5, 9, big, BIG, NULL, 0),
		"one of several frames is to be pushed");
	ok(!wire_try(writer, socks[0], 5, 9, big, 100, &fd, 65),
		"and one that cannot be sent at all");
	wire_push(writer, 7, 11, big, 10, NULL, 0);
	ok(!wire_try(writer, socks[0], 8, 12, big, 10, NULL, 0),
		"and one that would overtake another");
	wire_flush(writer, socks[0]);
	is_int(1, wire_receive(reader, socks[1], NULL, &message), "it comes");
	is_int(7, message.type, "alone");
	wire_message_clear(&message);
	is_int(-EAGAIN, wire_receive(reader, socks[1], NULL, &message),
		"nothing else was sent");
	while (wire_try(writer, socks[0], 9, 13, big, 1000, NULL, 0))
		;
	ok(wire_writer_empty(writer), "a full socket takes no more");
	wire_writer_free(writer);
	fd_close(fd);
}

/* What is given up before it has begun leaves no trace; what has begun must be
 * ended. */
static void test_take_back(void)
{
	struct wire_writer *writer = NULL;
	struct wire_message message = {0};
	int fds, r = 0, fd = open("/dev/null", O_RDONLY);
	uint32_t serial = 0;

	fresh();
	wire_writer_new(100 * BIG, &writer);
	ok(!wire_take_back(writer), "nothing to take back");
	fds = count_fds(getpid());
	wire_push(writer, 5, 1, big, BIG, &fd, 1);
	ok(wire_take_back(writer), "a message is taken back");
	ok(wire_writer_empty(writer) && wire_writer_held(writer) == 0,
		"and the queue is as before");
	is_int(fds, count_fds(getpid()), "its descriptor is closed");
	do
		wire_push(writer, 5, ++serial, big, BIG, NULL, 0);
	while (wire_flush(writer, socks[0]) == 1);
	ok(!wire_take_back(writer), "one that has begun is not");
	wire_push(writer, 5, serial + 1, big, BIG, &fd, 1);
	ok(wire_take_back(writer), "one behind it is");
	wire_push(writer, 5, serial + 2, NULL, 0, NULL, 0);
	while (r >= 0 && message.serial != serial + 2) {
		wire_message_clear(&message);
		wire_flush(writer, socks[0]);
		r = wire_receive(reader, socks[1], NULL, &message);
		if (r == 1 && message.size && message.size != BIG)
			bail("%u bytes", message.size);
		if (r == 1 && message.serial == serial + 1)
			bail("it came all the same");
	}
	is_int(1, r, "what was pushed then follows what had begun");
	wire_message_clear(&message);
	fd_close(fd);
	wire_writer_free(writer);
}

/* Answers of a kind of their own leave the others their room. */
static void test_answers(void)
{
	struct wire_writer *writer = NULL;

	fresh();
	wire_writer_new(1000, &writer);
	is_int(-ENOBUFS, wire_push_answer(writer, 5, 1, big, 5000),
		"without a limit of their own they have that of all");
	wire_writer_limit_answers(writer, 10100);
	is_int(0, wire_push_answer(writer, 5, 1, big, 5000), "with one");
	is_int(0, wire_push_answer(writer, 5, 2, big, 5000), "two fit");
	is_int(-ENOBUFS, wire_push_answer(writer, 5, 3, big, 5000),
		"not three");
	is_int(0, wire_push(writer, 6, 4, big, 900, NULL, 0),
		"another message has its room");
	is_int(-ENOBUFS, wire_push(writer, 6, 5, big, 900, NULL, 0), "once");
	is_int(10000 + 900 + 3 * 16, (int64_t)wire_writer_held(writer),
		"all of it is counted");
	is_int(1, wire_flush(writer, socks[0]), "all go");
	is_int(0, (int64_t)wire_writer_held(writer), "nothing is left");
	is_int(0, wire_push_answer(writer, 5, 6, big, 5000), "there is room");
	wire_writer_free(writer);
}

int main(void)
{
	kit_begin();
	test_refused();
	test_queue();
	test_beside();
	test_sender();
	test_try();
	test_take_back();
	test_answers();
	kit_end();
	return done();
}
