/* SPDX-License-Identifier: MIT */
/*
 * Messages in parts, one datagram each: what a receiver makes of parts of
 * several messages, of wrong ones, and of a sender that stops in the middle.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "tests/kit/tap.h"
#include "tests/kit/wire.h"

static struct wire_partial partial;
static const struct wire_reader in_parts = {.partial = &partial};

static struct wire_writer *parts_writer(void)
{
	struct wire_writer *writer = NULL;

	fresh();
	wire_writer_new(4 * BIG, &writer);
	wire_writer_in_parts(writer);
	return writer;
}

/* Sends and receives in turn until a message is whole. */
static int exchange(struct wire_writer *writer, struct wire_message *ret)
{
	int r;

	while ((r = wire_receive(socks[1], &in_parts, ret)) == -EAGAIN &&
		!wire_writer_empty(writer))
		if (wire_flush(writer, socks[0]) < 0)
			bail("flush: %s", tarn_fail_message());
	return r;
}

/* More than a socket takes: nothing but what is in the socket has left the
 * sender, and no descriptor is needed for any of it. */
static void test_parts(void)
{
	struct wire_writer *writer = parts_writer();
	int fds = count_fds(getpid());
	struct wire_message m;

	is_int(0, wire_try(writer, socks[0], WIRE_OUT(5, 1, big, BIG)),
		"a message in parts is queued");
	is_int(-EINVAL,
		wire_push(writer, WIRE_OUT_FDS(5, 1, big, BIG, &socks[0], 1)),
		"a message in parts with a descriptor is refused");
	for (uint32_t i = 1; i <= 2; i++)
		wire_push(writer, WIRE_OUT(5, i, big, BIG - i));
	wire_push(writer, WIRE_OUT(6, 3, big, 10));
	is_int(0, wire_flush(writer, socks[0]),
		"the socket takes a few of the parts");
	is_int(2 * BIG - 3 + 10 + 3 * 16, (int64_t)wire_writer_held(writer),
		"all of a message is counted until its last part is sent");
	is_int(fds, count_fds(getpid()), "a part with a descriptor is refused");
	for (uint32_t i = 1; i <= 2; i++) {
		is_int(1, exchange(writer, &m),
			"message %u of several in parts is received", i);
		is_int(i, m.serial, "a message in parts has its serial");
		is_int(BIG - i, m.size, "a message in parts has its size");
		is_mem(big, m.body, BIG - i,
			"a message in parts has its bytes in order");
		is_int(0, m.n_fds, "a message in parts has no descriptor");
		wire_message_clear(&m);
	}
	is_int(1, exchange(writer, &m),
		"the message behind those in parts is received");
	is_int(10, m.size, "the message behind those in parts is in one piece");
	wire_message_clear(&m);
	is_int(0, (int64_t)wire_writer_held(writer),
		"the queue counts nothing after all was sent");
	wire_writer_free(writer);
}

/* However fast the peer reads, a flush ends. */
static void test_parts_of_a_flush(void)
{
	struct wire_writer *writer = parts_writer();
	int room = 16 << 20;

	if (setsockopt(socks[0], SOL_SOCKET, SO_SNDBUFFORCE, &room,
		    sizeof(room)) < 0) {
		skip(2, "only root can give a socket room for more: %m");
	} else {
		wire_push(writer, WIRE_OUT(5, 1, big, BIG));
		is_int(0, wire_flush(writer, socks[0]),
			"a flush sends four of five parts");
		is_int(1, wire_flush(writer, socks[0]),
			"the next flush sends the fifth part");
	}
	wire_writer_free(writer);
}

/* The sender died: what it had begun is dropped, and the same message of the
 * next sender is received from its beginning. */
static void test_parts_interrupted(void)
{
	struct wire_writer *dead = parts_writer(), *writer = NULL;
	struct wire_message m;

	wire_writer_new(4 * BIG, &writer);
	wire_writer_in_parts(writer);
	wire_push(dead, WIRE_OUT(5, 1, big, BIG));
	wire_flush(dead, socks[0]);
	is_int(-EAGAIN, wire_receive(socks[1], &in_parts, &m),
		"a first part of a message is received");
	wire_push(writer, WIRE_OUT(6, 0, big, 10));
	wire_push(writer, WIRE_OUT(5, 1, big, BIG));
	is_int(1, exchange(writer, &m), "another sender's message is received");
	is_int(6, m.type, "another sender's message has its type");
	wire_message_clear(&m);
	is_int(0, partial.got, "the incomplete message is dropped");
	is_int(1, exchange(writer, &m), "the whole message is received");
	is_mem(big, m.body, BIG,
		"the whole message has the bytes of one sender");
	wire_message_clear(&m);
	wire_partial_clear(&partial);
	wire_writer_free(writer);
	wire_writer_free(dead);
}

/* A peer that only ever begins must not hold its receiver. */
static void test_parts_abandoned(void)
{
	struct wire_writer *first = parts_writer(), *second = parts_writer();
	struct wire_message m;

	wire_push(first, WIRE_OUT(5, 1, big, BIG));
	wire_push(second, WIRE_OUT(5, 2, big, BIG));
	wire_flush(first, socks[0]);
	is_int(-EAGAIN, wire_receive(socks[1], &in_parts, &m),
		"a first part is received again");
	wire_flush(second, socks[0]);
	is_int(-EPROTO, wire_receive(socks[1], &in_parts, &m),
		"another message in parts in the middle of one is refused");
	has_str("was followed by another", tarn_fail_message(),
		"the error names the unexpected message");
	wire_partial_clear(&partial);
	wire_writer_free(first);
	wire_writer_free(second);
	fresh();
}

static void part_refused(const struct wire_reader *reader, struct wire_header h,
	size_t size, int n_fds, const char *part, const char *what)
{
	struct wire_message m;

	h.flags |= WIRE_PART;
	frame(h, size, n_fds);
	is_int(-EPROTO, wire_receive(socks[1], reader, &m),
		"a wrong part is refused: %s", what);
	has_str(part, tarn_fail_message(),
		"the error of a wrong part contains the expected words");
	wire_partial_clear(&partial);
}

static void test_wrong_parts(void)
{
	struct wire_header h = head(5, BIG);
	int fds = count_fds(getpid());
	struct wire_message m;

	fresh();
	part_refused(NULL, h, WIRE_INLINE_MAX, 0, "not expected",
		"a part where none is expected");
	part_refused(&in_parts, h, WIRE_INLINE_MAX, 1, "1 descriptors",
		"a part with a descriptor");
	part_refused(&in_parts, h, 0, 0, "has 0 bytes", "an empty part");
	part_refused(&in_parts, h, 1000, 0, "has 1000 bytes",
		"a part that is shorter than a datagram");
	h.size = WIRE_INLINE_MAX;
	part_refused(&in_parts, h, WIRE_INLINE_MAX, 0, "in parts",
		"a part of a message that needs none");
	h.size = BIG;
	h.flags = WIRE_LONG;
	part_refused(&in_parts, h, WIRE_INLINE_MAX, 0, "flags 0x5",
		"a part that names a memfd");
	h.flags = WIRE_PART;
	h.size = WIRE_INLINE_MAX + 10;
	frame(h, WIRE_INLINE_MAX, 0);
	is_int(-EAGAIN, wire_receive(socks[1], &in_parts, &m),
		"a first part is received before a wrong one");
	part_refused(&in_parts, h, 11, 0, "has 11 bytes instead of 10",
		"a last part that is too long");
	is_int(fds, count_fds(getpid()),
		"no descriptor is left after the wrong parts");
}

int main(void)
{
	kit_wire_begin();
	test_parts();
	test_parts_of_a_flush();
	test_parts_interrupted();
	test_parts_abandoned();
	test_wrong_parts();
	kit_wire_end();
	return done(46);
}
