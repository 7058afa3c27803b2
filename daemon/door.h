/* SPDX-License-Identifier: MIT */
/*
 * The door: a path that one daemon at a time serves.
 *
 * PATH.lock is locked for the daemon's life; who holds it may remove a stale
 * socket and bind a new one. Both files go when the daemon ends.
 */
#pragma once

struct door;

/* Locks and listens. Makes the last folder of the path (0700) if it is
 * missing. 1: somebody else holds the lock. */
int door_open(const char *path, struct door **ret);

/* The listening descriptor (non-blocking), for poll. */
int door_fd(const struct door *door);

/* Takes the socket away from the path, so that nobody new can come; those who
 * came before can still be accepted from door_fd. */
void door_shut(struct door *door);
/* Listens at the path again, after door_shut. */
int door_reopen(struct door *door);

/* Removes socket and lock. Returns NULL. */
struct door *door_close(struct door *door);
