/* SPDX-License-Identifier: MIT */
/*
 * Watching PSI. A trigger is a line written into the file of pressure, and an
 * urgent event of its descriptor, which the loop does not know of; so an epoll
 * of its own stands between, which is readable when there is one.
 */
#include "daemon/loop/psi.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fd.h"

/* 150 ms of stalling in two seconds: picked. A process that is not root must
 * ask for windows of multiples of two seconds. */
#define TRIGGER "some 150000 2000000"

struct psi_watch {
	int fds[PSI_TRIGGERS];
	int epoll;
	struct loop_watch *watch;
	void (*fn)(void *arg);
	void *arg;
};

static int open_trigger(const char *path)
{
	_cleanup_fd_ int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);

	/* With the NUL at its end. */
	if (fd < 0 || write(fd, TRIGGER, sizeof(TRIGGER)) < 0)
		return -errno;
	return fd_steal(&fd);
}

/* Our cgroup's, where that is version 2 and can be seen. */
static int open_own(void)
{
	char line[2048], path[2200] = "";
	FILE *file = fopen("/proc/self/cgroup", "re");

	if (!file)
		return -errno;
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = 0;
		if (strncmp(line, "0::/", 4) == 0 && line[4])
			snprintf(path, sizeof(path),
				"/sys/fs/cgroup%s/memory.pressure", line + 3);
	}
	fclose(file);
	return path[0] ? open_trigger(path) : -ENOENT;
}

int psi_open(unsigned int which)
{
	return which ? open_own() : open_trigger("/proc/pressure/memory");
}

bool psi_ended(int fd)
{
	struct pollfd p = {.fd = fd};

	return poll(&p, 1, 0) == 1 && p.revents & POLLERR;
}

static void on_trigger(void *arg, unsigned ready)
{
	struct psi_watch *pressure = arg;
	struct epoll_event event;

	if (epoll_wait(pressure->epoll, &event, 1, 0) != 1)
		return;
	if (!(event.events & EPOLLERR))
		return pressure->fn(pressure->arg);
	/* The cgroup is gone: there is nothing to watch any more. */
	epoll_ctl(pressure->epoll, EPOLL_CTL_DEL, pressure->fds[event.data.u32],
		NULL);
}

static int watch(struct psi_watch *pressure)
{
	int n = 0;

	for (uint32_t i = 0; i < ARRAY_SIZE(pressure->fds); i++) {
		struct epoll_event event = {.events = EPOLLPRI, .data.u32 = i};

		if (pressure->fds[i] >= 0 &&
			epoll_ctl(pressure->epoll, EPOLL_CTL_ADD,
				pressure->fds[i], &event) == 0)
			n++;
	}
	return n;
}

struct psi_watch *psi_unwatch(struct psi_watch *pressure)
{
	if (!pressure)
		return NULL;
	loop_unwatch(pressure->watch);
	fd_close(pressure->epoll);
	free(pressure);
	return NULL;
}

struct psi_watch *psi_watch(struct loop *loop, const int fds[PSI_TRIGGERS],
	void (*fn)(void *arg), void *arg)
{
	struct psi_watch *pressure = calloc(1, sizeof(*pressure));

	if (!pressure)
		return NULL;
	*pressure = (struct psi_watch) {.fn = fn, .arg = arg};
	memcpy(pressure->fds, fds, sizeof(pressure->fds));
	pressure->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (pressure->epoll < 0 || watch(pressure) == 0 ||
		loop_watch(loop, pressure->epoll, LOOP_READ, on_trigger,
			pressure, &pressure->watch) < 0)
		return psi_unwatch(pressure);
	return pressure;
}
