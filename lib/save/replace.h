/* SPDX-License-Identifier: MIT */
/*
 * A file that takes the place of another, or of none, whole or not at all.
 *
 *	replace_begin(path, false, &r);
 *	replace_reserve(r, size);
 *	... write to r->fd ...
 *	replace_sync(r);                nobody sees it yet
 *	replace_commit(r);              in place, and durable
 *	r = replace_free(r);            without commit: as if never begun
 *
 * Sentences do not name the path; who calls puts it in front.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/cleanup.h"

struct replacement {
	int fd;	    /* the new file, to be read and written */
	int folder; /* O_PATH */
	int synced; /* the folder to be synced; -1: it may not be read */
	int file_system; /* then, a file on it */
	char name[NAME_MAX + 1];
	char temp[NAME_MAX + 1]; /* what it is called meanwhile; "": nothing */
	bool exclusive;
	bool replaces; /* then old is what it had been */
	struct stat old;
};

/*
 * Makes the new file in the folder of path, or of what path links to. It can be
 * read by its owner alone while it is to replace one that is there. -EEXIST:
 * exclusive, and there is something of that name; -EISDIR; -EINVAL: what is
 * there is no file; -EACCES, -EROFS, -ENOENT, -ENOSPC, -EDQUOT.
 */
int replace_begin(
	const char *path, bool exclusive, struct replacement **ret) _must_check_;

/* Takes the room that it will need. -ENOSPC, -EDQUOT, -EFBIG. */
int replace_reserve(struct replacement *r, uint64_t size) _must_check_;

/* All that takes long, by which fd is closed. Nobody else has it open for
 * writing by then. */
int replace_sync(struct replacement *r) _must_check_;

/*
 * Puts it in place, synced or not. After a
 * failure nothing has changed, but for that of the last step, the sync of the
 * folder: then it is in place, and only a crash now could undo it.
 */
int replace_commit(struct replacement *r) _must_check_;

/* Takes NULL and returns NULL. What was not committed is removed. */
struct replacement *replace_free(struct replacement *r);
DEFINE_CLEANUP(struct replacement *, replace_free);

/* ---- inside ---------------------------------------------------------- */

/* Calls take with new hidden names in r->temp until one is not -EEXIST. After a
 * failure there is none. */
int replace_with_name(
	struct replacement *r, int (*take)(struct replacement *r));

/* ---- replace_rights.c ----------------------------------------------- */

/* Those of the old file, for the new one, or fewer. */
int replace_rights(const struct replacement *r) _must_check_;

/* ---- replace_path.c ------------------------------------------------- */

/* Where path leads when it is a symbolic link, dangling ones too: malloc'ed in
 * *ret. -ELOOP, -ENOMEM, and what else readlink says. */
int replace_path(const char *path, char **ret);
