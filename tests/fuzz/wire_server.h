/* SPDX-License-Identifier: MIT */
/*
 * A server inside the test, all of it real but for who is at the other ends of
 * its sockets: a keeper, loaders, and clients that the test plays. As it begins
 * the keeper has no memory to give, and loaders have read at once whatever they
 * are asked for.
 */
#pragma once

#include "daemon/server/server.h"
#include "tests/fuzz/wire_peer.h"

#define DOMAINS 2u /* of the user, and a pool called "pool" */

/* Bails with the sentence of what has failed. */
void must(int r, const char *what);
void make_pair(int *ret_server, int *ret_other);

extern struct server server;

/* With a client in each place; the first has said hello. */
void server_begin(void);
/* Lets it run until nothing moves any more. */
void server_settle(void);
/* The clients hang up. What they had is gone, then all of it; bails where
 * something stays. */
void server_end(void);

/* What the others do from now on, or once. */
enum event {
	LOADERS_READ,
	LOADERS_FAIL,
	LOADERS_HANG, /* and answer nothing but that they drop it */
	LOADERS_DIE,  /* all that there are */
	KEEPER_GIVES, /* the next time that it is asked */
	TIME_PASSES,  /* until the timer is due, and all files are old */
	SERVER_DIES,  /* by a signal, and another takes over */
	EVENTS
};
void server_suffer(enum event event);

/* Of a lease word that may have been poked: perhaps of no storage. */
uint32_t lease_index(uint64_t lease);
/* Bails unless the storage of that lease word is there. */
void lease_judge(const struct table *table, uint64_t word, const char *who);
