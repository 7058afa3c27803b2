/* SPDX-License-Identifier: MIT */
/*
 * Socket and lock file. The lock decides which daemon serves a path, never the
 * socket: a socket file does not show whether a process listens on it.
 *
 * Others can remove both files: a tidy user, a cleaner of /tmp. So the daemon
 * compares the files with those that it made, before it removes them, and from
 * time to time; where they are missing, it makes both anew. It finds them by
 * their names in the folder that it keeps open, never by their paths.
 */
#include "daemon/keeper/listener.h"

#include <errno.h>
#include <fcntl.h>
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

/* Another daemon that ends may remove the lock file once or twice while this
 * one takes it. More often than this, it is no daemon. */
#define LOCK_TRIES 100

struct listener {
	struct sockaddr_un address; /* path and all, for clients */
	const char *name;           /* the last of the path */
	char lock[sizeof(((struct sockaddr_un *)0)->sun_path) + 8];
	struct listener_folder folder;
	mode_t mode; /* of the socket */
	int lock_fd;
	int listen_fd;
	bool given; /* a service manager made the socket */
	bool unbound;
	/* that was bound; only dev and ino count */
	struct listener_file socket;
	listener_close_fn close;
	void *close_arg;
};

/* Is the socket in the folder the one that this daemon bound? */
static bool is_mine(const struct listener *listener)
{
	struct listener_file seen;

	return listener_file_stat(listener->folder.fd, listener->name, &seen) ==
		       0 &&
	       listener_file_same(&seen, &listener->socket);
}

static mode_t folder_mode(const struct listener *listener)
{
	return listener->mode & 0066 ? 0755 : 0700;
}

/* The lock file may have been removed between our open and our lock, by a
 * daemon that just ended: then we hold the lock of a file without a name. */
static bool lock_is_current(const struct listener *listener, int fd)
{
	struct listener_file mine, theirs;

	return listener_file_stat(fd, "", &mine) == 0 &&
	       listener_file_stat(
		       listener->folder.fd, listener->lock, &theirs) == 0 &&
	       listener_file_same(&mine, &theirs);
}

/* -EAGAIN: it was removed while it was taken. */
static int try_lock(const struct listener *listener, int *ret_fd)
{
	_cleanup_fd_ int fd = openat(listener->folder.fd, listener->lock,
		O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return tarn_fail(errno, "cannot open the lock %s.lock: %s",
			listener->address.sun_path, tarn_errno_text(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno == EWOULDBLOCK)
			return 1;
		return tarn_fail(errno, "cannot lock %s.lock: %s",
			listener->address.sun_path, tarn_errno_text(errno));
	}
	if (!lock_is_current(listener, fd))
		return tarn_fail(EAGAIN,
			"%s.lock was another file each time that it was "
			"locked: choose another --socket",
			listener->address.sun_path);
	*ret_fd = fd_steal(&fd);
	return 0;
}

static int take_lock(const struct listener *listener, int *ret_fd)
{
	int r = -EAGAIN;

	for (int i = 0; i < LOCK_TRIES && r == -EAGAIN; i++)
		r = try_lock(listener, ret_fd);
	return r;
}

/* Removes a stale socket: no daemon serves it, as we hold the lock. It removes
 * nothing else that a mistyped path may name. */
static int remove_stale(const struct listener *listener)
{
	struct listener_file seen;

	if (listener_file_stat(listener->folder.fd, listener->name, &seen) < 0)
		return 0; /* bind will tell, should it matter */
	if (!S_ISSOCK(seen.mode))
		return tarn_fail(EEXIST,
			"%s is there already and is no socket; choose another "
			"--socket",
			listener->address.sun_path);
	unlinkat(listener->folder.fd, listener->name, 0);
	return 0;
}

/* There is no bindat(2). The keeper has one thread, so for a moment the folder
 * can be its working folder. */
static int bind_in_folder(const struct listener *listener, int fd)
{
	_cleanup_fd_ int back = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	mode_t mask;
	int r;

	strcpy(address.sun_path, listener->name);
	if (back < 0 || fchdir(listener->folder.fd) < 0)
		return -errno;
	mask = umask(~listener->mode & 0777);
	r = bind(fd, (struct sockaddr *)&address, sizeof(address));
	r = r < 0 ? -errno : 0;
	umask(mask);
	return fchdir(back) < 0 && r == 0 ? -errno : r;
}

/* With it go the connections that wait there, and what lies in them. */
static void close_listener(struct listener *listener)
{
	if (listener->close && listener->listen_fd >= 0)
		listener->close(listener->close_arg, listener->listen_fd);
	else
		fd_close(listener->listen_fd);
	listener->listen_fd = -1;
}

void listener_set_close(
	struct listener *listener, listener_close_fn fn, void *arg)
{
	listener->close = fn;
	listener->close_arg = arg;
}

int listener_rebind(struct listener *listener)
{
	_cleanup_fd_ int fd = socket(
		AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const char *path = listener->address.sun_path;
	int r;

	listener->unbound = false;
	if (listener->given)
		return 0;
	if (fd < 0)
		return tarn_fail(errno, "cannot make a socket: %s",
			tarn_errno_text(errno));
	r = remove_stale(listener);
	if (r < 0)
		return r;
	r = bind_in_folder(listener, fd);
	if (r < 0)
		return tarn_fail(
			-r, "cannot bind %s: %s", path, tarn_errno_text(r));
	r = listen(fd, SOMAXCONN) < 0 ? -errno : 0;
	if (r == 0)
		r = listener_file_stat(
			listener->folder.fd, listener->name, &listener->socket);
	if (r < 0)
		return tarn_fail(-r, "cannot listen at %s: %s", path,
			tarn_errno_text(r));
	close_listener(listener);
	listener->listen_fd = fd_steal(&fd);
	return 0;
}

/* Neither locked nor listening. */
static int listener_new(const char *path, mode_t mode, struct listener **ret)
{
	const char *slash = strrchr(path, '/'),
		   *name = slash ? slash + 1 : path;
	struct listener *listener;

	if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
		return tarn_fail(EISDIR,
			"the socket path %s names a folder: give the name of a "
			"socket in it",
			path);
	if (strlen(path) + sizeof(".lock") > sizeof(listener->address.sun_path))
		return tarn_fail(ENAMETOOLONG,
			"the socket path %s has %zu bytes, at most %zu fit",
			path, strlen(path),
			sizeof(listener->address.sun_path) - sizeof(".lock"));
	listener = calloc(1, sizeof(*listener));
	if (!listener)
		return tarn_fail(ENOMEM, "out of memory");
	listener->lock_fd = listener->listen_fd = -1;
	listener->folder.parent = listener->folder.fd = -1;
	listener->mode = mode;
	listener->address.sun_family = AF_UNIX;
	strcpy(listener->address.sun_path, path);
	listener->name = listener->address.sun_path + (name - path);
	snprintf(listener->lock, sizeof(listener->lock), "%s.lock", name);
	*ret = listener;
	return 0;
}

/* The kernel follows a link whose name has "/" or "/." behind it. */
static void strip(char *path)
{
	size_t n = strlen(path);

	while ((n > 1 && path[n - 1] == '/') ||
		(n > 2 && path[n - 1] == '.' && path[n - 2] == '/'))
		path[--n] = '\0';
}

static int open_folder(struct listener *listener)
{
	size_t n = (size_t)(listener->name - listener->address.sun_path);
	char path[sizeof(listener->address.sun_path) + 1];

	/* "/x" is in "/", "x" in ".". */
	snprintf(path, sizeof(path), "%.*s", (int)(n > 1 ? n - 1 : n),
		listener->address.sun_path);
	strip(path);
	return listener_folder_open(
		n ? path : ".", folder_mode(listener), &listener->folder);
}

int listener_open(
	const char *path, mode_t mode, int given, struct listener **ret)
{
	struct listener *listener = NULL;
	int r = listener_new(path, mode, &listener);

	if (r < 0)
		return r;
	r = open_folder(listener);
	if (r == 0)
		r = take_lock(listener, &listener->lock_fd);
	listener->given = given >= 0;
	if (r == 0)
		r = listener_rebind(listener);
	if (r == 0 && listener->given)
		listener->listen_fd = given;
	if (r != 0) {
		listener_close(listener);
		return r;
	}
	*ret = listener;
	return 0;
}

/* The lock file was removed, with its folder perhaps: another daemon may have
 * made one, and serves the path then. 1: so it is. */
static int lock_again(struct listener *listener)
{
	int fd, r = take_lock(listener, &fd);

	if (r != 0)
		return r;
	fd_close(listener->lock_fd);
	listener->lock_fd = fd;
	return 0;
}

bool listener_is_lost(struct listener *listener)
{
	return !listener->given && !listener->unbound &&
	       !(listener_folder_is_there(&listener->folder) &&
		       is_mine(listener));
}

int listener_restore(struct listener *listener)
{
	int r = listener_folder_find(&listener->folder, folder_mode(listener));

	if (r == 0 && !lock_is_current(listener, listener->lock_fd))
		r = lock_again(listener);
	return r == 0 ? listener_rebind(listener) : r;
}

struct listener_parts listener_parts(const struct listener *listener)
{
	return (struct listener_parts) {.listen_fd = listener->listen_fd,
		.lock_fd = listener->lock_fd,
		.given = listener->given,
		.mode = listener->mode,
		.dev = listener->socket.dev,
		.ino = listener->socket.ino,
		.folder = listener->folder};
}

int listener_adopt(const char *path, const struct listener_parts *parts,
	struct listener **ret)
{
	int r = listener_new(path, parts->mode, ret);

	if (r < 0)
		return r;
	(*ret)->listen_fd = parts->listen_fd;
	(*ret)->lock_fd = parts->lock_fd;
	(*ret)->given = parts->given;
	(*ret)->socket.dev = parts->dev;
	(*ret)->socket.ino = parts->ino;
	(*ret)->folder = parts->folder;
	return 0;
}

int listener_fd(const struct listener *listener)
{
	return listener->listen_fd;
}

int listener_poll_fd(const struct listener *listener)
{
	return listener->given && listener->unbound ? -1 : listener->listen_fd;
}

void listener_unbind(struct listener *listener)
{
	listener->unbound = true;
	if (!listener->given && is_mine(listener))
		unlinkat(listener->folder.fd, listener->name, 0);
}

struct listener *listener_close(struct listener *listener)
{
	if (!listener)
		return NULL;
	/* While the lock that we hold is the one in the folder, both files stay
	 * ours from here to their removal. */
	if (listener->lock_fd >= 0 &&
		lock_is_current(listener, listener->lock_fd)) {
		if (listener->listen_fd >= 0 && !listener->given &&
			is_mine(listener))
			unlinkat(listener->folder.fd, listener->name, 0);
		unlinkat(listener->folder.fd, listener->lock, 0);
	}
	listener_folder_close(&listener->folder);
	close_listener(listener);
	fd_close(listener->lock_fd);
	free(listener);
	return NULL;
}
