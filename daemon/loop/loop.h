/* SPDX-License-Identifier: MIT */
/*
 * The event loop: callbacks when a descriptor is ready or a time has come.
 *
 * One thread. Level-triggered as epoll is: a callback that leaves something
 * unread is called again. Built on io_uring (polls, armed again after each
 * call) where it is allowed, else on epoll; both are the same to the caller.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/loop/deadline.h"

struct loop;
struct loop_watch;

#define LOOP_READ 1u
#define LOOP_WRITE 2u
/* Always reported, with or without the others, but by loop_mute(); also when
 * the peer has only shut down its sending side. */
#define LOOP_HANGUP 4u

typedef void (*loop_fn)(void *arg, unsigned ready);

/* TARN_ENGINE=threads asks for epoll. */
int loop_new(struct loop **ret);
struct loop *loop_free(struct loop *loop);
const char *loop_name(const struct loop *loop); /* "io_uring", "epoll" */

/* Watches fd (borrowed, any pollable) for LOOP_READ and/or LOOP_WRITE. */
int loop_watch(struct loop *loop, int fd, unsigned want, loop_fn fn, void *arg,
	struct loop_watch **ret);
int loop_change(struct loop_watch *watch, unsigned want);
/* Nothing is reported, not even a hang-up, until loop_change(): for a watch
 * whose callback can do nothing for a while, and would be called without
 * end. */
int loop_mute(struct loop_watch *watch);
/* Stops watching; safe inside any callback; before fd is closed. NULL. */
struct loop_watch *loop_unwatch(struct loop_watch *watch);

/* Those that are due are called after each turn. They lie in their owners,
 * which cancel them before they go. */
struct deadlines *loop_deadlines(struct loop *loop);
uint64_t loop_now(void);

/* Calls fn before each wait: what the callbacks of a turn leave behind is done
 * once for all of them. */
void loop_between(struct loop *loop, void (*fn)(void *arg), void *arg);

/* Runs until loop_quit. */
int loop_run(struct loop *loop);
void loop_quit(struct loop *loop);
