/* SPDX-License-Identifier: MIT */
/*
 * A connection to a daemon: requests go out, replies come back by serial.
 *
 * Any number of threads may have a call under way. One of the threads that
 * wait does the receiving for all of them, and hands the part on when its own
 * reply has come; so there is no thread of ours, and a load that takes a
 * minute holds up nobody else's call.
 *
 * A daemon's server may die and another take its place; then whoever receives
 * asks again, for all, what had no answer yet. Callers do not notice.
 *
 * What goes wrong with the socket itself is said to every call from then on:
 * a connection dies once. What this process, or the system, is out of for a
 * moment costs one call and no more: leases are the connection's, and a process
 * that lives must keep them. So does one whose connection is dead, as long as
 * the daemon has not ended it.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/wire.h"

/* A daemon answers in microseconds; a loaded machine may take seconds. */
#define CONNECTION_TIMEOUT_MS 10000
/* Without memory to receive or to send with; then calls fail. Picked, as the
 * time between two tries to send. */
#define CONNECTION_STARVED_MS 1000
#define CONNECTION_NAP_MS 10
/* The longest sleep of who listens for all: another thread that finds the
 * connection dead as it sends cannot wake him. Picked. */
#define CONNECTION_LISTEN_MS 1000

struct connection {
	int fd;
	int timeout_ms; /* for one reply */
	char *peer;	/* the socket's path, for messages */
	struct wire_reader *reader;

	pthread_mutex_t send; /* of whole messages, in turn; guards writer */
	struct wire_writer *writer;

	pthread_mutex_t lock; /* everything below */
	pthread_cond_t arrived;
	struct call *calls; /* those that wait for replies */
	bool receiving;	    /* one of them has the socket */
	uint32_t serial;    /* the last one used */
	int64_t starved_at; /* no memory to receive since then; 0: there is */
	int64_t owed_until; /* calls are asked again so long; 0: none is owed */
	char why[256];	    /* the sentence that goes with dead */
	atomic_int dead;    /* errno; 0 as long as it works */

	/* The table that the daemon goes on in, when it sends one: the thread
	 * that receives calls it, before anything that was said after it is
	 * given to anybody. fd is borrowed. NULL: not followed. */
	int (*moved)(void *arg, int fd);
	void *moved_arg;
	/* It came, and this process had no descriptor for it, or no memory to
	 * map it; under lock. */
	bool moved_lost;
	bool greeted; /* a hello was answered: another is said again */
	/* WELCOME_*: what the daemon understands, as its last welcome said; a
	 * hint, so relaxed: what is asked while it is replaced may go to the
	 * one or to the other. */
	atomic_uint understands;

	/* No socket, in a forked child that has had no use for one so far: wake
	 * gets one by connection_replace, or fails. */
	atomic_bool asleep;
	int (*wake)(void *arg);
	void *wake_arg;
};

/* At most two replies: WIRE_LOADING, of which only the last counts, then the
 * answer. */
#define CALL_REPLIES_MAX 2

/* One request under way; lives on the caller's stack. */
struct call {
	struct call *next;
	uint32_t serial;
	/* What was asked: kept by the caller, for when it must be asked again
	 * (connection_resume.c). */
	uint16_t type;
	const void *body;
	size_t size;
	const int *fds;
	int n_fds;
	bool sent;     /* or being sent */
	bool answered; /* for good */
	bool owed;     /* another server is to be asked it, when there is room */
	bool resent;
	bool suspect; /* a server died while it worked on it */
	bool failed; /* cannot be resent */
	int unsaid;  /* ENOMEM, EMFILE, ...: for want of that; 0: another why */
	int starved; /* ENOMEM, EMFILE: its answer could not be taken */
	int n_replies;
	struct wire_message replies[CALL_REPLIES_MAX];
};

/* Takes fd, also when it fails. */
int connection_init(struct connection *c, int fd, const char *peer,
	int timeout_ms);
void connection_done(struct connection *c);

/* Before anything else is done with it: one that sleeps is woken. 0, or why it
 * cannot be. */
int connection_ready(struct connection *c);

/* Sends a request and waits for its one reply of type want, with a body of at
 * least min_size bytes; the caller clears *ret. The daemon's own error comes
 * back as ours, with its sentence. -ETIMEDOUT, -ECONNRESET, -EPROTO. */
int connection_call(struct connection *c, uint16_t type, const void *body,
	size_t size, uint16_t want, uint32_t min_size,
	struct wire_message *ret);

/* The same in steps, for calls with more than one reply. body and fds must
 * stay as they are until call_end. call_next: 1 with a
 * reply in *ret, 0 when timeout_ms have passed without one. */
int call_begin(struct connection *c, struct call *call, uint16_t type,
	const void *body, size_t size, const int *fds, int n_fds);
int call_next(struct connection *c, struct call *call, int timeout_ms,
	struct wire_message *ret);
void call_end(struct connection *c, struct call *call);

/* Was it asked again, of another server? What was said of it meanwhile, such
 * as WIRE_CANCEL, was not heard. */
bool call_was_resent(struct connection *c, const struct call *call);

/* Checks a reply's type and size; turns WIRE_ERROR into an error. */
int call_expect(const struct connection *c, const struct wire_message *reply,
	uint16_t want, uint32_t min_size);

/* What has come unasked, for who makes no call but may be told: that another
 * server is there, or that the daemon is gone, -ECONNRESET. */
int connection_hear(struct connection *c);

/* Receives until done(arg) says so: 0, an error of the connection, or
 * -ETIMEDOUT without a sentence. */
int connection_await(struct connection *c, int timeout_ms,
	bool (*done)(void *arg), void *arg);

/* A message that nobody answers. It never waits: what the socket does not take
 * now goes out before the next request. */
int connection_notify(struct connection *c, uint16_t type, const void *body,
	size_t size);

/* ---- between connection.c and connection_*.c ---------------------------- */

static inline int connection_is_dead(const struct connection *c)
{
	/* Acquire: pairs with the release store in die() of connection.c. */
	return atomic_load_explicit(&c->dead, memory_order_acquire);
}

/* Of one that is dead: its sentence, to be told again. */
int connection_error(const struct connection *c);
/* Without a lock: the socket failed so; it is dead, and its sentence. */
int connection_broken(struct connection *c, int r);
/* call: NULL for what nobody answers, which is not waited for, either. */
int connection_send(struct connection *c, struct call *call, uint16_t type,
	uint32_t serial, const void *body, size_t size, const int *fds,
	int n_fds);
/* With the lock held. What came while nobody waited, such as the news of
 * another server, which would not hear what is said before it is answered. */
void connection_catch_up(struct connection *c);
/* With the lock held, which is given up meanwhile: receives for all, or sleeps
 * while another thread does, until something came, or the deadline. */
void connection_turn(struct connection *c, int64_t deadline);

/* WIRE_RESTARTED came, to the thread that receives; no lock is held. */
int connection_resume(struct connection *c, const struct wire_message *news);
/* Without a lock, by who is about to wait for an answer: what could not be
 * asked again so far, for want of room. True: there was some, of which more may
 * be left, or have failed; so look again in a moment. */
bool connection_ask_owed(struct connection *c);
/* What a welcome says of the daemon; and did it say that? */
void connection_note(struct connection *c, uint32_t flags);
bool connection_knows(const struct connection *c, uint32_t flag);
/* Is it the answer to that, with a table? */
bool connection_is_moved(const struct wire_message *reply);
/* A call that cannot be asked again: -ECONNRESET, or what was wanting, with a
 * sentence. */
int call_lost(const struct connection *c, const struct call *call);
/* With the lock held. */
uint32_t connection_next_serial(struct connection *c);
/* Without a lock, by who is about to wait for an answer: what a socket has not
 * taken so far, such as the rest of a call that was given up, is not left to
 * whoever speaks next. 1: nothing is left; 0: wait until it takes more; or
 * wire_is_short. */
int connection_push_on(struct connection *c);
/* With the send lock held: until all is away, or the rest is left to whoever
 * waits for an answer, or speaks next. */
int connection_flush(struct connection *c);

/* ---- forks: connection_fork.c ----------------------------------------- */

/* All its locks, so that a child finds it whole. */
void connection_lock(struct connection *c);
void connection_unlock(struct connection *c);

/* What becomes of it in a child; with all its locks. The parent's socket is
 * closed, calls that were under way fail. */
/* It goes on over another one, which is empty afterwards. */
void connection_replace(struct connection *c, struct connection *other);
/* It goes on when it is used: c->wake. */
void connection_sleep(struct connection *c);
/* It is dead; why is a sentence without its subject. */
void connection_bury(struct connection *c, int err, const char *why);
