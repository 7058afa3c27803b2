/* SPDX-License-Identifier: MIT */
/*
 * Messages while memory or descriptors are short: a message that can wait is
 * not lost, no descriptor stays open, and the sender of a message that was
 * lost is known.
 *
 * The kernel's part is played here, in place of libc's recvmsg and sendmsg.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "tests/kit/limit.h"
#include "tests/kit/tap.h"
#include "tests/kit/wire.h"

static int denied;            /* the error that recvmsg shall have; 0: none */
static int deny_send;         /* the same for sendmsg */
static int room_for_fds = -1; /* in this process; -1: enough */

/* As the kernel does when a process may have no more. */
static void cut_fds(struct msghdr *message)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(message);
	int n = c ? (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int)) : 0;
	int fd;

	for (int i = room_for_fds; i < n; i++) {
		memcpy(&fd, CMSG_DATA(c) + sizeof(int) * (size_t)i, sizeof(fd));
		close(fd);
		message->msg_flags |= MSG_CTRUNC;
	}
	if (n > room_for_fds && room_for_fds)
		c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)room_for_fds);
	else if (n > room_for_fds)
		message->msg_controllen = 0;
}

/* Instead of libc's, for all that is linked here. */
ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	ssize_t r;

	if (denied) {
		errno = denied;
		return -1;
	}
	r = syscall(SYS_recvmsg, fd, message, flags);
	if (r >= 0 && room_for_fds >= 0)
		cut_fds(message);
	return r;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	if (deny_send) {
		errno = deny_send;
		return -1;
	}
	return syscall(SYS_sendmsg, fd, message, flags);
}

/* The kernel has no memory: it took nothing. */
static void test_kernel_short(int error)
{
	struct wire_message message;

	fresh();
	frame(head(WIRE_HELLO, 3), 3, 1);
	denied = error;
	is_int(-ENOBUFS, wire_receive(socks[1], NULL, &message),
		"recvmsg fails with error %d, which asks to try again", error);
	denied = 0;
	is_int(1, wire_receive(socks[1], NULL, &message),
		"the message is received afterwards");
	is_int(3, message.size, "the message has all its bytes");
	is_int(1, message.n_fds, "the message has its descriptor");
	wire_message_clear(&message);
}

/* As many of its descriptors fit as there is room for: none is kept, and what
 * follows it is found. The last of a long one is its body. */
static void test_few_descriptors(int room, bool is_long)
{
	struct wire_message message = {0};
	struct wire_header h = head(WIRE_HELLO, 3);
	int fds, fd = memory_of(3, SEALED);

	fresh();
	if (is_long)
		frame_long(h, 3, fd);
	else
		frame(h, 3, 3);
	h.serial = 8;
	frame(h, 3, 1);
	fds = count_fds(getpid());
	room_for_fds = room;
	is_int(-EMFILE, wire_receive(socks[1], NULL, &message),
		"a message of which %d descriptors of 3 fit is lost", room);
	has_str("ulimit -n", tarn_fail_message(),
		"the error contains 'ulimit -n'");
	is_int(7, message.serial, "the lost message's serial is known");
	is_int(WIRE_HELLO, message.type,
		"a message without its descriptors keeps its type");
	is_int(0, message.n_fds, "the lost message has no descriptor");
	wire_message_clear(&message);
	room_for_fds = -1;
	is_int(fds, count_fds(getpid()), "no descriptor is left open");
	is_int(1, wire_receive(socks[1], NULL, &message),
		"the next message is received");
	is_int(8, message.serial, "the next message has its serial");
	is_int(1, message.n_fds, "the next message has its descriptor");
	wire_message_clear(&message);
	fd_close(fd);
}

/* The kernel has no memory to send with: nothing of the queue is lost. */
static void test_send_short(int error)
{
	struct wire_writer *writer = NULL;
	struct wire_message message = {0};
	int fd = open("/dev/null", O_RDONLY);

	fresh();
	wire_writer_new(4096, &writer);
	wire_push(writer, WIRE_OUT_FDS(5, 1, big, 100, &fd, 1));
	deny_send = error;
	ok(wire_is_short(wire_flush(writer, socks[0])),
		"sendmsg fails with error %d, which passes", error);
	deny_send = 0;
	is_int(1, wire_flush(writer, socks[0]),
		"the message is sent afterwards");
	is_int(1, wire_receive(socks[1], NULL, &message),
		"the message is received once it could be sent");
	is_int(1, message.n_fds, "the delayed message has its descriptor");
	wire_message_clear(&message);
	fd_close(fd);
	wire_writer_free(writer);
}

/* What the queue has no room for costs nothing, however often it is tried. */
static void test_no_room(void)
{
	struct wire_writer *writer = NULL;
	int fd = open("/dev/null", O_RDONLY);
	struct rlimit before;

	fresh();
	wire_writer_new(BIG - 1, &writer);
	before = limit_to(RLIMIT_NOFILE, limit_next_fd());
	is_int(-EMFILE, wire_push(writer, WIRE_OUT_FDS(5, 1, big, 100, &fd, 1)),
		"a message is refused when no descriptor can be kept for it");
	is_int(-ENOBUFS,
		wire_push(writer, WIRE_OUT_FDS(5, 2, big, BIG, &fd, 1)),
		"a message beyond the queue's limit keeps no descriptor");
	setrlimit(RLIMIT_NOFILE, &before);
	is_int(0, (int64_t)wire_writer_held(writer),
		"a refused message is not queued");
	fd_close(fd);
	wire_writer_free(writer);
}

/* No descriptor for a long body: a message that is queued waits for one, and
 * nothing of it is lost; others are told at once. */
static void test_no_memfd(void)
{
	struct wire_out out = *WIRE_OUT(5, 1, big, BIG);
	struct wire_writer *writer = NULL, *full = NULL;
	struct wire_message message;
	struct rlimit before;
	int n = 0;

	fresh();
	wire_writer_new(2 * BIG, &writer);
	wire_writer_new(BIG, &full);
	before = limit_to(RLIMIT_NOFILE, limit_next_fd());
	is_int(-EMFILE, wire_send(socks[0], &out),
		"a long message without a descriptor for it is refused");
	has_str("300001 bytes", tarn_fail_message(),
		"the error says how long the message is");
	is_int(-EMFILE, wire_out_prepare(&out),
		"a long message cannot be prepared without descriptors");
	is_int(0, wire_push(writer, &out),
		"a long message is queued without descriptors");
	ok(wire_is_short(wire_flush(writer, socks[0])),
		"a message that lacks descriptors stays queued");
	while (wire_try(full, socks[0], WIRE_OUT(6, 2, big, 1000)) == 1)
		n++;
	is_int(0, wire_flush(writer, socks[0]),
		"a long message is not laid into a memfd for a full socket");
	setrlimit(RLIMIT_NOFILE, &before);
	for (; n; n--) {
		wire_receive(socks[1], NULL, &message);
		wire_message_clear(&message);
	}
	wire_writer_free(full);
	is_int(1, wire_flush(writer, socks[0]),
		"the long message is sent when there is a descriptor");
	is_int(1, wire_receive(socks[1], NULL, &message),
		"the message is received when there is a descriptor");
	is_mem(big, message.body, BIG, "the long message has all its bytes");
	wire_message_clear(&message);
	wire_writer_free(writer);
}

/* No file may be so large: told before the kernel would kill for it. */
static void test_file_limit(void)
{
	struct wire_writer *writer = NULL;
	struct rlimit before;

	fresh();
	wire_writer_new(2 * BIG, &writer);
	before = limit_to(RLIMIT_FSIZE, BIG - 1);
	is_int(-EFBIG, wire_send(socks[0], WIRE_OUT(5, 1, big, BIG)),
		"a message longer than the limit on files is refused");
	has_str("ulimit -f", tarn_fail_message(),
		"the error contains 'ulimit -f'");
	is_int(-EFBIG, wire_push(writer, WIRE_OUT(5, 1, big, BIG)),
		"a message that is too long is not queued");
	is_int(0, wire_send(socks[0], WIRE_OUT(5, 1, big, WIRE_INLINE_MAX)),
		"a message in parts needs no file and is sent");
	setrlimit(RLIMIT_FSIZE, &before);
	wire_writer_free(writer);
}

/* In parts it is no file. */
static void test_no_file(void)
{
	struct wire_writer *writer = NULL;
	struct rlimit before;

	fresh();
	wire_writer_new(2 * BIG, &writer);
	wire_writer_in_parts(writer);
	before = limit_to(RLIMIT_FSIZE, BIG - 1);
	is_int(0, wire_push(writer, WIRE_OUT(5, 1, big, BIG)),
		"a message in parts is queued under a limit on files");
	setrlimit(RLIMIT_FSIZE, &before);
	wire_writer_free(writer);
}

#ifdef __SANITIZE_ADDRESS__
static void test_no_memory_for_parts(void)
{
	skip(6, "AddressSanitizer ends a process that has no memory");
}
#else
/* A message in parts for which there is no memory: it alone is lost. */
static void test_no_memory_for_parts(void)
{
	struct wire_partial partial = {0};
	const struct wire_reader reader = {.partial = &partial};
	struct wire_header h = head(5, WIRE_MESSAGE_MAX);
	struct wire_message m = {0};
	struct rlimit before;
	void *volatile memory; /* so that it is really asked for */
	int r;

	fresh();
	h.flags = WIRE_PART;
	before = limit_to(RLIMIT_DATA, WIRE_MESSAGE_MAX);
	memory = malloc(WIRE_MESSAGE_MAX);
	if (memory) {
		setrlimit(RLIMIT_DATA, &before);
		free(memory);
		skip(6, "no limit holds for this allocator (valgrind's)");
		return;
	}
	for (uint32_t at = 0; at < h.size; at += WIRE_INLINE_MAX) {
		uint32_t left = h.size - at;

		frame(h, MIN(left, WIRE_INLINE_MAX), 0);
		r = wire_receive(socks[1], &reader, &m);
		if (r != -EAGAIN)
			break;
	}
	setrlimit(RLIMIT_DATA, &before);
	is_int(-ENOMEM, r, "a message in parts without memory for it is lost");
	is_int(7, m.serial,
		"the lost message's serial tells which request it answered");
	is_int(5, m.type,
		"the lost message's type tells what kind of reply it was");
	is_int(0, m.size, "the lost message has no body");
	wire_message_clear(&m);
	frame(head(6, 3), 3, 0);
	is_int(1, wire_receive(socks[1], &reader, &m),
		"the message behind the lost one is received");
	is_int(3, m.size, "the message behind the lost one is whole");
	wire_message_clear(&m);
	wire_partial_clear(&partial);
}
#endif

int main(void)
{
	kit_wire_begin();
	test_kernel_short(ENOMEM);
	test_kernel_short(ENOBUFS);
	for (int is_long = 0; is_long < 2; is_long++) {
		test_few_descriptors(0, is_long);
		test_few_descriptors(2, is_long);
	}
	test_send_short(ENOMEM);
	test_send_short(ENOBUFS);
	test_send_short(ETOOMANYREFS);
	test_no_room();
	test_no_memfd();
	test_file_limit();
	test_no_file();
	test_no_memory_for_parts();
	kit_wire_end();
	return done(80);
}
