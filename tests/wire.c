/* SPDX-License-Identifier: MIT */
/*
 * Messages over a real socket: whole ones arrive whole, in one frame or many;
 * everything else is refused with a sentence, and no descriptor stays open.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "shm/wire.h"
#include "tests/tap.h"

#define BIG 300001

static int socks[2] = {-1, -1};
static struct wire_reader *reader;
static unsigned char big[BIG];

static int denied; /* the error that recvmsg shall have; 0: none */

/* Instead of libc's, for all that is linked here. */
ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	if (denied) {
		errno = denied;
		return -1;
	}
	return syscall(SYS_recvmsg, fd, message, flags);
}

static int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (dir && readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void fresh(void)
{
	fd_close(socks[0]);
	fd_close(socks[1]);
	reader = wire_reader_free(reader);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
		    0, socks) < 0 ||
		wire_reader_new(&reader) < 0)
		bail("socketpair: %m");
}

/* A frame as no honest peer sends it. */
static void frame(struct wire_header header, size_t size, int n_fds)
{
	char control[CMSG_SPACE(sizeof(int) * 253)] = {0};
	struct iovec iov[2] = {{&header, sizeof(header)}, {big, size}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
	struct cmsghdr *c = (struct cmsghdr *)(void *)control;

	if (n_fds) {
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n_fds);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n_fds);
		for (int i = 0; i < n_fds; i++)
			memcpy(CMSG_DATA(c) + sizeof(int) * (size_t)i,
				&socks[0], sizeof(int));
	}
	if (sendmsg(socks[0], &msg, 0) < 0)
		bail("sendmsg: %m");
}

static struct wire_header head(uint16_t type, uint32_t size)
{
	return (struct wire_header) {WIRE_MAGIC, type, 0, 7, size};
}

static uint32_t only_hello(uint16_t type)
{
	return type == WIRE_HELLO ? 16 : 0;
}

static void refused(int error, const char *part, const char *what)
{
	struct wire_message message;
	int fds = count_fds();
	int r = wire_receive(reader, socks[1], only_hello, &message);

	is_int(-error, r, "%s is refused", what);
	has_str(part, tarn_fail_message(), "with a sentence");
	is_int(fds, count_fds(), "and leaves no descriptor");
}

static void test_refused(void)
{
	struct wire_header h;
	struct wire_message message;

	fresh();
	is_int(-EAGAIN, wire_receive(reader, socks[1], NULL, &message),
		"nothing is there yet");
	h = head(WIRE_HELLO, 16);
	h.magic = 0x4547;
	frame(h, 16, 3);
	refused(EPROTO, "0x4547", "another magic");
	if (send(socks[0], "GET /", 5, 0) != 5)
		bail("send: %m");
	refused(EPROTO, "5 bytes", "half a header");
	frame(head(WIRE_HELLO, 16), 12, 1);
	refused(EPROTO, "says 16", "half a body");
	frame(head(WIRE_HELLO, 17), 17, 2);
	refused(EMSGSIZE, "16 are allowed", "a body over its type's limit");
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
	frame(head(WIRE_HELLO, WIRE_FRAME_MAX), WIRE_FRAME_MAX, 4);
	refused(EMSGSIZE, "65536", "a frame over the limit");
	frame(head(WIRE_HELLO, 16), 16, WIRE_FDS_MAX + 1);
	refused(ETOOMANYREFS, "64", "one descriptor too many");
	frame(head(WIRE_HELLO, 16), 16, 200);
	refused(ETOOMANYREFS, "64", "many too many");

	h = head(WIRE_HELLO, 8);
	h.flags = WIRE_MORE;
	frame(h, 8, 2);
	is_int(0, wire_receive(reader, socks[1], only_hello, &message),
		"the first of two frames");
	h.serial = 8;
	frame(h, 8, 0);
	{
		int fds = count_fds();

		is_int(-EPROTO,
			wire_receive(reader, socks[1], only_hello, &message),
			"another message before it is whole");
		is_int(fds - 2, count_fds(), "closes what came before");
	}
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

static void test_queue(void)
{
	struct wire_writer *writer = NULL;
	struct wire_message message;
	int fds, r = 0, flushes = 0, fd = open("/dev/null", O_RDONLY);
	struct stat a, b;

	fresh();
	fds = count_fds();
	wire_writer_new(BIG + 65536, &writer);
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
	is_int(fds + 1, count_fds(), "one descriptor is kept");
	fstat(fd, &a);
	fd = fd_close(fd);
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
	is_int(1, message.n_fds, "with its descriptor");
	fd = wire_take_fd(&message, 0);
	ok(fstat(fd, &b) == 0 && a.st_rdev == b.st_rdev, "which is that file");
	is_int(FD_CLOEXEC, fcntl(fd, F_GETFD), "and CLOEXEC");
	is_int(-1, wire_take_fd(&message, 0), "taken once");
	is_int(-1, wire_take_fd(&message, 1), "and there is no other");
	wire_message_clear(&message);
	fd = fd_close(fd);
	is_int(1, wire_flush(writer, socks[0]), "all is away");
	ok(wire_writer_empty(writer), "the queue is empty");
	is_int(1, wire_receive(reader, socks[1], NULL, &message), "the last");
	is_int(0, message.size, "is empty");
	wire_message_clear(&message);

	/* A peer that does not read: the socket fills up, nothing blocks. */
	do
		r = wire_push(writer, 5, 1, big, 50000, &socks[0], 1);
	while (r == 0 && (r = wire_flush(writer, socks[0])) == 1);
	is_int(0, r, "a full socket is no error");
	ok(!wire_writer_empty(writer), "what it did not take is kept");
	fresh();
	is_int(-EPIPE,
		(socks[1] = fd_close(socks[1]), wire_flush(writer, socks[0])),
		"a peer that is gone is one");
	writer = wire_writer_free(writer);
	fresh();
	is_int(fds - 1, count_fds(), "and no descriptor is left");
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

int main(void)
{
	int fds = count_fds();

	for (size_t i = 0; i < BIG; i++)
		big[i] = (unsigned char)(i * 7 + i / 251);
	test_refused();
	test_queue();
	test_beside();
	test_kernel_short(ENOMEM);
	test_kernel_short(ENOBUFS);
	reader = wire_reader_free(reader);
	fd_close(socks[0]);
	fd_close(socks[1]);
	is_int(fds, count_fds(), "no descriptor leaks");
	return done();
}
