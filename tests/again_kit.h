/* SPDX-License-Identifier: MIT */
/*
 * What the tests share of requests that are said again, as to a server that
 * took over: a message under a serial of one's choice, somebody else who
 * publishes in between, and what the table has in the end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <tarn/tarn.h>

#include "shm/table.h"
#include "tests/raw_client.h"

extern struct raw raw;     /* who asks, */
extern struct table table; /* as he sees it */
extern tarn_store *other;  /* somebody else */

/* The answer to one message of his under that serial, said again or not. */
int answer_to(uint16_t type, uint32_t serial, const void *body, size_t size,
	bool again);

/* Somebody else publishes a tensor of one number under that name. */
void publish(const char *name);

/* The commit that comes next: since when what is asked now counts. */
uint64_t now(void);
/* A name's version, or what table_find() says. */
int64_t version_of(const char *name);

/* ---- by the library ----------------------------------------------------- */

struct daemon;

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

/* ---- when there is no room: who may refuse? ------------------------------ */

/* A configuration by which a user's requests under way may have few bytes; its
 * path, which the test removes. */
const char *little_room(void);
/* Most of them are taken, once the server has read that, until it is closed. */
void say_half(struct raw *half, const char *socket);
/* Asks until it hears WIRE_ERROR: the server has read that by then. */
void until_refused(int (*ask)(void));
