/* SPDX-License-Identifier: MIT */
/*
 * Where a daemon's socket is looked for, and who may stand behind it.
 *
 * A socket's folder and the process that answers must belong to this user or
 * to root: anybody else could hand out bytes of his own, or watch who asks.
 */
#pragma once

#include <stdbool.h>

#define SOCKET_PATH_MAX 108 /* sun_path, with the NUL */
#define SOCKET_PLACES_MAX 3

struct socket_place {
	char path[SOCKET_PATH_MAX];
	bool ours; /* a place where a daemon of this user would be started */
};

struct socket_places {
	int n;
	struct socket_place at[SOCKET_PLACES_MAX];
};

/* The places to look at, in order. socket: what the caller named, or NULL. */
int socket_places(const char *socket, struct socket_places *ret);

/* Is the folder of path one whose entries only this user or root can change?
 * make: create it (0700) if it is missing. -EPERM says what is wrong, -ENOENT
 * that there is none. */
int socket_folder_check(const char *path, bool make);

/* Connects; CLOEXEC. -ENOENT, -ECONNREFUSED: nobody serves there; -EPERM: it
 * is somebody else's. */
int socket_connect(const char *path, int *ret_fd);
