/* SPDX-License-Identifier: MIT */
/*
 * Sockets of clients are closed by another process, the dropper; so are
 * descriptors of devices' memory, whose driver may take its time.
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
 *
 * The kernel may refuse to send a socket: other processes of the daemon's user
 * can use up what that user may have in flight, for as long as they like. A
 * child inherits sockets without any message. So what cannot be sent stays in
 * the keeper for a moment, and then a new dropper is forked, which has all of it
 * from its birth; the keeper closes its own copies, and tells that dropper. If
 * no process can be forked, the same is tried again and again. When as much
 * stays meanwhile as there may be clients, no more clients are accepted, so
 * there is an end to it.
 *
 * Something of each such dropper may hang, and stay. So as long as the kernel
 * refuses, the next one comes after twice the time, up to a minute, or when
 * many sockets have come together: then there are no more of these than hanging
 * sockets make necessary anyway. The peers wait for none of this: they see the
 * end when the socket is shut down.
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
/* How long sockets are collected for one new dropper, at first and at most.
 * Picked: ten forks a second are no burden, and a day of such minutes leaves no
 * more processes than there may be clients. */
#define COLLECT_NS 100000000ull
#define COLLECT_MAX_NS 60000000000ull

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

/* False: it has too much that hangs, or that comes faster than it is closed. What
 * it has then the kernel closes, and the keeper starts another. */
static bool close_one(int fd, unsigned max)
{
	struct closer *closer = closer_of(fd);
	bool many;

	if (!closer_has_room(closer))
		return false;
	closer_close(closer, fd);
	closer_is_stuck(closer, max, &many);
	return !many;
}

/* Each socket is closed when the next message has come: the keeper has closed
 * its copy by then. Those that it was forked with as well. What is left when it
 * ends, the kernel closes. */
_Noreturn void keeper_dropper_run(int sock, const int *inherited, int n)
{
	unsigned max = left_max();
	int fd, last = -1;
	bool going = true;

	if (closers_begin(CLOSERS, no_memory, NULL) < 0)
		_exit(1);
	while (going && receive(sock, &fd)) {
		if (last >= 0)
			going = close_one(last, max);
		for (; going && n; n--)
			going = close_one(*inherited++, max);
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
	if (send_to_dropper(keeper, fd)) {
		keeper->drop_pause = 0;
		return true;
	}
	/* Another dropper would not be sent it either. */
	if (errno != ETOOMANYREFS)
		leave_behind(keeper);
	return false;
}

/* Its end is as good a sign as this message. */
static void tell_dropper(struct keeper *keeper)
{
	if (!send_to_dropper(keeper, -1))
		leave_behind(keeper);
}

static void close_own(void *arg, const struct stored_fd *stored)
{
	struct msg_fd_key key = stored->key;

	fd_store_drop(arg, &key);
}

/* A socket that is kept for later: it may be possible now. */
static void send_one(void *arg, const struct stored_fd *stored)
{
	struct keeper *keeper = arg;
	struct msg_fd_key key = stored->key;

	if (keeper->dropper < 0 || !send_to_dropper(keeper, stored->fd))
		return;
	keeper->drop_pause = 0;
	fd_store_drop(&keeper->undropped, &key);
	tell_dropper(keeper);
}

static void drop_rest(void *arg)
{
	struct keeper *keeper = arg;

	fd_store_each(&keeper->undropped, send_one, keeper);
	if (!keeper->undropped.n)
		return;
	keeper_drop_rest(keeper);
	if (!keeper->undropped.n)
		keeper->drop_pause =
			MIN(MAX(2 * keeper->drop_pause, 2 * COLLECT_NS),
				COLLECT_MAX_NS);
}

/* So many are no less than what ends a dropper, or half of what keeps clients
 * from being accepted. */
static bool are_many(const struct keeper *keeper)
{
	return keeper->undropped.n >= MIN(LEFT_MAX, keeper->clients.max / 2);
}

static void collect_until_later(struct keeper *keeper)
{
	uint64_t pause = are_many(keeper) ? COLLECT_NS
					  : MAX(keeper->drop_pause, COLLECT_NS);

	if (!keeper->drop_at.at || keeper->drop_at.at > keeper_now() + pause)
		keeper_call_in(keeper, &keeper->drop_at, pause, drop_rest);
}

void keeper_drop_rest(struct keeper *keeper)
{
	int dropper;

	if (!keeper->undropped.n)
		return;
	dropper = keeper_fork_dropper(keeper);
	if (dropper < 0)
		return collect_until_later(keeper);
	/* It was killed, or it has what the keeper is about to close: the fork
	 * waits until a child has closed all but that. */
	leave_behind(keeper);
	keeper->dropper = dropper;
	fd_store_each(&keeper->undropped, close_own, &keeper->undropped);
	tell_dropper(keeper);
}

/* Takes fd. A number that is open names one socket, so it is the key. */
static void keep_for_later(struct keeper *keeper, int fd)
{
	const struct msg_fd_key key = {.a = (uint64_t)fd};

	if (fd_store_make_room(&keeper->undropped, fd) < 0) {
		/* Kept open rather than a chance to hang. The room was reserved
		 * when the keeper began, so the limit was raised since. */
		log_error("close_failed", log_i64("fd", fd),
			log_text("error", tarn_fail_message()));
		return;
	}
	fd_store_put(&keeper->undropped, &key, fd);
	collect_until_later(keeper);
}

int keeper_drop(struct keeper *keeper, int fd)
{
	bool taken = false;

	if (fd < 0)
		return -1;
	for (int i = 0; i < TRIES && !taken; i++)
		taken = has_taken(keeper, fd);
	if (!taken) {
		keep_for_later(keeper, fd);
		return -1;
	}
	fd_close(fd);
	tell_dropper(keeper);
	return -1;
}

void keeper_drop_end(struct keeper *keeper)
{
	leave_behind(keeper);
}
