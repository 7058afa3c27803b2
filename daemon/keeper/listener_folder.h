/* SPDX-License-Identifier: MIT */
/*
 * The folder that the listener is in, held open for the daemon's life.
 *
 * Where others may write the folder above it, such as /tmp, the folder's path
 * is no proof: after the folder was removed, a stranger may put another folder
 * there, or a link, or a mount. So the path's links are followed once, when the
 * daemon starts. From then on all look-ups are of one name in a folder that is
 * open, and follow nothing.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"

struct listener_folder {
	int32_t parent;      /* O_PATH: the folder above */
	int32_t fd;          /* O_PATH: the folder */
	char path[PATH_MAX]; /* of the folder, without links */
};

/* The identity of a file that has a name in a folder. */
struct listener_file {
	uint64_t dev, ino;
	uint32_t mode, uid;
};

/* Makes the folder, with that mode, if nothing is at the path; then opens it.
 * -ESTALE: other users may write the folder above it, and at the path is a
 * folder, a mount or a link of another user. */
int listener_folder_open(const char *path, mode_t mode,
	struct listener_folder *ret) _must_check_;

/* Finds the folder that is at the path now, and makes it again if nothing is
 * there. -ESTALE: as above, or a link. */
int listener_folder_find(
	struct listener_folder *folder, mode_t mode) _must_check_;

/* Does the path still lead to the folder? */
bool listener_folder_is_there(struct listener_folder *folder);

void listener_folder_close(struct listener_folder *folder);

/* Identifies the file of that name in the folder, or the folder itself (""),
 * without following a link or asking the server of a file system. -errno. */
int listener_file_stat(int folder, const char *name, struct listener_file *ret);

static inline bool listener_file_same(
	const struct listener_file *a, const struct listener_file *b)
{
	return a->dev == b->dev && a->ino == b->ino;
}
