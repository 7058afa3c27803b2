/* SPDX-License-Identifier: MIT */
/*
 * Requests that wait until the daemon has descriptors to spare for them:
 * loads and publications, each kind for itself.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/loop/deadline.h"

struct client;
struct domain;
struct server;

enum admission_kind {
	ADMISSION_LOADS,       /* one by one */
	ADMISSION_PUBLISH_FDS, /* by the descriptors that they bring */
	ADMISSION_KINDS
};

/* A member of the request, which calls admission_end() before it is freed. */
struct admission {
	struct domain *user; /* that is charged */
	enum admission_kind kind;
	uint32_t n;     /* of its kind; 0: it never waits */
	uint32_t n_fds; /* descriptors that it holds */
	/* There is room. Called between turns of the loop. */
	void (*begin)(struct admission *admission);

	/* Its own. */
	struct admission *before, *next; /* among those of its user that wait */
	uint64_t number;
	bool waits;
	bool admitted; /* it counts */
};

/* What requests of a user, or of all, take. */
struct admitted {
	uint32_t n[ADMISSION_KINDS];
	uint32_t waiting; /* descriptors of those that wait */
};

struct admission_queue {
	struct admission *first, *last;
};

/* Of all users. */
struct admissions {
	struct admitted all;
	uint32_t n_waiting[ADMISSION_KINDS];
	uint64_t numbers;
	struct deadline next; /* more could begin */
};

/* How much of the room for waiting requests one takes, in descriptors. */
uint32_t admission_places(const struct admission *admission);
/* True: it may begin at once. False: it waits until it is called. */
bool admission_ask(struct admission *admission);
/* It does not wait any more, or has ended. */
void admission_end(struct admission *admission);
/* Must the client's next message stay in its socket? */
bool admission_holds(const struct client *client);
/* Between turns. */
void admission_serve(struct server *server);
