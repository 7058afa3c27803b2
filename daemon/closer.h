/* SPDX-License-Identifier: MIT */
/*
 * A thread that closes descriptors which clients sent.
 *
 * close() asks the file system to flush, and a FUSE file system that belongs
 * to the client may never answer. So the server never closes such a
 * descriptor itself: it queues it here. One closer a rule, so that a user can
 * wedge only his own.
 */
#pragma once

#include <stdbool.h>

struct closer;

int closer_new(struct closer **ret);

/* Takes fd (-1 is nothing). Never blocks. */
void closer_close(struct closer *closer, int fd);

/* More than so many wait, and the one in front has not let itself be closed
 * for a while: they never will be. While they are only many, be patient: true
 * through ret_many. */
bool closer_is_stuck(struct closer *closer, unsigned max, bool *ret_many);

/* Leaves the thread to its fate if it is wedged. Returns NULL. */
struct closer *closer_free(struct closer *closer);
