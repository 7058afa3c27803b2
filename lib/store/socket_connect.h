/* SPDX-License-Identifier: MIT */
/*
 * Connecting to a daemon's socket, and which processes may serve it.
 *
 * A socket's folder and the process that answers must belong to this user or to
 * root: any other process could serve its own bytes, or observe which clients
 * connect. The overflow uid is not accepted as a user, not even if it is this
 * process's own.
 */
#pragma once

#include <stdbool.h>

/* Is the folder of path one whose entries only this user or root can change?
 * make: create it (0700) if it is missing. -EPERM with a sentence that says
 * what is wrong; -ENOENT: there is no folder. */
int socket_folder_check(const char *path, bool make);

/* Connects; CLOEXEC. -ENOENT, -ECONNREFUSED: no daemon serves it; -EPERM: it
 * belongs to another user; -ENOTSOCK: the path is not a socket; -ETIMEDOUT: the
 * backlog was full all the time. */
int socket_connect(const char *path, int timeout_ms, int *ret_fd);
