/* SPDX-License-Identifier: MIT */
/*
 * Sockets of clients are closed by another process, the dropper.
 *
 * A process that closes the last copy of a socket also closes the descriptors
 * in its queue. A client can send descriptors that hang when they are closed: a
 * TCP socket that lingers, a file whose file system does not answer. All
 * clients depend on the keeper, so the keeper never closes the last copy.
 *
 * The keeper sends the socket to the dropper, closes its own copy, and only
 * then lets the dropper close the one that was sent. So the order is certain.
 * The dropper hands each to the closers of its user (closer.h). Should the
 * dropper hang all the same, or have too much that hangs, it is left behind:
 * the keeper starts another one, and never waits for any.
 */
#include "daemon/keeper/keeper.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/loop/closer.h"
#include "daemon/loop/log.h"

#define CLOSERS 64u   /* picked: users rarely share one */
#define LEFT_MAX 512u /* picked: hanging sockets of one closer */
#define TRIES 2

/* ---- the dropper ------------------------------------------------------- */

/* 1: a message came, with a socket or -1. 0: there are no more messages. */
static int receive(int sock, int *ret_fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	char byte;
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	const struct cmsghdr *c;
	ssize_t n;

	do
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
	*ret_fd = -1;
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fd, CMSG_DATA(c), sizeof(*ret_fd));
	return n > 0;
}

static struct closer *closer_of(int fd)
{
	struct ucred peer = {.uid = 0};
	socklen_t size = sizeof(peer);

	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
	return closer_get(peer.uid % CLOSERS);
}

/* So many hanging sockets of one closer end a dropper, while it still has
 * descriptors left to receive others with. */
static unsigned left_max(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return LEFT_MAX;
	return (unsigned)MIN(LEFT_MAX, limit.rlim_cur / 4);
}

static void no_memory(void *arg)
{
	(void)arg;
}

/* Each socket is closed when the next message has come: the keeper has closed
 * its copy by then. */
_Noreturn void keeper_dropper_run(int sock)
{
	unsigned max = left_max();
	int fd, last = -1;
	bool many = false;

	if (closers_begin(CLOSERS, no_memory, NULL) < 0)
		_exit(1);
	while (!many && receive(sock, &fd)) {
		if (last >= 0) {
			struct closer *closer = closer_of(last);

			closer_close(closer, last);
			closer_is_stuck(closer, max, &many);
		}
		last = fd;
	}
	_exit(0);
}

/* ---- the keeper -------------------------------------------------------- */

/* One message, with a descriptor unless that is -1. Never blocks. */
static bool send_to_dropper(const struct keeper *keeper, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {.bytes = {0}};
	struct iovec iov = {"", 1};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (fd >= 0) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	}
	do
		n = sendmsg(keeper->dropper, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n > 0;
}

/* The kernel closes the descriptors in its queue when it ends. */
static void leave_behind(struct keeper *keeper)
{
	keeper->dropper = fd_close(keeper->dropper);
}

static bool has_taken(struct keeper *keeper, int fd)
{
	if (keeper->dropper < 0)
		keeper->dropper = keeper_fork_dropper(keeper);
	if (keeper->dropper < 0)
		return false;
	if (send_to_dropper(keeper, fd))
		return true;
	leave_behind(keeper);
	return false;
}

int keeper_drop(struct keeper *keeper, int fd)
{
	bool taken = false;

	if (fd < 0)
		return -1;
	for (int i = 0; i < TRIES && !taken; i++)
		taken = has_taken(keeper, fd);
	if (!taken) {
		/* Kept open rather than a chance to hang. */
		log_error("close_failed", log_i64("fd", fd),
			log_text("error", tarn_fail_message()));
		return -1;
	}
	fd_close(fd);
	/* Its end is as good a sign as this message. */
	if (!send_to_dropper(keeper, -1))
		leave_behind(keeper);
	return -1;
}

void keeper_drop_end(struct keeper *keeper)
{
	leave_behind(keeper);
}
