/* SPDX-License-Identifier: MIT */
/*
 * A daemon that always sends one more message: what a client reads before a
 * call, and of a connection that has failed, has an end.
 *
 * The daemon's part is played here, in place of libc's recvmsg.
 */
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/store/connection.h"
#include "tests/kit/tap.h"

#define TIMEOUT_MS 1000
#define FLOOD (10 * CONNECTION_UNASKED_MAX) /* "for ever", in this test */

static int flooded = -1;
static int n_read;

/* An answer to a call that was given up. */
static const struct wire_header stale = {
	.magic = WIRE_MAGIC, .type = WIRE_PONG, .serial = 12345};

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	if (fd != flooded)
		return syscall(SYS_recvmsg, fd, message, flags);
	if (n_read == FLOOD) {
		errno = EAGAIN;
		return -1;
	}
	n_read++;
	*(struct wire_header *)message->msg_iov[0].iov_base = stale;
	message->msg_controllen = 0;
	message->msg_flags = 0;
	return sizeof(stale);
}

static void is_bounded(const char *what)
{
	ok(n_read > 0 && n_read <= CONNECTION_UNASKED_MAX,
		"%s: %d messages are read, and no more", what, n_read);
	n_read = 0;
}

int main(void)
{
	struct connection c;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		bail("a socket pair: %m");
	flooded = pair[0];
	is_int(0, connection_init(&c, pair[0], "/the/socket", TIMEOUT_MS),
		"a connection is set up");
	is_int(0, connection_receive_unasked(&c),
		"messages that were not asked for do not end the connection");
	is_bounded("what was not asked for");
	is_int(-ECONNRESET, connection_broken(&c, -ECONNRESET),
		"a socket that fails ends the connection");
	is_bounded("its last words");
	connection_done(&c);
	close(pair[1]);
	return done(5);
}
