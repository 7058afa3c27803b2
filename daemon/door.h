/* SPDX-License-Identifier: MIT */
/*
 * The door: a path that one daemon at a time serves.
 *
 * PATH.lock is locked for the daemon's life; who holds it may remove a stale
 * socket and bind a new one. Both files go when the daemon ends.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct door;

/* Locks and listens. mode is the socket's, 0600 or wider; the last folder of
 * the path is made if it is missing, 0700, or 0755 for a wider socket. given:
 * a socket that listens there already, which somebody else made and keeps, or
 * -1; it is taken if this succeeds. 1: somebody else holds the lock. */
int door_open(const char *path, mode_t mode, int given, struct door **ret);

/* What another program needs to go on with a door that is open. */
struct door_parts {
	int32_t listen_fd;
	int32_t lock_fd;
	uint32_t given;
	uint32_t mode;
};
struct door_parts door_parts(const struct door *door);
/* Takes both descriptors if it succeeds. */
int door_adopt(const char *path, const struct door_parts *parts,
	struct door **ret);

/* The listening descriptor (non-blocking). */
int door_fd(const struct door *door);
/* The same, for poll; -1 while those who come are for the next daemon. */
int door_poll_fd(const struct door *door);

/* Takes the socket away from the path, so that nobody new can come; those who
 * came before can still be accepted from door_fd. A socket that was given
 * stays: whoever comes waits in it for the next daemon. */
void door_shut(struct door *door);
/* Listens at the path again, after door_shut. */
int door_reopen(struct door *door);

/* Removes socket and lock. Returns NULL. */
struct door *door_close(struct door *door);
