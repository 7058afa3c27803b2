/* SPDX-License-Identifier: MIT */
/*
 * Starting a daemon of this user when nobody serves.
 *
 * Many processes may do so at once: each starts one, one of those gets the
 * socket, the others see that and end. So a started daemon that has ended is
 * no failure as long as somebody answers.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/store/socket_path.h"

struct autostart {
	char path[SOCKET_PATH_MAX]; /* absolute */
	char daemon_space[PATH_MAX]; /* what daemon may point to */
	const char *daemon;	    /* the program */
	int started;		    /* how often */
	int pidfd;		    /* of the last one; -1 when it has ended */
	int said_fd;		    /* what it wrote to stderr, a memfd */
	int nap_ms;
	int64_t ended_at; /* when the last one did, ms */
	int64_t deadline;
};

/* TARN_AUTOSTART=0 */
bool autostart_forbidden(void);

/* Starts one that serves path. Fails when there is no such program. */
int autostart_begin(struct autostart *start, const char *path);

/* Waits a little; false when it makes no sense to try once more. */
bool autostart_again(struct autostart *start);

/* The sentence for when nobody answered. */
int autostart_failed(struct autostart *start);

void autostart_end(struct autostart *start);
