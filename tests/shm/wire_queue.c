/* SPDX-License-Identifier: MIT */
/*
 * A writer queues what its socket does not take: messages leave in order, long
 * ones in a memfd, with their descriptors. A message that can be sent at once
 * needs no place in the queue, and a refused one leaves nothing behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/kit/tap.h"
#include "tests/kit/wire.h"

/* As much as it takes, of one descriptor; what is too much leaves no trace. */
static void test_push(struct wire_writer *writer, int fd)
{
	int fds = count_fds(getpid());

	is_int(1, wire_flush(writer, socks[0]),
		"a flush of an empty queue succeeds");
	is_int(0, wire_push(writer, WIRE_OUT_FDS(5, 9, big, BIG, &fd, 1)),
		"a long message is queued");
	is_int(-ENOBUFS,
		wire_push(writer, WIRE_OUT_FDS(5, 9, big, BIG, &fd, 1)),
		"a second long message is beyond the queue's limit");
	is_int(0, wire_push(writer, WIRE_OUT(6, 10, NULL, 0)),
		"an empty message fits in a full queue");
	is_int(-EINVAL,
		wire_push(writer, WIRE_OUT_FDS(6, 10, NULL, 0, &fd, 65)),
		"65 descriptors in a message are refused");
	is_int(-EBADF,
		wire_push(writer,
			WIRE_OUT_FDS(6, 10, NULL, 0, ((int[]) {fd, -7}), 2)),
		"a descriptor that is not open is refused");
	is_int(fds + 1, count_fds(getpid()), "the queue keeps one descriptor");
}

/* A long message's only descriptor, which is that file. */
static void test_its_descriptor(struct wire_message *message, dev_t device)
{
	struct stat st;
	int fd;

	is_int(1, message->n_fds, "the short message has one descriptor");
	fd = wire_take_fd(message, 0);
	ok(fstat(fd, &st) == 0 && st.st_rdev == device,
		"the descriptor is of the same file");
	is_int(FD_CLOEXEC, fcntl(fd, F_GETFD),
		"a received descriptor is close-on-exec");
	is_int(-1, wire_take_fd(message, 0),
		"a descriptor is taken from a message once");
	is_int(-1, wire_take_fd(message, 1),
		"a message with one descriptor has no second");
	fd_close(fd);
}

/* What was pushed comes, the long one in a memfd. */
static void test_long(struct wire_writer *writer, dev_t device)
{
	struct wire_message message;

	is_int(1, wire_flush(writer, socks[0]),
		"both messages are sent at once");
	ok(wire_writer_empty(writer), "the queue is empty after the flush");
	is_int(1, wire_receive(socks[1], NULL, &message),
		"the long message is received");
	is_int(BIG, message.size, "the long message has its size");
	is_mem(big, message.body, BIG, "the long body arrives unchanged");
	is_int(9, message.serial, "the long message has its serial");
	ok(((uintptr_t)message.body & 7) == 0,
		"the body of the long message is aligned");
	test_its_descriptor(&message, device);
	wire_message_clear(&message);
	is_int(1, wire_receive(socks[1], NULL, &message),
		"the last message is received");
	is_int(0, message.size, "the last message is empty");
	wire_message_clear(&message);
}

/* A peer that does not read: the socket fills up, nothing blocks. */
static void test_full_socket(struct wire_writer *writer)
{
	int r;

	do
		r = wire_push(
			writer, WIRE_OUT_FDS(5, 1, big, 50000, &socks[0], 1));
	while (r == 0 && (r = wire_flush(writer, socks[0])) == 1);
	is_int(0, r, "a flush to a full socket is no error");
	ok(!wire_writer_empty(writer),
		"the messages that a full socket did not take stay queued");
	fresh();
	socks[1] = fd_close(socks[1]);
	is_int(-EPIPE, wire_flush(writer, socks[0]),
		"a flush to a peer that has gone is an error");
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
	test_long(writer, st.st_rdev);
	test_full_socket(writer);
	writer = wire_writer_free(writer);
	fresh();
	is_int(fds - 1, count_fds(getpid()),
		"no descriptor is left after the peer has gone");
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
	is_int(1,
		wire_try(
			writer, socks[0], WIRE_OUT_FDS(5, 9, big, 100, &fd, 1)),
		"a message that fits is sent at once");
	ok(wire_writer_empty(writer), "a message that fits is not queued");
	is_int(1, wire_receive(socks[1], NULL, &message),
		"a message that was sent at once is received");
	ok(message.type == 5 && message.serial == 9 && message.size == 100,
		"the message that was sent at once has type, serial and size");
	is_int(1, message.n_fds,
		"the message that was sent at once has its descriptor");
	wire_message_clear(&message);
	is_int(1, wire_try(writer, socks[0], WIRE_OUT(6, 10, NULL, 0)),
		"an empty message is sent at once");
	is_int(1, wire_receive(socks[1], NULL, &message),
		"the empty message is received");
	wire_message_clear(&message);
	is_int(1, wire_try(writer, socks[0], WIRE_OUT(5, 9, big, BIG)),
		"a long message is sent at once");
	is_int(1, wire_receive(socks[1], NULL, &message),
		"the long message that was sent at once is received");
	is_int(BIG, message.size,
		"the long message that was sent at once is whole");
	wire_message_clear(&message);
	is_int(-EINVAL,
		wire_try(writer, socks[0],
			WIRE_OUT_FDS(5, 9, big, 100, &fd, 65)),
		"a message with too many descriptors is refused");
	wire_push(writer, WIRE_OUT(7, 11, big, 10));
	is_int(0, wire_try(writer, socks[0], WIRE_OUT(8, 12, big, 10)),
		"a message is not sent past a queued one");
	wire_flush(writer, socks[0]);
	is_int(1, wire_receive(socks[1], NULL, &message),
		"the queued message is received");
	is_int(7, message.type,
		"the message that was queued is the one received");
	wire_message_clear(&message);
	is_int(-EAGAIN, wire_receive(socks[1], NULL, &message),
		"the message behind a queued one was not sent");
	while (wire_try(writer, socks[0], WIRE_OUT(9, 13, big, 1000)) == 1)
		;
	ok(wire_writer_empty(writer),
		"a message to a full socket is not sent at once");
	wire_writer_free(writer);
	fd_close(fd);
}

int main(void)
{
	kit_wire_begin();
	test_queue();
	test_try();
	kit_wire_end();
	return done(42);
}
