/* SPDX-License-Identifier: MIT */
/*
 * The listener, a listening socket at a path that one daemon at a time serves.
 *
 * The daemon locks PATH.lock for its life; the holder of the lock may remove a
 * stale socket and bind a new one. The daemon removes both files when it ends.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/keeper/listener_folder.h"

struct listener;

/* Locks and listens. mode is the socket's, 0600 or wider; the last folder of
 * the path is made if it is missing, 0700, or 0755 for a wider socket. given:
 * a socket that listens there already, which a service manager made and keeps,
 * or -1; it is taken if this succeeds. 1: another daemon holds the lock. */
int listener_open(
	const char *path, mode_t mode, int given, struct listener **ret);

/* The state that another program needs to continue with an open listener. */
struct listener_parts {
	int32_t listen_fd;
	int32_t lock_fd;
	uint32_t given;
	uint32_t mode;
	uint64_t dev, ino; /* of the socket at the path */
	struct listener_folder folder;
};
struct listener_parts listener_parts(const struct listener *listener);
/* Takes all descriptors if it succeeds. */
int listener_adopt(const char *path, const struct listener_parts *parts,
	struct listener **ret);

/* The listening descriptor (non-blocking). */
int listener_fd(const struct listener *listener);
/* The same, for poll; -1 while new clients are left to the next daemon. */
int listener_poll_fd(const struct listener *listener);

/* Removes the socket from the path, so that no new client can connect; earlier
 * ones can still be accepted from listener_fd. A socket that was given stays:
 * a new client waits in its queue for the next daemon. */
void listener_unbind(struct listener *listener);
/* Closes a listening socket, instead of close(). */
typedef void (*listener_close_fn)(void *arg, int fd);
void listener_set_close(
	struct listener *listener, listener_close_fn fn, void *arg);
/* Listens at the path again, after listener_unbind. */
int listener_rebind(struct listener *listener);

/* Was the socket at the path, or its folder, removed or replaced, so that new
 * clients do not find this daemon? */
bool listener_is_lost(struct listener *listener);
/* Then: locks the path again if need be, and listens there with another socket.
 * Clients that wait at the old one are lost: accept them first. 1: another
 * daemon serves the path now; -ESTALE: something is in the folder's place that
 * this daemon does not trust, and that it leaves alone. */
int listener_restore(struct listener *listener);

/* Removes socket and lock. Returns NULL. */
struct listener *listener_close(struct listener *listener);
