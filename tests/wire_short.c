/* SPDX-License-Identifier: MIT */
/*
 * Messages where memory or descriptors are short for a moment: nothing that is
 * half said is lost, no descriptor stays open, and whoever was not understood
 * is known.
 *
 * The kernel's part is played here, in place of libc's recvmsg and sendmsg.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "tests/limit.h"
#include "tests/tap.h"
#include "tests/wire_kit.h"

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

/* The kernel has no memory: it took nothing, and what is half here stays. */
static void test_kernel_short(int error)
{
	struct wire_message message;
	struct wire_header h = head(WIRE_HELLO, 3);

	fresh();
	h.flags = WIRE_MORE;
	frame(h, 3, 1);
	is_int(0, wire_receive(reader, socks[1], NULL, &message), "one half");
	h.flags = 0;
	frame(h, 3, 0);
	denied = error;
	is_int(-ENOBUFS, wire_receive(reader, socks[1], NULL, &message),
		"recvmsg has error %d: it can be tried again", error);
	denied = 0;
	is_int(1, wire_receive(reader, socks[1], NULL, &message), "the rest");
	is_int(6, message.size, "makes it whole");
	is_int(1, message.n_fds, "with its descriptor");
	wire_message_clear(&message);
}

/* As many of its descriptors fit as there is room for: none is kept, and what
 * follows it is found. */
static void test_few_descriptors(int room)
{
	struct wire_message message = {0};
	struct wire_header h = head(WIRE_HELLO, 3);
	int fds;

	fresh();
	h.flags = WIRE_MORE;
	frame(h, 3, 3);
	h.flags = 0;
	frame(h, 3, 0);
	h.serial = 8;
	frame(h, 3, 1);
	fds = count_fds(getpid());
	room_for_fds = room;
	is_int(0, wire_receive(reader, socks[1], NULL, &message),
		"a frame of which %d descriptors of 3 fit", room);
	is_int(-EMFILE, wire_receive(reader, socks[1], NULL, &message),
		"makes a message that is passed over");
	has_str("ulimit -n", tarn_fail_message(), "with a sentence");
	is_int(7, message.serial, "its serial tells whom it was for");
	is_int(WIRE_HELLO, message.type, "and its type what it was");
	is_int(0, message.n_fds, "it has no descriptor");
	wire_message_clear(&message);
	room_for_fds = -1;
	is_int(fds, count_fds(getpid()), "and none is left open");
	is_int(1, wire_receive(reader, socks[1], NULL, &message), "the next");
	is_int(8, message.serial, "is itself");
	is_int(1, message.n_fds, "with its descriptor");
	wire_message_clear(&message);
}

/* The kernel has no memory to send with: nothing of the queue is lost. */
static void test_send_short(int error)
{
	struct wire_writer *writer = NULL;
	struct wire_message message = {0};
	int fd = open("/dev/null", O_RDONLY);

	fresh();
	wire_writer_new(4096, &writer);
	wire_push(writer, 5, 1, big, 100, &fd, 1);
	deny_send = error;
	ok(wire_is_short(wire_flush(writer, socks[0])),
		"sendmsg has error %d: that is for a moment", error);
	deny_send = 0;
	is_int(1, wire_flush(writer, socks[0]), "then it goes");
	is_int(1, wire_receive(reader, socks[1], NULL, &message), "and comes");
	is_int(1, message.n_fds, "with its descriptor");
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
	is_int(-EMFILE, wire_push(writer, 5, 1, big, 100, &fd, 1),
		"no descriptor can be kept for a message");
	is_int(-ENOBUFS, wire_push(writer, 5, 2, big, BIG, &fd, 1),
		"none is, for one whose last frame has no room");
	setrlimit(RLIMIT_NOFILE, &before);
	is_int(0, (int64_t)wire_writer_held(writer), "nothing is queued");
	fd_close(fd);
	wire_writer_free(writer);
}

int main(void)
{
	kit_begin();
	test_kernel_short(ENOMEM);
	test_kernel_short(ENOBUFS);
	test_few_descriptors(0);
	test_few_descriptors(2);
	test_send_short(ENOMEM);
	test_send_short(ENOBUFS);
	test_send_short(ETOOMANYREFS);
	test_no_room();
	kit_end();
	return done();
}
