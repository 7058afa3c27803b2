/* SPDX-License-Identifier: MIT */
/*
 * A kept descriptor of a folder identifies the folder; a kept descriptor of the
 * folder above it is where it is looked up. A look-up of one name in an
 * open folder cannot lead elsewhere, and it can reach no file system whose
 * server might not answer: AT_STATX_DONT_SYNC takes what the kernel knows.
 */
#include "daemon/keeper/listener_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"

#define FOLDER_FLAGS (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

int listener_file_stat(int folder, const char *name, struct listener_file *ret)
{
	struct statx st;

	if (statx(folder, name,
		    AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH |
			    AT_STATX_DONT_SYNC,
		    STATX_TYPE | STATX_MODE | STATX_UID | STATX_INO, &st) < 0)
		return -errno;
	*ret = (struct listener_file) {
		.dev = makedev(st.stx_dev_major, st.stx_dev_minor),
		.ino = st.stx_ino,
		.mode = st.stx_mode,
		.uid = st.stx_uid,
	};
	return 0;
}

/* The folder's name in the one above it; the root is its own ".". */
static const char *name_of(const struct listener_folder *folder)
{
	const char *name = strrchr(folder->path, '/') + 1;

	return *name ? name : ".";
}

static bool is_trusted(const struct listener_file *file)
{
	return file->uid == 0 || file->uid == geteuid();
}

/* Root or this user has put everything into such a folder. */
static bool is_private(const struct listener_file *folder)
{
	return is_trusted(folder) && !(folder->mode & 022);
}

/* ---- the folder above ------------------------------------------------- */

/* Goes one name down. 1: others may put something there. */
static int descend(int *fd, const char *name)
{
	struct listener_file here;
	int next, r = listener_file_stat(*fd, "", &here);

	if (r < 0)
		return r;
	if (!is_private(&here))
		return 1;
	next = openat(*fd, name, FOLDER_FLAGS);
	if (next < 0)
		return -errno;
	fd_close(*fd);
	*fd = next;
	return 0;
}

/*
 * The folder above may have been replaced, too, like the run-time folder of a
 * user that logs in again. Its path shows that, as far as only root and this
 * user can write the folders that it goes through; else the descriptor stands
 * for it.
 */
static int find_parent(struct listener_folder *folder)
{
	_cleanup_fd_ int fd = open("/", FOLDER_FLAGS);
	char path[PATH_MAX], *rest, *name;
	int r = fd < 0 ? -errno : 0;

	strcpy(path, folder->path);
	*strrchr(path, '/') = '\0';
	for (name = strtok_r(path, "/", &rest); name && r == 0;
		name = strtok_r(NULL, "/", &rest))
		r = descend(&fd, name);
	if (r < 0)
		return tarn_fail(-r, "the folder above %s: %s", folder->path,
			tarn_errno_text(r));
	if (r == 0) {
		fd_close(folder->parent);
		folder->parent = fd_steal(&fd);
	}
	return 0;
}

/* ---- the folder ------------------------------------------------------- */

/* As for the socket: the umask was inherited, and is meant for other files. */
static int make(int parent, const char *name, mode_t mode)
{
	mode_t mask = umask(022);
	int r = mkdirat(parent, name, mode) < 0 ? -errno : 0;

	umask(mask);
	return r;
}

static int cannot(const struct listener_folder *folder, const char *what, int r)
{
	return tarn_fail(-r, "cannot %s the folder %s: %s", what, folder->path,
		tarn_errno_text(r));
}

static bool is_at_path(const struct listener_folder *folder)
{
	struct listener_file kept, seen;

	return listener_file_stat(folder->fd, "", &kept) == 0 &&
	       listener_file_stat(folder->parent, name_of(folder), &seen) ==
		       0 &&
	       listener_file_same(&kept, &seen);
}

bool listener_folder_is_there(struct listener_folder *folder)
{
	return find_parent(folder) == 0 && is_at_path(folder);
}

/* May the daemon's files be in this folder, whether it was there from the
 * beginning or replaces one? A mounted file system can report any owner. */
static int check_owner(const struct listener_folder *folder, int fd)
{
	struct listener_file parent, seen;
	int r = listener_file_stat(folder->parent, "", &parent);

	if (r == 0)
		r = listener_file_stat(fd, "", &seen);
	if (r < 0)
		return cannot(folder, "look at", r);
	if (is_private(&parent) ||
		(is_trusted(&seen) && seen.dev == parent.dev))
		return 0;
	return tarn_fail(ESTALE,
		"uid %u has made or mounted the folder %s, which is in one "
		"that others may write: remove it, and the daemon makes its "
		"own",
		seen.uid, folder->path);
}

static int no_folder(const char *path)
{
	return tarn_fail(ESTALE,
		"%s is a file or a symbolic link: remove it, and the daemon "
		"makes its folder",
		path);
}

/* Opens what is there now. */
static int adopt(struct listener_folder *folder)
{
	_cleanup_fd_ int fd =
		openat(folder->parent, name_of(folder), FOLDER_FLAGS);
	int r;

	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
		return no_folder(folder->path);
	if (fd < 0)
		return cannot(folder, "open", -errno);
	r = check_owner(folder, fd);
	if (r < 0)
		return r;
	fd_close(folder->fd);
	folder->fd = fd_steal(&fd);
	return 0;
}

int listener_folder_find(struct listener_folder *folder, mode_t mode)
{
	int r = find_parent(folder);

	if (r < 0 || is_at_path(folder))
		return r;
	r = make(folder->parent, name_of(folder), mode);
	if (r < 0 && r != -EEXIST)
		return cannot(folder, "make", r);
	return adopt(folder);
}

/* The kernel does not follow a stranger's link in /tmp when it opens a path;
 * realpath() does. */
static int check_link(const char *path)
{
	struct listener_file seen;
	int r = listener_file_stat(AT_FDCWD, path, &seen);

	if (r < 0)
		return tarn_fail(
			-r, "cannot look at %s: %s", path, tarn_errno_text(r));
	if (!S_ISLNK(seen.mode))
		return no_folder(path);
	if (is_trusted(&seen))
		return 0;
	return tarn_fail(ESTALE,
		"%s is a symbolic link of uid %u's: remove it, and the daemon "
		"makes its folder",
		path, seen.uid);
}

/* *ret: the folder at the path; -1: a link that may be followed. */
static int look_at(const char *path, int *ret)
{
	int fd = open(path, FOLDER_FLAGS);

	*ret = fd;
	if (fd >= 0)
		return 0;
	if (errno == ELOOP || errno == ENOTDIR)
		return check_link(path);
	return tarn_fail(errno, "cannot open the folder %s: %s", path,
		tarn_errno_text(errno));
}

/* What was looked at may have been renamed since, and a stranger's link have
 * its name: then realpath() has followed that. */
static int check_still(const struct listener_folder *folder, int seen)
{
	struct listener_file was, is;
	int r = seen < 0 ? 0 : listener_file_stat(seen, "", &was);

	if (seen >= 0 && r == 0)
		r = listener_file_stat(folder->fd, "", &is);
	if (r < 0)
		return cannot(folder, "look at", r);
	if (seen < 0 || listener_file_same(&was, &is))
		return 0;
	return tarn_fail(ESTALE,
		"another process has replaced the folder while the daemon "
		"opened it, which led to %s: start the daemon again",
		folder->path);
}

int listener_folder_open(
	const char *path, mode_t mode, struct listener_folder *ret)
{
	struct listener_folder *f = ret;
	_cleanup_fd_ int seen = -1;
	char *slash;
	int r;

	f->parent = f->fd = -1;
	snprintf(f->path, sizeof(f->path), "%s", path);
	r = make(AT_FDCWD, path, mode);
	if (r < 0 && r != -EEXIST)
		return cannot(f, "make", r);
	r = look_at(path, &seen);
	if (r < 0)
		return r;
	if (!realpath(path, f->path))
		return tarn_fail(errno, "cannot find the folder %s: %s", path,
			tarn_errno_text(errno));
	slash = strrchr(f->path, '/');
	*slash = '\0';
	f->parent = open(
		*f->path ? f->path : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	*slash = '/';
	if (f->parent < 0)
		return cannot(f, "open what is above", -errno);
	r = adopt(f);
	return r < 0 ? r : check_still(f, seen);
}

void listener_folder_close(struct listener_folder *folder)
{
	folder->parent = fd_close(folder->parent);
	folder->fd = fd_close(folder->fd);
}
