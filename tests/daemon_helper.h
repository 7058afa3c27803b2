/* SPDX-License-Identifier: MIT */
/*
 * A daemon of the test's own: started on a socket in the test's folder, and
 * ended with it. Needs $TARN_DAEMON, which tests/run sets.
 */
#pragma once

#include <sys/types.h>

struct daemon {
	pid_t pid;
	char socket[108];
};

/* Starts tarnd --socket FOLDER/NAME (or NAME, if that begins with a slash) with
 * up to four more arguments (ended by
 * NULL), and waits until it answers; bails out if it does not. */
void daemon_start(struct daemon *daemon, const char *name,
	const char *const extra[]);

/* The daemons started from here on may have so many descriptors (0: as many
 * as this process). Theirs alone: the kernel counts what one user has in
 * flight against the limit of who sends. */
void daemon_limit_descriptors(unsigned n);

/* SIGTERM, then waits; its exit status, or -1 when it had to be killed. */
int daemon_stop(struct daemon *daemon);
