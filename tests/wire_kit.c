/* SPDX-License-Identifier: MIT */
/* See wire_kit.h. */
#include "tests/wire_kit.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/tap.h"

int socks[2] = {-1, -1};
struct wire_reader *reader;
unsigned char big[BIG];

static int fds_before;

void kit_begin(void)
{
	fds_before = count_fds(getpid());
	for (size_t i = 0; i < BIG; i++)
		big[i] = (unsigned char)(i * 7 + i / 251);
}

void fresh(void)
{
	fd_close(socks[0]);
	fd_close(socks[1]);
	reader = wire_reader_free(reader);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
		    0, socks) < 0 ||
		wire_reader_new(&reader) < 0)
		bail("socketpair: %m");
}

void frame(struct wire_header header, size_t size, int n_fds)
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

struct wire_header head(uint16_t type, uint32_t size)
{
	return (struct wire_header) {WIRE_MAGIC, type, 0, 7, size};
}

void kit_end(void)
{
	reader = wire_reader_free(reader);
	socks[0] = fd_close(socks[0]);
	socks[1] = fd_close(socks[1]);
	is_int(fds_before, count_fds(getpid()), "no descriptor leaks");
}
