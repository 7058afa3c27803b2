/* SPDX-License-Identifier: MIT */
/*
 * Connects to a daemon's socket, after the checks without which it is not
 * trusted.
 *
 * A path can be raced, a peer's credentials cannot. The check of the folder
 * ensures that no other user can put a socket there or remove this user's; the
 * uid that the kernel reports for the listening process decides. A uid decides
 * nothing if it stands for many users (base/overflow_uid.h).
 */
#include "lib/store/socket_connect.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/fd.h"
#include "base/overflow_uid.h"
#include "lib/store/socket_path.h"

static void folder_of(const char *path, char folder[SOCKET_PATH_MAX])
{
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;

	if (!slash)
		memcpy(folder, ".", 2);
	else if (n == 0)
		memcpy(folder, "/", 2);
	else {
		memcpy(folder, path, n);
		folder[n] = '\0';
	}
}

static bool is_ours(uid_t uid)
{
	return (uid == geteuid() || uid == 0) && uid_is_one_user(uid);
}

int socket_folder_check(const char *path, bool make)
{
	char folder[SOCKET_PATH_MAX];
	_cleanup_fd_ int fd = -1;
	struct stat st;
	int r = overflow_uid_check("a client of tarn's");

	if (r < 0)
		return r;
	if (strlen(path) >= SOCKET_PATH_MAX)
		return tarn_fail(ENAMETOOLONG,
			"socket %.60s...: a path of %zu bytes, %d are the most",
			path, strlen(path), SOCKET_PATH_MAX - 1);
	folder_of(path, folder);
	if (make && mkdir(folder, 0700) < 0 && errno != EEXIST)
		return tarn_fail(errno, "socket folder %s: %s", folder,
			tarn_errno_text(errno));
	fd = open(folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
		return tarn_fail(EPERM,
			"socket folder %s is a link or no folder; remove it, "
			"or name another place in TARN_SOCKET",
			folder);
	if (fd < 0 || fstat(fd, &st) < 0)
		return tarn_fail(errno, "socket folder %s: %s", folder,
			tarn_errno_text(errno));
	if (!is_ours(st.st_uid))
		return tarn_fail(EPERM,
			"socket folder %s belongs to uid %u, neither to uid %u "
			"nor to root; name another place in TARN_SOCKET",
			folder, (unsigned)st.st_uid, (unsigned)geteuid());
	/* With the sticky bit others can add entries, but not replace this
	 * user's. */
	if ((st.st_mode & 022) && !(st.st_mode & S_ISVTX))
		return tarn_fail(EPERM,
			"socket folder %s can be written by others (mode %o); "
			"chmod it to 0700, or name another in TARN_SOCKET",
			folder, (unsigned)(st.st_mode & 07777));
	return 0;
}

/* The peer of a connected socket is the process that called listen(). */
static int peer_check(int fd, const char *path)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return tarn_fail(errno, "socket %s: SO_PEERCRED: %s", path,
			tarn_errno_text(errno));
	if (!is_ours(peer.uid))
		return tarn_fail(EPERM,
			"socket %s is served by uid %u, neither by uid %u nor "
			"by root",
			path, (unsigned)peer.uid, (unsigned)geteuid());
	return 0;
}

/* Names the kind of file that is there instead of a socket; NULL: a socket, or
 * nothing. */
static const char *other_kind(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return NULL;
	switch (st.st_mode & S_IFMT) {
	case S_IFSOCK:
		return NULL;
	case S_IFREG:
		return "a regular file";
	case S_IFDIR:
		return "a folder";
	case S_IFIFO:
		return "a pipe";
	default:
		return "a device";
	}
}

static int connect_failed(const char *path, int error, int timeout_ms)
{
	const char *kind = error == ECONNREFUSED ? other_kind(path) : NULL;

	if (kind)
		return tarn_fail(
			ENOTSOCK, "%s is %s, not a socket", path, kind);
	if (error == EAGAIN)
		return tarn_fail(ETIMEDOUT,
			"socket %s: its daemon accepts no connection: none "
			"within %d ms, and others wait, too; is its keeper "
			"stopped?",
			path, timeout_ms);
	return tarn_fail(error, "socket %s: %s", path, tarn_errno_text(error));
}

/* As connect(), but -EAGAIN after timeout_ms: when the listening socket's
 * backlog is full, connect() waits for the send timeout, which is for ever
 * unless it is set. */
static int connect_within(
	int fd, const struct sockaddr_un *address, int timeout_ms)
{
	int64_t left, deadline = clock_ms() + timeout_ms;

	while ((left = deadline - clock_ms()) > 0) {
		struct timeval t = {
			.tv_sec = left / 1000, .tv_usec = left % 1000 * 1000};

		if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)) < 0)
			return -errno;
		if (connect(fd, (const struct sockaddr *)address,
			    sizeof(*address)) == 0)
			return 0;
		/* A signal handler ran: continue for the rest of the time. */
		if (errno != EINTR)
			return -errno;
	}
	return -EAGAIN;
}

int socket_connect(const char *path, int timeout_ms, int *ret_fd)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const struct timeval none = {0};
	_cleanup_fd_ int fd = -1;
	int r;

	r = socket_folder_check(path, false);
	if (r < 0)
		return r;
	memcpy(address.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return tarn_fail(errno, "socket: %s", tarn_errno_text(errno));
	r = connect_within(fd, &address, timeout_ms);
	if (r < 0)
		return connect_failed(path, -r, timeout_ms);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none));
	r = peer_check(fd, path);
	if (r < 0)
		return r;
	*ret_fd = fd_steal(&fd);
	return 0;
}
