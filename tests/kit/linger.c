/* SPDX-License-Identifier: MIT */
#include "tests/kit/linger.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static int peers[16]; /* that do not read */
static int n_peers;

static void fill(int fd)
{
	static const char zeros[65536];

	while (send(fd, zeros, sizeof(zeros), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		;
}

int lingering(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct linger linger = {.l_onoff = 1, .l_linger = 3600};
	socklen_t size = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (listener < 0 || fd < 0 ||
		bind(listener, (struct sockaddr *)&address, size) < 0 ||
		listen(listener, 1) < 0 ||
		getsockname(listener, (struct sockaddr *)&address, &size) < 0 ||
		connect(fd, (struct sockaddr *)&address, size) < 0)
		return -1;
	peers[n_peers++] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	close(listener);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	fill(fd);
	return fd;
}

void let_go(void)
{
	while (n_peers)
		close(peers[--n_peers]);
}
