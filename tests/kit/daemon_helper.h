/* SPDX-License-Identifier: MIT */
/*
 * A daemon of the test's own: started on a socket in the test's folder, and
 * ended with it. Needs $TARN_DAEMON, which tests/run sets.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include <tarn/store.h>

struct daemon {
	pid_t pid;
	char socket[108];
};

/* Starts tarnd --socket FOLDER/NAME (or NAME, if that begins with a slash) with
 * up to four more arguments (ended by
 * NULL), and waits until it answers; bails out if it does not. */
void daemon_start(
	struct daemon *daemon, const char *name, const char *const extra[]);

/* The daemons started from here on may have so many descriptors (0: as many
 * as this process). Theirs alone: the kernel counts what one user has in
 * flight against the limit of who sends. */
void daemon_limit_descriptors(unsigned n);

/* The same, and a store of its: as long as that is open, a daemon that leaves
 * when nobody wants it stays. */
tarn_store *daemon_start_open(
	struct daemon *daemon, const char *name, const char *const extra[]);

/* What the daemons started from here on say is appended to this file; NULL: it
 * goes where this process's own errors go. */
void daemon_log_to(const char *path);
/* All of it, as comments of the test: a bail() does that by itself. */
void daemon_log_show(const char *path);
/* How many lines of it have that part. */
unsigned daemon_logged(const char *path, const char *part);
/* Waits until it is more lines than that; false: it did not come to it. */
bool daemon_logs(const char *path, const char *part, unsigned more_than);

/* SIGTERM, then waits; its exit status, or -1 when it had to be killed. Status
 * 1, a failure of the daemon's own, ends the test. */
int daemon_stop(struct daemon *daemon);
