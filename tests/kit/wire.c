/* SPDX-License-Identifier: MIT */
/* See wire.h. */
#include "tests/kit/wire.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/kit/tap.h"

int socks[2] = {-1, -1};
unsigned char big[BIG];

static int fds_before;

void kit_wire_begin(void)
{
	fds_before = count_fds(getpid());
	for (size_t i = 0; i < BIG; i++)
		big[i] = (unsigned char)(i * 7 + i / 251);
}

void fresh(void)
{
	fd_close(socks[0]);
	fd_close(socks[1]);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
		    0, socks) < 0)
		bail("socketpair: %m");
}

static void send_it(
	struct wire_header *header, size_t size, const int *fds, int n_fds)
{
	char control[CMSG_SPACE(sizeof(int) * 253)] = {0};
	struct iovec iov[2] = {{header, sizeof(*header)}, {big, size}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
	struct cmsghdr *c = (struct cmsghdr *)(void *)control;

	if (n_fds) {
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n_fds);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n_fds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)n_fds);
	}
	if (sendmsg(socks[0], &msg, 0) < 0)
		bail("sendmsg: %m");
}

void frame(struct wire_header header, size_t size, int n_fds)
{
	int fds[253];

	for (int i = 0; i < n_fds; i++)
		fds[i] = socks[0];
	send_it(&header, size, fds, n_fds);
}

void frame_long(struct wire_header header, int n_fds, int fd)
{
	int fds[253];

	for (int i = 0; i < n_fds; i++)
		fds[i] = i < n_fds - 1 ? socks[0] : fd;
	header.flags |= WIRE_LONG;
	send_it(&header, 0, fds, n_fds);
}

int memory_of(size_t size, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || write(fd, big, size) != (ssize_t)size ||
		fcntl(fd, F_ADD_SEALS, seals) < 0)
		bail("a memfd: %m");
	return fd;
}

struct wire_header head(uint16_t type, uint32_t size)
{
	return (struct wire_header) {WIRE_MAGIC, type, 0, 7, size};
}

void kit_wire_end(void)
{
	socks[0] = fd_close(socks[0]);
	socks[1] = fd_close(socks[1]);
	is_int(fds_before, count_fds(getpid()), "no descriptor is leaked");
}
