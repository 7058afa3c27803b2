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

struct nudge {
	timer_t timer;
	bool made;
};

/* For the calling thread. There is none where so many descriptors may be open
 * that messages never lack any, since it costs a message two system calls; nor
 * where the system has no timer left, which is logged. */
void nudge_make(struct nudge *nudge);

/* From the return of the one to the call of the other. Between them, system
 * calls that sleep may have to be restarted; outside of them, none. */
void nudge_begin(const struct nudge *nudge);
void nudge_end(const struct nudge *nudge);
