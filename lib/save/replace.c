/* SPDX-License-Identifier: MIT */
/*
 * The new file is made in the folder of the old one, so that it can take its
 * name. Until shortly before the end it has no name at all where the file
 * system supports that (O_TMPFILE): a save that is killed before leaves nothing
 * behind.
 */
#include "lib/save/replace.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "base/file_limit.h"

/* After this many names the cause is not that they are taken. */
#define NAMES_MAX 100

/* A hidden name contains the target's name, unless that is so long that the
 * file system might refuse a longer one. */
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

/* Only this user may access it until it gets the rights of another file. */
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

/* Can the file get a name later? That needs /proc. */
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
	/* Whatever the cause was, the attempt with a name reports it better. */
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

/* May the old file be replaced? */
static int check_old(struct replacement *r)
{
	if (!r->old.st_mode)
		return 0;
	if (S_ISDIR(r->old.st_mode))
		return tarn_fail(EISDIR,
			"it is a folder: give the name of a file in it");
	if (!S_ISREG(r->old.st_mode))
		return tarn_fail(EINVAL,
			"it is %s, which a file does not replace",
			kind_of(r->old.st_mode));
	/* rename checks the folder alone; but a file without write permission
	 * is meant to be kept. */
	if (faccessat(r->folder, r->name, W_OK, AT_EACCESS) < 0)
		return tarn_fail(errno,
			"it may not be written (%s): allow that (chmod u+w), "
			"or save under another name",
			tarn_errno_text(errno));
	r->replaces = true;
	return 0;
}

/* A link counts too, even a dangling one. */
static int check_new(struct replacement *r)
{
	struct stat st;

	if (fstatat(r->folder, r->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return tarn_fail(EEXIST,
			"there is something of that name, and it was not to "
			"be replaced");
	if (errno != ENOENT)
		return tarn_fail(errno, "%s", tarn_errno_text(errno));
	return 0;
}

static struct replacement *new_replacement(bool exclusive)
{
	struct replacement *r = calloc(1, sizeof(*r));

	if (r)
		*r = (struct replacement) {.fd = -1,
			.folder = -1,
			.synced = -1,
			.file_system = -1,
			.exclusive = exclusive};
	return r;
}

int replace_begin(const char *path, bool exclusive, struct replacement **ret)
{
	_cleanup_(replace_freep) struct replacement *r = NULL;
	int err;

	if (!path || !*path)
		return tarn_fail(EINVAL, "no path was given");
	r = new_replacement(exclusive);
	if (!r)
		return tarn_fail(ENOMEM, "no memory for a path");
	err = replace_find(r, path);
	if (err >= 0)
		err = exclusive ? check_new(r) : check_old(r);
	if (err < 0)
		return err;
	r->synced = openat(r->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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

/* Some file systems take all that is left before they refuse, and meanwhile
 * every other writer is refused, too. Only those are asked first: others may
 * need less than size, as they compress. */
static bool has_no_room(const struct replacement *r, uint64_t size)
{
	struct statfs fs;

	if (fstatfs(r->fd, &fs) < 0 || (fs.f_type != EXT4_SUPER_MAGIC &&
					       fs.f_type != XFS_SUPER_MAGIC &&
					       fs.f_type != TMPFS_MAGIC))
		return false;
	return fs.f_blocks && size / (uint64_t)fs.f_bsize > fs.f_bfree;
}

int replace_reserve(struct replacement *r, uint64_t size)
{
	int done = file_limit_check(size);

	if (done < 0)
		return done;
	if (has_no_room(r, size))
		return no_room(r, ENOSPC, size);
	do
		done = fallocate(r->fd, 0, 0, (off_t)size);
	while (done < 0 && errno == EINTR);
	/* Some file systems cannot reserve space; then writes report a lack of
	 * it. */
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
