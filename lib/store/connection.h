/* SPDX-License-Identifier: MIT */
/*
 * A connection to a daemon: requests go out, replies come back by serial.
 *
 * Any number of threads may have a call under way. One of the threads that wait
 * does the receiving for all of them, and hands the role on when its own reply
 * has come; so the library needs no thread, and a load that takes a minute
 * delays no other call.
 *
 * A daemon's server may die and another take its place; then the receiving
 * thread sends all unanswered requests again. Callers do not notice.
 *
 * After an error of the socket itself every call fails with that error: a
 * connection dies once. A momentary lack of resources in this process or the
 * system fails one call and no more: the leases belong to the connection, and a
 * live process must keep them. A process with a dead connection keeps them too,
 * as long as the daemon has not ended it.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/messages.h"

/* A daemon answers in microseconds; a loaded machine may take seconds. */
#define CONNECTION_TIMEOUT_MS 10000
/* How long calls wait for memory to receive or to send with before they fail.
 * Picked, as the time between two tries to send. */
#define CONNECTION_NOMEM_MS 1000
#define CONNECTION_NAP_MS 10
/* How long calls wait for the descriptors that this user's processes have sent
 * to be read. Picked: the daemon is at work all the while. */
#define CONNECTION_AGAIN_MS 30000
/* The longest sleep of the thread that receives for all: another thread that
 * finds the connection dead as it sends cannot wake it. Picked. */
#define CONNECTION_LISTEN_MS 1000
/* Messages that are read at most because they may have come, before a call is
 * sent, say: a daemon that always sends one more must not hold the caller for
 * ever. Picked, above what a socket holds; those that are left are read with
 * the next ones. */
#define CONNECTION_UNASKED_MAX 1024
/* The serial of a notification, which has no answer. No call has it, and it is
 * not 0, since an error with 0 is one of the connection. */
#define CONNECTION_NOTIFY_SERIAL UINT32_MAX

struct connection {
	int fd;
	int timeout_ms; /* for one reply */
	char *peer;     /* the socket's path, for messages */

	/* Guards the fields below. No thread waits for the daemon with it, so a
	 * release, which must not wait, can take it. */
	pthread_mutex_t send;
	struct wire_writer *writer;
	bool notify_pending; /* the daemon is to be notified of a release */

	pthread_mutex_t lock; /* guards everything below */
	pthread_cond_t arrived;
	struct call *calls; /* those that wait for replies */
	bool receiving;     /* one of them has the socket */
	/* Of an answer, between two calls of receive(): its who receives. */
	struct wire_partial partial;
	unsigned char *spare; /* wire_reader's */
	uint32_t serial;      /* the last one used */
	/* no memory to receive since then; 0: there is some */
	int64_t nomem_since;
	int64_t resend_until; /* until then calls are sent again; 0: WIRE_RESENT
			     * was sent, and none is pending */
	/* the last sign of a daemon that does not read; clock_ms() */
	int64_t held_at;
	struct msg_restarted resume; /* the last WIRE_RESTARTED */
	/* there was no memory yet for WIRE_RESUME after it */
	bool resume_pending;
	bool resume_died; /* a server has died since the last WIRE_RESUME */
	char why[256];    /* the sentence that goes with dead */
	atomic_int dead;  /* errno; 0 as long as it works */

	/* There is no socket, in a forked child that has not needed one so far:
	 * wake gets one by connection_replace, or fails. */
	atomic_bool lazy;
	int (*reconnect)(void *arg);
	void *reconnect_arg;
};

/* At most two replies: WIRE_LOADING, of which only the last counts, then the
 * answer. */
#define CALL_REPLIES_MAX 2

/* One request under way; lives on the caller's stack. */
struct call {
	struct call *next;
	/* The request: kept by the caller, for when it must be sent again
	 * (connection_resume.c). */
	struct wire_out out;
	bool sent;
	bool answered; /* finally */
	/* to be sent again to another server, when there is room */
	bool pending_resend;
	bool resent;
	bool suspect; /* a server died while it processed it */
	bool failed;  /* cannot be resent */
	/* ENOMEM, EMFILE, ...: it was not sent for lack of that; 0: another
	 * reason */
	int unsent_error;
	int nomem; /* ENOMEM, EMFILE: its answer could not be received */
	int n_replies;
	struct wire_message replies[CALL_REPLIES_MAX];
};

/* Takes fd, also on failure. */
int connection_init(
	struct connection *c, int fd, const char *peer, int timeout_ms);
void connection_done(struct connection *c);

/* Call it before any other use: wakes a connection that sleeps. 0, or why that
 * failed. */
int connection_ready(struct connection *c);

/* Sends a request and waits for its one reply of type want, with a body of at
 * least min_size bytes; the caller clears *ret. An error reply of the daemon is
 * returned as this function's error, with its sentence. -ETIMEDOUT,
 * -ECONNRESET, -EPROTO. */
int connection_call(struct connection *c, uint16_t type, const void *body,
	size_t size, uint16_t want, uint32_t min_size,
	struct wire_message *ret);

/* The same in steps, for calls with more than one reply. The request gets its
 * serial here; its body and fds must stay as they are until call_end.
 * call_next: 1 with a reply in *ret, 0 when timeout_ms have passed without
 * one. */
int call_begin(
	struct connection *c, struct call *call, const struct wire_out *out);
int call_next(struct connection *c, struct call *call, int timeout_ms,
	struct wire_message *ret);
void call_end(struct connection *c, struct call *call);

/* Has the daemon said, within timeout_ms, that it is at work, and does not read
 * for now ("Back-pressure" in shm/messages.h)? */
bool connection_is_held(struct connection *c);

/* Was it sent again, to another server? That one has not received the call's
 * further messages, such as WIRE_CANCEL. */
bool call_was_resent(struct connection *c, const struct call *call);

/* Has the kernel refused to send a request, or the daemon taken it from the
 * socket only to refuse it, as too many descriptors were unread? It was not
 * done, and is to be sent again now: this has slept for a moment. False after
 * until, by clock_ms(). */
bool call_asks_again(int r, int64_t until);

/* Checks a reply's type and size; turns WIRE_ERROR into an error. */
int call_expect(const struct connection *c, const struct wire_message *reply,
	uint16_t want, uint32_t min_size);

/* Receives unsolicited messages, for a caller that makes no call but must
 * notice that another server is there, or that the daemon is gone:
 * -ECONNRESET. */
int connection_receive_unasked(struct connection *c);

/* Notifies the daemon of a release, without waiting, without allocating, and
 * without connecting a lazy connection, which has no leases. False: the
 * socket does not take the message now. */
bool connection_notify_release(
	struct connection *c, const struct msg_released *released);
/* After lease_notify(): the daemon is notified as soon as the socket takes a
 * message. */
void connection_notify_later(struct connection *c);

/* Sends a message that has no answer. It never waits: if the socket does not
 * take the message now, it goes out before the next request. */
int connection_notify(
	struct connection *c, uint16_t type, const void *body, size_t size);

/* ---- between connection.c and connection_*.c ---------------------------- */

static inline int connection_is_dead(const struct connection *c)
{
	/* Acquire: pairs with the release store in die() of connection.c. */
	return atomic_load_explicit(&c->dead, memory_order_acquire);
}

/* For a dead connection: sets its sentence again. */
int connection_error(const struct connection *c);
/* Without a lock: marks the connection as dead after the socket failed with r,
 * and returns the error with its sentence. */
int connection_broken(struct connection *c, int r);
/* Waits until the socket has taken the call's request. */
int connection_send(struct connection *c, struct call *call);
/* With the lock held. Receives messages that arrived while no thread waited,
 * such as the news of another server, which discards messages sent before the
 * answer to that. No more than CONNECTION_UNASKED_MAX. */
void connection_catch_up(struct connection *c);
/* With the lock held, which it releases meanwhile: receives for all, or sleeps
 * while another thread does, until something arrived, or the deadline. */
void connection_turn(struct connection *c, int64_t deadline);

/* Handles WIRE_RESTARTED, in the thread that receives; no lock is held. */
int connection_resume(struct connection *c, const struct wire_message *news);
/* Without a lock, before waiting for an answer: sends requests again that could
 * not be sent again so far, for lack of room. 1: there were some, of which more
 * may be left, or have failed; so call it again in a moment. An error: the
 * connection is unusable. */
int connection_resend_pending(struct connection *c);
/* The error of a call that cannot be sent again: -ECONNRESET, or the resource
 * that is lacking, with a sentence. */
int call_lost(const struct connection *c, const struct call *call);
/* With the lock held. */
uint32_t connection_next_serial(struct connection *c);
/* Without a lock, before waiting for an answer: sends queued messages, such as
 * repeated calls, so that they do not wait for the next sender. 1: nothing is
 * left; 0: wait until the socket takes more; or wire_is_short. */
int connection_push_on(struct connection *c);
/* The same with the send lock held. */
int connection_push_on_locked(struct connection *c);

/* ---- forks: connection_fork.c ----------------------------------------- */

/* Takes all its locks, so that a child finds it consistent. */
void connection_lock(struct connection *c);
void connection_unlock(struct connection *c);

/* The state of the connection in a child; with all its locks. The parent's
 * socket is closed, and calls that were under way fail. */
/* It continues over another connection, which is empty afterwards. */
void connection_replace(struct connection *c, struct connection *other);
/* It continues when it is used: c->reconnect. */
void connection_sleep(struct connection *c);
/* It is dead; why is a sentence without its subject. The parent's socket stays
 * open here, and with it the parent's leases. */
void connection_mark_dead(struct connection *c, int err, const char *why);
