/* SPDX-License-Identifier: MIT */
/* Where a client looks for a daemon's socket. */
#pragma once

#include <stdbool.h>

#define SOCKET_PATH_MAX 108 /* sun_path, with the NUL */
#define SOCKET_CANDIDATES_MAX 3

struct socket_candidate {
	char path[SOCKET_PATH_MAX];
	bool ours; /* a place where a daemon of this user would be started */
};

struct socket_candidates {
	int n;
	struct socket_candidate at[SOCKET_CANDIDATES_MAX];
};

/* The places to try, in order. socket: the caller's, or NULL. */
int socket_candidates(const char *socket, struct socket_candidates *ret);
