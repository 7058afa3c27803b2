/* SPDX-License-Identifier: MIT */
/*
 * Processes that close descriptors which clients sent.
 *
 * close() asks the file system to flush. A FUSE file system that belongs to
 * the client may never answer, and the kernel does not let a thread that waits
 * for the answer die: its process could not be reaped, and no other would take
 * its place. So the server and the loaders never close such a descriptor.
 * Other processes that share their table of descriptors do it for them: one
 * that hangs is left behind.
 *
 * There is a closer for each user, so that one user can wedge only its own.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Processes of one closer: so many descriptors may hang before the others of
 * the same user wait. Picked. */
#define CLOSER_PROCESSES 4u

struct closer;

/*
 * Makes n closers, and the process that starts theirs. To be called once, by a
 * process that has just been forked and has one thread. drop unmaps in that
 * process what it must not keep alive: the pool's memory.
 *
 * When the caller ends, however it ends, its sockets, pipes, memfds and rings
 * are closed. Descriptors whose close() may block stay open in a process that
 * no other process waits for.
 */
int closers_begin(unsigned n, void (*drop)(void *arg), void *arg);

/* Closer i of those. It lasts as long as the caller. */
struct closer *closer_get(unsigned i);

/* Takes fd (-1 is nothing). Never blocks. Without room for it, it stays open
 * until the caller ends. */
void closer_close(struct closer *closer, int fd);
bool closer_has_room(const struct closer *closer);

/* Starts one more process where those that there are hang. When to look again,
 * also at whether it is idle by then; 0: not before the next descriptor. */
uint64_t closer_poll(struct closer *closer, uint64_t now);

/* More than max descriptors wait, and none has been closed for a while: they
 * never will be. While they are only many, be patient: true through
 * ret_many. */
bool closer_is_stuck(struct closer *closer, unsigned max, bool *ret_many);

/* Nothing waits to be closed. */
bool closer_is_idle(const struct closer *closer);
