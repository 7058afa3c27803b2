/* SPDX-License-Identifier: MIT */
/*
 * Socket and lock file. The lock decides who serves a path, never the socket:
 * a socket file says nothing about whether somebody listens behind it.
 */
#include "daemon/door.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"

struct door {
	struct sockaddr_un address;
	char lock_path[sizeof(((struct sockaddr_un *)0)->sun_path) + 8];
	mode_t mode; /* of the socket */
	int lock_fd;
	int listen_fd;
	bool given; /* the socket is somebody else's */
	bool shut;
};

static int make_folder(const char *path, mode_t mode)
{
	_cleanup_free_ char *copy = strdup(path);
	const char *folder;
	mode_t mask;
	int r;

	if (!copy)
		return tarn_fail(ENOMEM, "out of memory");
	folder = dirname(copy);
	/* As the socket: whoever started this has an umask for other files. */
	mask = umask(022);
	r = mkdir(folder, mode & 0066 ? 0755 : 0700);
	umask(mask);
	if (r < 0 && errno != EEXIST)
		return tarn_fail(errno, "cannot make the folder %s: %s", folder,
			tarn_errno_text(errno));
	return 0;
}

/* The lock file may have been removed between our open and our lock, by a
 * daemon that just ended: then we hold the lock of a file that nobody sees. */
static int lock_is_current(int fd, const char *path)
{
	struct stat mine, theirs;

	return fstat(fd, &mine) == 0 && stat(path, &theirs) == 0 &&
	       mine.st_dev == theirs.st_dev && mine.st_ino == theirs.st_ino;
}

static int take_lock(const char *path, int *ret_fd)
{
	for (;;) {
		_cleanup_fd_ int fd = open(
			path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

		if (fd < 0)
			return tarn_fail(errno, "cannot open the lock %s: %s",
				path, tarn_errno_text(errno));
		if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
			if (errno == EWOULDBLOCK)
				return 1;
			return tarn_fail(errno, "cannot lock %s: %s", path,
				tarn_errno_text(errno));
		}
		if (lock_is_current(fd, path)) {
			*ret_fd = fd_steal(&fd);
			return 0;
		}
	}
}

/* A socket that nobody serves any more, as we hold the lock; but nothing else
 * that a mistyped path may mean. */
static int remove_stale(const char *path)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return 0; /* bind will tell, should it matter */
	if (!S_ISSOCK(st.st_mode))
		return tarn_fail(EEXIST,
			"%s is there already and is no socket; choose another "
			"--socket",
			path);
	unlink(path);
	return 0;
}

int door_reopen(struct door *door)
{
	_cleanup_fd_ int fd = socket(
		AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const char *path = door->address.sun_path;
	mode_t mask;
	int r;

	door->shut = false;
	if (door->given)
		return 0;
	if (fd < 0)
		return tarn_fail(errno, "cannot make a socket: %s",
			tarn_errno_text(errno));
	r = remove_stale(path);
	if (r < 0)
		return r;
	mask = umask(~door->mode & 0777);
	r = bind(fd, (struct sockaddr *)&door->address, sizeof(door->address));
	umask(mask);
	if (r < 0)
		return tarn_fail(errno, "cannot bind %s: %s", path,
			tarn_errno_text(errno));
	if (listen(fd, SOMAXCONN) < 0)
		return tarn_fail(errno, "cannot listen at %s: %s", path,
			tarn_errno_text(errno));
	fd_close(door->listen_fd);
	door->listen_fd = fd_steal(&fd);
	return 0;
}

/* Neither locked nor listening. */
static int door_new(const char *path, mode_t mode, struct door **ret)
{
	struct door *door;

	if (strlen(path) + sizeof(".lock") > sizeof(door->address.sun_path))
		return tarn_fail(ENAMETOOLONG,
			"the socket path %s has %zu bytes, at most %zu fit",
			path, strlen(path),
			sizeof(door->address.sun_path) - sizeof(".lock"));
	door = calloc(1, sizeof(*door));
	if (!door)
		return tarn_fail(ENOMEM, "out of memory");
	door->lock_fd = door->listen_fd = -1;
	door->mode = mode;
	door->address.sun_family = AF_UNIX;
	strcpy(door->address.sun_path, path);
	snprintf(door->lock_path, sizeof(door->lock_path), "%s.lock", path);
	*ret = door;
	return 0;
}

int door_open(const char *path, mode_t mode, int given, struct door **ret)
{
	struct door *door = NULL;
	int r = door_new(path, mode, &door);

	if (r == 0)
		r = make_folder(path, mode);
	if (r < 0) {
		free(door);
		return r;
	}
	r = take_lock(door->lock_path, &door->lock_fd);
	door->given = given >= 0;
	if (r == 0)
		r = door_reopen(door);
	if (r == 0 && door->given)
		door->listen_fd = given;
	if (r != 0) {
		door_close(door);
		return r;
	}
	*ret = door;
	return 0;
}

struct door_parts door_parts(const struct door *door)
{
	return (struct door_parts) {.listen_fd = door->listen_fd,
		.lock_fd = door->lock_fd,
		.given = door->given,
		.mode = door->mode};
}

int door_adopt(
	const char *path, const struct door_parts *parts, struct door **ret)
{
	int r = door_new(path, parts->mode, ret);

	if (r < 0)
		return r;
	(*ret)->listen_fd = parts->listen_fd;
	(*ret)->lock_fd = parts->lock_fd;
	(*ret)->given = parts->given;
	return 0;
}

int door_fd(const struct door *door)
{
	return door->listen_fd;
}

int door_poll_fd(const struct door *door)
{
	return door->given && door->shut ? -1 : door->listen_fd;
}

void door_shut(struct door *door)
{
	door->shut = true;
	if (!door->given)
		unlink(door->address.sun_path);
}

struct door *door_close(struct door *door)
{
	if (!door)
		return NULL;
	if (door->lock_fd >= 0) {
		/* While we hold the lock both files are ours. */
		if (door->listen_fd >= 0 && !door->given)
			unlink(door->address.sun_path);
		unlink(door->lock_path);
	}
	fd_close(door->listen_fd);
	fd_close(door->lock_fd);
	free(door);
	return NULL;
}
