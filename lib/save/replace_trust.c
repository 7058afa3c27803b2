/* SPDX-License-Identifier: MIT */
/*
 * Refuses files and links that another user may have planted. In a sticky
 * folder like /tmp every user may take a name that another user is going to
 * save under:
 *
 * - A symbolic link leads the save to a file that the other user may not write.
 *   The kernel's fs.protected_symlinks stops open(2) there.
 * - A regular file is replaced by one with the same owner and rights, so that a
 *   file saved by root would belong to the other user. fs.protected_regular=2
 *   stops open(2) there.
 *
 * The kernel cannot apply its rules to rename(2), and machines exist where they
 * are switched off. So they are applied here, always.
 */
#include <sys/fsuid.h>

#include "base/fail.h"
#include "base/overflow_uid.h"
#include "lib/save/replace.h"

static bool same_user(uid_t a, uid_t b)
{
	return a == b && uid_is_one_user(a);
}

/* The kernel compares with the uid for file access; a call with a uid that does
 * not exist changes nothing and returns it. */
static bool is_ours(uid_t uid)
{
	return same_user(uid, (uid_t)setfsuid((uid_t)-1));
}

static bool is_planted(
	const struct stat *folder, const struct stat *at, mode_t writers)
{
	return folder->st_mode & S_ISVTX && folder->st_mode & writers &&
	       !same_user(at->st_uid, folder->st_uid) && !is_ours(at->st_uid);
}

int replace_trust_link(
	const struct stat *folder, const struct stat *link, const char *path)
{
	if (!is_planted(folder, link, S_IWOTH))
		return 0;
	return tarn_fail(EACCES,
		"the symbolic link '%.300s' belongs to uid %u, which is "
		"neither uid %u nor the owner of the sticky folder that it is "
		"in (uid %u): it is not followed; remove it, or save under "
		"another name",
		path, link->st_uid, (unsigned)setfsuid((uid_t)-1),
		folder->st_uid);
}

int replace_trust_file(const struct stat *folder, const struct stat *file)
{
	if (!is_planted(folder, file, S_IWOTH | S_IWGRP))
		return 0;
	return tarn_fail(EACCES,
		"it belongs to uid %u, which is neither uid %u nor the owner "
		"of the sticky folder that it is in (uid %u): it is not "
		"replaced; remove it, or save under another name",
		file->st_uid, (unsigned)setfsuid((uid_t)-1), folder->st_uid);
}
