/* SPDX-License-Identifier: MIT */
/*
 * The door: a path that one daemon at a time serves.
 *
 * PATH.lock is locked for the daemon's life; who holds it may remove a stale
 * socket and bind a new one. Both files go when the daemon ends.
 */
#pragma once

#include <sys/types.h>

struct door;

/* Locks and listens. mode is the socket's, 0600 or wider; the last folder of
 * the path is made if it is missing, 0700, or 0755 for a wider socket. 1:
 * somebody else holds the lock. */
int door_open(const char *path, mode_t mode, struct door **ret);

/* The listening descriptor (non-blocking), for poll. */
int door_fd(const struct door *door);

/* Takes the socket away from the path, so that nobody new can come; those who
 * came before can still be accepted from door_fd. */
void door_shut(struct door *door);
/* Listens at the path again, after door_shut. */
int door_reopen(struct door *door);

/* Removes socket and lock. Returns NULL. */
struct door *door_close(struct door *door);
