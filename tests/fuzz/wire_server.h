/* SPDX-License-Identifier: MIT */
/*
 * A server inside the test, all of it real but for who is at the other ends of
 * its sockets: a keeper without memory to give, loaders that have read whatever
 * they are asked for, and clients that the test plays.
 */
#pragma once

#include "daemon/server.h"

#define PEERS 2u /* clients */
#define RULES 2u /* of the user, and a pool called "pool" */

struct peer {
	int sock; /* -1: the connection has ended */
	struct lease_page *page;
	uint32_t n_slots; /* of the page, that were used */
	struct wire_reader *reader;
};

extern struct server server;
extern struct peer peers[PEERS];

/* With a client in each place; the first has said hello. */
void server_begin(void);
/* Lets it run until nothing moves any more. */
void server_settle(void);
/* The clients hang up. What they had is gone, then all of it; bails where
 * something stays. */
void server_end(void);

/* One frame as it is, and its descriptors, which stay the caller's. */
void peer_send(struct peer *peer, const void *frame, size_t size,
	const int *fds, int n_fds);
void peer_hang_up(struct peer *peer);
/* The table that it was welcomed to; NULL: it was not. */
const struct table *peer_table(const struct peer *peer);
