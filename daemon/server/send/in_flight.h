/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that were sent to clients which have not read them: counted by
 * client, by user and for all, against what the kernel lets this daemon have in
 * flight.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/loop/deadline.h"

struct client;
struct domain;
struct server;
struct unread;

/* Of a server. */
struct in_flight {
	uint64_t n;
	uint64_t looked_at;   /* at all clients; loop_now() */
	struct unread *after; /* sockets of clients that are gone */
	uint32_t n_after;     /* of them */
	struct deadline look; /* at those */
	uint64_t sent_at;     /* one, as a trial, by the kernel; loop_now() */
	uint64_t gave_up_at;  /* to_keeper.c: loop_now(); 0: it has not */
};

/* So many may be in flight to all clients. */
uint32_t in_flight_limit(void);
/* How many more may be sent to this client; at least one that in_flight_holds
 * has let pass. */
uint32_t in_flight_room(const struct client *client);
/* Is its next message a request for descriptors that must wait in the socket,
 * until this client or others of its user have read what they were sent? */
bool in_flight_holds(struct client *client);
/* Must its next load or publication be refused, and not wait in its socket? */
bool in_flight_turns_away(struct client *client);
/* The error of such a request. */
int in_flight_refusal(const struct client *client);
/* While this server cannot send the keeper a descriptor, and handles no
 * request. */
void in_flight_refuse_one(struct server *server);
/* An answer with so many was sent, or waits to be sent. */
void in_flight_sent(struct client *client, int n_fds);
/* The client goes. True: it has some unread; its socket is kept, and the keeper
 * is told that it is gone when they are read, or their reader has ended. */
bool in_flight_outlives(struct client *client);
/* How many that user's clients left behind; NULL: those of all users. */
uint64_t in_flight_left(const struct server *server, const struct domain *user);
/* The server ends. */
void in_flight_end(struct server *server);
