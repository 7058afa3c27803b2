/* SPDX-License-Identifier: MIT */
/*
 * The launcher closes descriptors when its owner has ended: all those for whose
 * end other processes wait, and none that can hang (closer.c).
 *
 * Each kind is recognised by a call that succeeds only for this kind. None of
 * these calls asks a file system, which may be a client's.
 */
#include "daemon/loop/closer_end.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/checked.h"
#include "daemon/loop/fd_store.h"

/* Only a ring lets itself be entered. Nothing is asked of it. */
static bool is_ring(int fd)
{
	return syscall(SYS_io_uring_enter, fd, 0, 0, 0, NULL, 0) == 0;
}

/* Others want this memory, or wait for the end of this pipe. Closing these
 * closes nothing else. */
static bool has_no_queue(int fd, pid_t keeper)
{
	(void)keeper;
	return fcntl(fd, F_GET_SEALS) >= 0 || fcntl(fd, F_GETPIPE_SZ) >= 0 ||
	       is_ring(fd);
}

/* One end of a pair that the keeper made: the other end waits for the end of
 * this one. Sockets of clients stay open: closing one also closes the
 * descriptors that its client has put into its queue, and no process waits for
 * the end of this copy, since the keeper has another. */
static bool is_own_socket(int fd, pid_t keeper)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
	       peer.pid == keeper;
}

/* Looked at one by one where there is no /proc (any more). */
static int descriptors_max(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return (int)FD_STORE_MAX;
	return (int)MIN(limit.rlim_cur, FD_STORE_MAX);
}

static void close_those(bool (*which)(int fd, pid_t keeper), pid_t keeper)
{
	DIR *dir = opendir("/proc/self/fd");
	int max = dir ? 0 : descriptors_max();
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		int fd = atoi(entry->d_name);

		if (entry->d_name[0] != '.' && fd != dirfd(dir) &&
			which(fd, keeper))
			close(fd);
	}
	if (dir)
		closedir(dir);
	for (int fd = 0; fd < max; fd++)
		if (which(fd, keeper))
			close(fd);
}

void closer_end(pid_t keeper)
{
	close_those(has_no_queue, keeper);
	close_those(is_own_socket, keeper);
}
