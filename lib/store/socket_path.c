/* SPDX-License-Identifier: MIT */
/*
 * The places where a daemon's socket may be, and the checks before one is
 * believed.
 *
 * The idea: a path can be raced, a peer's credentials cannot. The folder is
 * checked so that nobody else can put a socket there or take ours away; the
 * uid that the kernel reports for the listening process decides.
 */
#include "lib/store/socket_path.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"

#define SYSTEM_SOCKET "/run/tarn/tarnd.sock"

static int add_place(struct socket_places *places, bool ours, const char *fmt,
	...) __attribute__((__format__(printf, 3, 4)));

static int add_place(
	struct socket_places *places, bool ours, const char *fmt, ...)
{
	char path[4096];
	struct socket_place *place = &places->at[places->n];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	if (n >= SOCKET_PATH_MAX)
		return tarn_fail(ENAMETOOLONG,
			"socket %.60s...: a path of %d bytes, %d are the most",
			path, n, SOCKET_PATH_MAX - 1);
	memcpy(place->path, path, (size_t)n + 1);
	place->ours = ours;
	places->n++;
	return 0;
}

/* "tarnd.sock", or the job's own inside a SLURM job: jobs of one user on one
 * node are accounted, and end, apart. */
static int socket_name(char *name, size_t size)
{
	const char *job = secure_getenv("SLURM_JOB_ID");

	if (!job || !*job) {
		snprintf(name, size, "tarnd.sock");
		return 0;
	}
	for (const char *p = job; *p; p++)
		if (!isalnum((unsigned char)*p) && *p != '_' && *p != '-')
			return tarn_fail(EINVAL,
				"SLURM_JOB_ID is '%.40s': letters, digits, "
				"'_' and '-' can be part of a socket's name",
				job);
	if ((size_t)snprintf(name, size, "tarnd-%s.sock", job) >= size)
		return tarn_fail(ENAMETOOLONG,
			"SLURM_JOB_ID has %zu bytes, 40 are the most",
			strlen(job));
	return 0;
}

int socket_places(const char *socket, struct socket_places *ret)
{
	const char *env = secure_getenv("TARN_SOCKET");
	const char *run = secure_getenv("XDG_RUNTIME_DIR");
	struct socket_places places = {0};
	char name[sizeof("tarnd-.sock") + 40];
	int r;

	if (socket || (env && *env)) {
		r = add_place(&places, !socket, "%s", socket ? socket : env);
		if (r >= 0 && places.at[0].path[0] == '\0')
			r = tarn_fail(EINVAL, "socket: the path is empty");
		if (r >= 0)
			*ret = places;
		return r;
	}
	r = socket_name(name, sizeof(name));
	if (r >= 0)
		r = add_place(&places, false, SYSTEM_SOCKET);
	if (r >= 0 && run && run[0] == '/')
		r = add_place(&places, true, "%s/tarn/%s", run, name);
	if (r >= 0)
		r = add_place(&places, true, "/tmp/tarn-%u/%s",
			(unsigned)geteuid(), name);
	if (r >= 0)
		*ret = places;
	return r;
}

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

int socket_folder_check(const char *path, bool make)
{
	char folder[SOCKET_PATH_MAX];
	_cleanup_fd_ int fd = -1;
	struct stat st;

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
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return tarn_fail(EPERM,
			"socket folder %s belongs to uid %u, neither to uid %u "
			"nor to root; name another place in TARN_SOCKET",
			folder, (unsigned)st.st_uid, (unsigned)geteuid());
	/* With the sticky bit others can add entries, but not replace ours. */
	if ((st.st_mode & 022) && !(st.st_mode & S_ISVTX))
		return tarn_fail(EPERM,
			"socket folder %s can be written by others (mode %o); "
			"chmod it to 0700, or name another in TARN_SOCKET",
			folder, (unsigned)(st.st_mode & 07777));
	return 0;
}

/* The peer of a connected socket is who called listen(). */
static int peer_check(int fd, const char *path)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return tarn_fail(errno, "socket %s: SO_PEERCRED: %s", path,
			tarn_errno_text(errno));
	if (peer.uid != geteuid() && peer.uid != 0)
		return tarn_fail(EPERM,
			"socket %s is served by uid %u, neither by uid %u nor "
			"by root",
			path, (unsigned)peer.uid, (unsigned)geteuid());
	return 0;
}

int socket_connect(const char *path, int *ret_fd)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_fd_ int fd = -1;
	int r;

	r = socket_folder_check(path, false);
	if (r < 0)
		return r;
	memcpy(address.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return tarn_fail(errno, "socket: %s", tarn_errno_text(errno));
	do
		r = connect(fd, (struct sockaddr *)&address, sizeof(address));
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return tarn_fail(
			errno, "socket %s: %s", path, tarn_errno_text(errno));
	r = peer_check(fd, path);
	if (r < 0)
		return r;
	*ret_fd = fd_steal(&fd);
	return 0;
}
