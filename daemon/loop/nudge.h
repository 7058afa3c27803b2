/* SPDX-License-Identifier: MIT */
/*
 * A signal that comes again and again while the server takes a message.
 *
 * A message brings up to 253 descriptors. Where the server has fewer to spare,
 * the kernel closes the others before recvmsg() returns, and no other process
 * can do it for the server (closer.h). Closing a TCP socket that lingers waits
 * for the time that the client has set, up to hours. Any signal ends that wait,
 * and those of all sockets that the same call has still to close.
 *
 * io_uring's events end it as well, but only later ones: a
 * client whose message has been announced already would wait. So both kinds of
 * loop need this.
 */
#pragma once

#include <stdbool.h>
#include <time.h>

#include "daemon/loop/deadline.h"

struct nudge {
	timer_t timer;
	bool made;
	bool used; /* since the last look */
	struct deadlines *deadlines;
	struct deadline look; /* not set: the timer stands */
};

/* For the calling thread. There is none where so many descriptors may be open
 * that messages never lack any; nor where the system has no timer left, which is
 * logged. */
void nudge_make(struct nudge *nudge, struct deadlines *deadlines);

/* Before a message is taken. From then on, and for a while, system calls that
 * sleep may have to be restarted. */
void nudge_begin(struct nudge *nudge);
