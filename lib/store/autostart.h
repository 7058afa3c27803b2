/* SPDX-License-Identifier: MIT */
/*
 * Starting a daemon of this user when none serves.
 *
 * Many processes may do so at once: each starts one, one of those daemons gets
 * the socket, and the others see that and end. So it is no failure if a started
 * daemon has ended, as long as some daemon answers.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/store/socket_path.h"

struct autostart {
	char path[SOCKET_PATH_MAX];  /* absolute */
	char daemon_space[PATH_MAX]; /* memory for daemon */
	const char *daemon;          /* the program */
	int started;                 /* how often */
	int pidfd;   /* of the last one; -1 after it has ended */
	int said_fd; /* what it wrote to stderr, a memfd */
	int nap_ms;
	int64_t ended_at; /* when the last one ended, ms */
	int64_t deadline;
};

/* TARN_AUTOSTART=0 */
bool autostart_forbidden(void);

/* Starts a daemon that serves path. Fails when there is no such program. */
int autostart_begin(struct autostart *start, const char *path);

/* Waits a little; false when it is useless to try once more. */
bool autostart_again(struct autostart *start);

/* Sets the sentence for when no daemon answered. */
int autostart_failed(struct autostart *start);

void autostart_end(struct autostart *start);
