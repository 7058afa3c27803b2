/* SPDX-License-Identifier: MIT */
/*
 * Socket activation and readiness. Both are a few lines over ordinary system
 * calls and a documented environment, so they need no library, and work under
 * any manager that supports the protocol.
 */
#include "daemon/keeper/systemd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"

#define FIRST_FD 3 /* SD_LISTEN_FDS_START */

/* ---- the socket ------------------------------------------------------- */

static long number_of(const char *name)
{
	const char *text = getenv(name);
	char *end;
	long n = text ? strtol(text, &end, 10) : 0;

	return text && *text && !*end ? n : 0;
}

static int option_of(int fd, int option)
{
	socklen_t size = sizeof(int);
	int value = -1;

	if (getsockopt(fd, SOL_SOCKET, option, &value, &size) < 0)
		return -1;
	return value;
}

static int check_socket(int fd, const char *path)
{
	struct sockaddr_un address = {0};
	socklen_t size = sizeof(address) - 1;

	if (option_of(fd, SO_DOMAIN) != AF_UNIX ||
		option_of(fd, SO_TYPE) != SOCK_SEQPACKET ||
		option_of(fd, SO_ACCEPTCONN) != 1)
		return tarn_fail(EINVAL,
			"descriptor %d was passed to listen at, and is no "
			"listening SOCK_SEQPACKET socket of AF_UNIX "
			"(ListenSequentialPacket= in the socket unit)",
			fd);
	if (getsockname(fd, (struct sockaddr *)&address, &size) < 0)
		return tarn_fail(
			errno, "descriptor %d: %s", fd, tarn_errno_text(errno));
	if (strcmp(address.sun_path, path) != 0)
		return tarn_fail(EINVAL,
			"the socket that was passed is %s, and --socket says "
			"%s; they must be the same",
			address.sun_path, path);
	return 0;
}

int systemd_socket(const char *path, int *ret_fd)
{
	bool ours = number_of("LISTEN_PID") == getpid();
	long n = number_of("LISTEN_FDS");
	int r;

	/* Not for children, nor for what they start. */
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	if (!ours || n <= 0)
		return 0;
	if (n > 1)
		return tarn_fail(EINVAL,
			"%ld sockets were passed; one is what is listened at",
			n);
	r = check_socket(FIRST_FD, path);
	if (r < 0)
		return r;
	if (fcntl(FIRST_FD, F_SETFD, FD_CLOEXEC) < 0 ||
		fcntl(FIRST_FD, F_SETFL,
			fcntl(FIRST_FD, F_GETFL) | O_NONBLOCK) < 0)
		return tarn_fail(errno, "descriptor %d: %s", FIRST_FD,
			tarn_errno_text(errno));
	*ret_fd = FIRST_FD;
	return 1;
}

/* ---- readiness -------------------------------------------------------- */

void systemd_notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t n = path ? strlen(path) : 0;
	_cleanup_fd_ int fd = -1;

	if (n < 2 || n >= sizeof(address.sun_path))
		return;
	memcpy(address.sun_path, path, n);
	if (path[0] == '@')
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	/* A manager that does not receive it has a time-out of its own. */
	if (fd >= 0)
		sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT,
			(struct sockaddr *)&address,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) +
				    n));
}

void systemd_notify_reloading(uint64_t now_ns)
{
	char text[64];

	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
		now_ns / 1000);
	systemd_notify(text);
}
