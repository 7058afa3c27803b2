/* SPDX-License-Identifier: MIT */
/*
 * The new file takes the name of the old one by rename(2), which is atomic for
 * every process. Two syncs make it one step for a crash too: the file's before
 * it has the name, so that the name never leads to half a file, and the
 * folder's after, so that it stays.
 *
 * Only a name can be renamed, so a file that had none gets a hidden one first;
 * before its sync, since to some file systems a file without a name is nothing
 * that a crash should keep. The slow step, the writing of its bytes, comes
 * before: a process that is killed meanwhile leaves no name behind.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "lib/save/replace.h"

static int link_temp(struct replacement *r)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", r->fd);
	if (linkat(AT_FDCWD, path, r->folder, r->temp, AT_SYMLINK_FOLLOW) < 0)
		return -errno;
	return 0;
}

static int sync_fd(int fd)
{
	int done;

	do
		done = fsync(fd);
	while (done < 0 && errno == EINTR);
	return done < 0 ? -errno : 0;
}

/* Some file systems cannot rename without replacing; links never replace. */
static int rename_to_nothing(struct replacement *r)
{
	if (renameat2(r->folder, r->temp, r->folder, r->name,
		    RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	if (linkat(r->folder, r->temp, r->folder, r->name, 0) < 0)
		return -errno;
	unlinkat(r->folder, r->temp, 0);
	return 0;
}

static int rename_over(struct replacement *r)
{
	int err = 0;

	if (r->exclusive)
		err = rename_to_nothing(r);
	else if (renameat(r->folder, r->temp, r->folder, r->name) < 0)
		err = -errno;
	if (err == -EEXIST)
		return tarn_fail(EEXIST,
			"something got that name meanwhile, and it was not to "
			"be replaced");
	if (err < 0)
		return tarn_fail(-err, "renaming %s to it: %s", r->temp,
			tarn_errno_text(err));
	r->temp[0] = '\0';
	return 0;
}

/* For a folder that cannot be opened, syncing all of the file system does it
 * too. */
static int sync_folder(const struct replacement *r)
{
	int err = 0;

	if (r->synced >= 0)
		err = sync_fd(r->synced);
	else if (syncfs(r->file_system) < 0)
		err = -errno;
	/* Where folders cannot be synced, they need not be. */
	if (err == 0 || err == -EINVAL || err == -EOPNOTSUPP)
		return 0;
	return tarn_fail(-err,
		"the new file is in place, but its folder could not be "
		"synced (%s): it may not outlive a power cut",
		tarn_errno_text(err));
}

static int not_synced(int err)
{
	return tarn_fail(-err,
		"syncing the new file: %s: the written bytes may not be on the "
		"disk",
		tarn_errno_text(err));
}

/* Closes it, since some file systems only then report bytes that they could not
 * store. */
static int sync_and_close(struct replacement *r)
{
	int err = sync_fd(r->fd), fd = fd_steal(&r->fd);

	if (err < 0) {
		fd_close(fd);
		return not_synced(err);
	}
	if (close(fd) < 0 && errno != EINTR)
		return tarn_fail(errno, "closing the new file: %s",
			tarn_errno_text(errno));
	return 0;
}

static int name_it(struct replacement *r)
{
	int err;

	/* It reports a failed write once, and the sync would not report it
	 * again; where it is not supported, the sync does everything. */
	if (sync_file_range(r->fd, 0, 0,
		    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
			    SYNC_FILE_RANGE_WAIT_AFTER) < 0 &&
		errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP &&
		errno != EPERM && errno != ESPIPE)
		return not_synced(-errno);
	err = replace_with_name(r, link_temp);
	if (err < 0 && err != -EEXIST)
		return tarn_fail(-err, "giving the new file a name: %s",
			tarn_errno_text(err));
	return err;
}

int replace_sync(struct replacement *r)
{
	int err = *r->temp ? 0 : name_it(r);

	if (err >= 0 && r->replaces)
		err = replace_rights(r);
	if (err >= 0 && r->synced < 0) {
		err = r->file_system = fd_dup(r->fd);
		if (err < 0)
			return tarn_fail(-err, "duplicating %d: %s", r->fd,
				tarn_errno_text(err));
	}
	return err < 0 ? err : sync_and_close(r);
}

int replace_commit(struct replacement *r)
{
	int err = r->fd >= 0 ? replace_sync(r) : 0;

	if (err >= 0)
		err = rename_over(r);
	return err < 0 ? err : sync_folder(r);
}
