/* SPDX-License-Identifier: MIT */
/*
 * For tests of requests that are sent again to a server that took over:
 * requests that were done and whose answers are lost, another client that
 * publishes in between, and the state of the table in the end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <tarn/tarn.h>

#include "shm/table.h"
#include "tests/kit/raw_client.h"

struct daemon;

extern struct raw raw;     /* the client that sends requests again, */
extern struct table table; /* its control region */
extern tarn_store *other;  /* another client */

/* Opens all three. */
void again_open(const struct daemon *daemon);
void again_close(void);

/* Sends a request of raw's under that serial, again or for the first time. */
void request(uint16_t type, uint32_t serial, const void *body, size_t size,
	bool again);
/* The same, and the type of the answer. */
int answer_to(uint16_t type, uint32_t serial, const void *body, size_t size,
	bool again);

/* Fills raw's socket with answers that nobody reads: those to what it asks from
 * now on stay with the server, and are lost with it. */
void fill_socket(void);
/* raw reads what is in its socket, and resumes with the next server, in the
 * region that this one goes on in. */
void follow_server(void);
/* Kills the server, and follows the next one. */
void change_server(const struct daemon *daemon);
/* raw has sent all again. */
void send_resent(void);

/* Another client publishes a tensor of one number under that name, or removes
 * it. */
void publish(const char *name);
void take_away(const char *name);

/* A name's version, or the error of table_find(). */
int64_t version_of(const char *name);
/* Waits until it is so; bails out if it never is. */
void until_version(const char *name, int64_t version);
/* The same of how many completions there are. */
void until_completions(uint32_t n);

/* ---- by the library ----------------------------------------------------- */

/* Another process that asks something of a daemon, and sleeps meanwhile. */
struct sleeper {
	pid_t pid, server;
	int ready[2], go[2];
};

/* It asks that, of a server that stands still, and sleeps before it hears of
 * it. At first, of one that runs, it may prepare, if that is not NULL. */
void sleeper_begin(struct sleeper *s, const struct daemon *daemon,
	int (*prepare)(tarn_store *store, const char *what),
	int (*ask)(tarn_store *store, const char *what), const char *what);
/* That server goes on. */
void sleeper_serve(const struct sleeper *s);
/* It dies, and the next one serves. */
void sleeper_crash(const struct sleeper *s, const struct daemon *daemon);
/* Wakes it: the errno of what it is told, or 0. */
int sleeper_end(struct sleeper *s);

/* It asks that, the server dies, and somebody publishes a name at the next one:
 * what it is told. */
int slept(const struct daemon *daemon,
	int (*ask)(tarn_store *store, const char *what), const char *what,
	const char *published);

/* ---- when there is no room: refusals ------------------------------------- */

/* A configuration by which a user's requests under way may have few bytes; its
 * path, which the test removes. */
const char *little_room(void);
/* Most of them are taken, by what waits while the keeper is stopped; until they
 * are given back. */
void take_room(struct raw *busy, const struct daemon *daemon);
void give_room(struct raw *busy, const struct daemon *daemon);
