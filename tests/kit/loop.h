/* SPDX-License-Identifier: MIT */
/*
 * A loop of the daemon, and ends of sockets that it watches. There is one loop
 * at a time.
 */
#pragma once

#include <stdbool.h>

#include "daemon/loop/loop.h"

extern struct loop *kit_loop;

struct kit_loop_end {
	struct loop_watch *watch;
	int fd;
	int peer; /* -1: closed */
	int calls;
	unsigned ready; /* of the last call */
	int stop_after; /* calls, then quit */
	struct kit_loop_end *victim;
};

/* Runs a test on each of the daemon's two loops; n: the test's assertions, to
 * skip where a loop is not to be had. */
void kit_loop_with_each(void (*test)(void), int n);

/* A socket of its own, not watched yet. */
void kit_loop_fresh(struct kit_loop_end *end);
/* Unwatches the socket, and closes both its ends. */
void kit_loop_drop(struct kit_loop_end *end);
/* The peer sends a text. */
void kit_loop_send(struct kit_loop_end *end, const char *text);

/* Callbacks of an end. The first notes the call; the second reads a byte
 * before. */
void kit_loop_note(void *arg, unsigned ready);
void kit_loop_read_one(void *arg, unsigned ready);

/* Runs until something quits; true if that was the time-out. */
bool kit_loop_runs_out(unsigned ms);
