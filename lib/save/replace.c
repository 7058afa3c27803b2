/* SPDX-License-Identifier: MIT */
/*
 * The new file is made in the folder of the old one, so that it can take its
 * name. Until its last moments it has no name at all where the file system can
 * do that (O_TMPFILE): a save that is killed then leaves nothing behind.
 */
#include "lib/save/replace.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "base/file_limit.h"

/* More names than this are not taken by others; something else is wrong. */
#define NAMES_MAX 100

/* A hidden name shows whose it is, unless it is so long that the file system
 * might refuse one that is longer still. */
#define SHOWN_MAX 200

/* ---- names ----------------------------------------------------------- */

static int make_name(struct replacement *r)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
	unsigned char random[8];
	char tail[sizeof(random) + 1];
	bool shown = strlen(r->name) <= SHOWN_MAX;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return tarn_fail(EIO, "no random bytes for a temporary name");
	for (size_t i = 0; i < sizeof(random); i++)
		tail[i] = letters[random[i] % 32];
	tail[sizeof(random)] = '\0';
	snprintf(r->temp, sizeof(r->temp), ".%.*s%starn-%s",
		shown ? SHOWN_MAX : 0, r->name, shown ? "." : "", tail);
	return 0;
}

int replace_with_name(struct replacement *r, int (*take)(struct replacement *r))
{
	for (int i = 0; i < NAMES_MAX; i++) {
		int err = make_name(r);

		if (err < 0)
			return err;
		err = take(r);
		if (err != -EEXIST) {
			if (err < 0)
				r->temp[0] = '\0';
			return err;
		}
	}
	r->temp[0] = '\0';
	return tarn_fail(
		EEXIST, "%d temporary names were all taken", NAMES_MAX);
}

/* ---- the new file ---------------------------------------------------- */

/* Ours alone while it is to get the rights of another file. */
static mode_t first_mode(const struct replacement *r)
{
	return r->replaces ? 0600 : 0666;
}

static int create_named(struct replacement *r)
{
	r->fd = openat(r->folder, r->temp,
		O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		first_mode(r));
	return r->fd < 0 ? -errno : 0;
}

/* Can the nameless file be given a name later? That goes through /proc. */
static bool proc_has(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return access(path, F_OK) == 0;
}

static int create(struct replacement *r)
{
	int err;

	r->fd = openat(
		r->folder, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, first_mode(r));
	if (r->fd >= 0 && proc_has(r->fd))
		return 0;
	r->fd = fd_close(r->fd);
	/* Whatever was the matter, with a name it is told better. */
	err = replace_with_name(r, create_named);
	if (err == -EACCES || err == -EPERM || err == -EROFS)
		return tarn_fail(-err, "no file can be made in its folder: %s",
			tarn_errno_text(err));
	if (err < 0 && err != -EEXIST)
		return tarn_fail(-err, "making a file in its folder: %s",
			tarn_errno_text(err));
	return err;
}

static const char *kind_of(mode_t mode)
{
	return S_ISFIFO(mode)   ? "a fifo"
	       : S_ISSOCK(mode) ? "a socket"
	       : S_ISBLK(mode)  ? "a block device"
	       : S_ISCHR(mode)  ? "a character device"
				: "no regular file";
}

/* What has the name now, and may we put something else there? */
static int look_at_old(struct replacement *r)
{
	if (fstatat(r->folder, r->name, &r->old, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno == ENOENT)
			return 0;
		return tarn_fail(errno, "%s", tarn_errno_text(errno));
	}
	if (r->exclusive)
		return tarn_fail(EEXIST,
			"there is something of that name, and it was not to "
			"be replaced");
	if (S_ISDIR(r->old.st_mode))
		return tarn_fail(EISDIR,
			"it is a folder: give the name of a file in it");
	if (!S_ISREG(r->old.st_mode))
		return tarn_fail(EINVAL,
			"it is %s, which a file does not replace",
			kind_of(r->old.st_mode));
	/* rename asks the folder alone; but who took the file's write bits
	 * away meant to keep it. */
	if (faccessat(r->folder, r->name, W_OK, AT_EACCESS) < 0)
		return tarn_fail(errno,
			"it may not be written (%s): allow that (chmod u+w), "
			"or save under another name",
			tarn_errno_text(errno));
	r->replaces = true;
	return 0;
}

/* Cuts path into a folder, which is opened, and a name. */
static int open_folder(struct replacement *r, char *path)
{
	char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	const char *folder = !slash ? "." : slash == path ? "/" : path;

	if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
		return tarn_fail(
			EISDIR, "it names a folder: give the name of a file");
	if (strlen(name) > NAME_MAX)
		return tarn_fail(ENAMETOOLONG,
			"a name of %zu bytes; file systems take at most %d",
			strlen(name), NAME_MAX);
	strcpy(r->name, name);
	if (slash)
		*slash = '\0';
	r->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (r->folder < 0 && errno == ENOENT)
		return tarn_fail(ENOENT,
			"the folder '%.300s' does not exist: make it first",
			folder);
	if (r->folder < 0)
		return tarn_fail(errno, "the folder '%.300s': %s", folder,
			tarn_errno_text(errno));
	r->synced = openat(r->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return 0;
}

int replace_begin(const char *path, bool exclusive, struct replacement **ret)
{
	_cleanup_(replace_freep) struct replacement *r = NULL;
	_cleanup_free_ char *real = NULL;
	int err = 0;

	if (!path || !*path)
		return tarn_fail(EINVAL, "no path was given");
	r = calloc(1, sizeof(*r));
	/* Something that is there is there, link or not. */
	if (r && exclusive)
		real = strdup(path);
	else if (r)
		err = replace_path(path, &real);
	if (r)
		r->fd = r->folder = r->synced = r->file_system = -1;
	if (err < 0)
		return err;
	if (!real)
		return tarn_fail(ENOMEM, "no memory for a path");
	r->exclusive = exclusive;
	err = open_folder(r, real);
	if (err >= 0)
		err = look_at_old(r);
	if (err >= 0)
		err = create(r);
	if (err >= 0)
		*ret = STEAL(r);
	return err;
}

/* ---- its size -------------------------------------------------------- */

static int no_room(const struct replacement *r, int err, uint64_t size)
{
	struct statfs fs;

	if (err == ENOSPC && fstatfs(r->fd, &fs) == 0)
		return tarn_fail(err,
			"no room for %llu bytes: its file system has %llu left",
			(unsigned long long)size,
			(unsigned long long)fs.f_bavail *
				(unsigned long long)fs.f_bsize);
	return tarn_fail(err, "taking room for %llu bytes: %s",
		(unsigned long long)size, tarn_errno_text(err));
}

int replace_reserve(struct replacement *r, uint64_t size)
{
	int done = file_limit_check(size);

	if (done < 0)
		return done;
	do
		done = fallocate(r->fd, 0, 0, (off_t)size);
	while (done < 0 && errno == EINTR);
	/* Some file systems promise no room; then writes will tell. */
	if (done < 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
		do
			done = ftruncate(r->fd, (off_t)size);
		while (done < 0 && errno == EINTR);
	return done < 0 ? no_room(r, errno, size) : 0;
}

struct replacement *replace_free(struct replacement *r)
{
	if (!r)
		return NULL;
	if (*r->temp)
		unlinkat(r->folder, r->temp, 0);
	fd_close(r->fd);
	fd_close(r->synced);
	fd_close(r->file_system);
	fd_close(r->folder);
	free(r);
	return NULL;
}
