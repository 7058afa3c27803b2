/* SPDX-License-Identifier: MIT */
/*
 * tarnd on a machine where the kernel refuses to send descriptors as long as a
 * file is there. It is linked so that calls of sendmsg come here
 * (end_refused.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

ssize_t __real_sendmsg(int sock, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int sock, const struct msghdr *msg, int flags);

ssize_t __wrap_sendmsg(int sock, const struct msghdr *msg, int flags)
{
	const char *path = getenv("TARN_TEST_REFUSES");

	if (!msg->msg_controllen || !path || access(path, F_OK) < 0)
		return __real_sendmsg(sock, msg, flags);
	errno = ETOOMANYREFS;
	return -1;
}
