/* SPDX-License-Identifier: MIT */
/*
 * A file that takes the place of another, or of none, whole or not at all.
 *
 *	replace_begin(path, false, &r);
 *	replace_reserve(r, size);
 *	... write to r->fd ...
 *	replace_sync(r);                not visible yet
 *	replace_commit(r);              in place, and durable
 *	r = replace_free(r);            without commit: as if never begun
 *
 * Error sentences do not name the path; the caller puts it in front.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/cleanup.h"

struct replacement {
	int fd;          /* the new file, to be read and written */
	int folder;      /* O_PATH */
	int synced;      /* the folder to be synced; -1: it may not be read */
	int file_system; /* then a file on its file system */
	char name[NAME_MAX + 1];
	char temp[NAME_MAX + 1]; /* its name meanwhile; "": none */
	bool exclusive;
	struct stat old; /* the file that had the name; st_mode is 0 if there
			  * was none */
	bool replaces;   /* old is a file, and the new one gets its rights */
};

/*
 * Makes the new file in the folder of path, or of what path links to. If it
 * replaces a file, only its owner can read it meanwhile. -EEXIST: exclusive,
 * and the path exists; -EISDIR; -EINVAL: the path is not a regular file;
 * -EACCES: also for a file, or a link anywhere in the path, that another user
 * may have planted in a sticky folder (replace_trust.c); -EROFS, -ENOENT,
 * -ENOSPC, -EDQUOT.
 */
int replace_begin(const char *path, bool exclusive,
	struct replacement **ret) _must_check_;

/* Reserves the space that it will need. -ENOSPC, -EDQUOT, -EFBIG. */
int replace_reserve(struct replacement *r, uint64_t size) _must_check_;

/* All slow steps; it closes fd. No other process has the file open for writing
 * by then. */
int replace_sync(struct replacement *r) _must_check_;

/*
 * Puts it in place, synced or not. After a failure nothing has changed, except
 * if the last step failed, the sync of the folder: then the file is in place,
 * and only a crash now could undo it.
 */
int replace_commit(struct replacement *r) _must_check_;

/* Takes NULL and returns NULL. Removes a file that was not committed. */
struct replacement *replace_free(struct replacement *r);
DEFINE_CLEANUP(struct replacement *, replace_free);

/* ---- inside ---------------------------------------------------------- */

/* Calls take with new hidden names in r->temp until one is not -EEXIST. After a
 * failure there is none. */
int replace_with_name(
	struct replacement *r, int (*take)(struct replacement *r));

/* ---- replace_rights.c ----------------------------------------------- */

/* Gives the new file the rights of the old one, or fewer. */
int replace_rights(const struct replacement *r) _must_check_;

/* ---- replace_path.c ------------------------------------------------- */

/*
 * Opens the folder that the new file belongs in, and finds its name there. The
 * file with that name is in r->old; its mode is 0 if there is none, and if r is
 * exclusive, which follows no link in the last place. -ELOOP, -EACCES (also for
 * a link that a stranger planted, in any place), -ENOENT, -ENOTDIR, -EISDIR,
 * -ENAMETOOLONG, -ENOMEM.
 */
int replace_find(struct replacement *r, const char *path) _must_check_;

/* ---- replace_trust.c ------------------------------------------------ */

/* -EACCES: in a sticky folder that every user may write, the link at path
 * belongs neither to this user nor to the folder's owner. */
int replace_trust_link(const struct stat *folder, const struct stat *link,
	const char *path) _must_check_;

/* The same for a file, also where only a group may write the folder. */
int replace_trust_file(
	const struct stat *folder, const struct stat *file) _must_check_;
