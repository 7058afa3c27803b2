/* SPDX-License-Identifier: MIT */
/* A client: its connection, its leases, what it asks, and its end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/loop/deadline.h"
#include "daemon/loop/loop.h"
#include "daemon/messages.h"
#include "daemon/server/send/completion.h"
#include "shm/lease.h"

struct faults;
struct msg_checked;
struct domain;
struct server;

/* Replies that a client did not read. The server does not read from it
 * meanwhile, so they answer requests that were under way: mostly publications,
 * whose requests were four times as long, and within the quota of its user. */
#define CLIENT_QUEUE_MAX (64u << 20)
#define CLIENT_LEASES_MAX 64u /* pages: 8 million leases; picked */

/* A pause that doubles for as long as something is short: reply.c. */
struct backoff {
	struct deadline timer;
	uint64_t ns; /* the last one; 0: it was not short */
};

struct client {
	struct domain *domain; /* which it may use, and no other */
	struct domain *user; /* of its uid; its closer closes the descriptors */
	struct client *next, **here; /* of its domain; what leads to it */
	uint64_t number;
	uint32_t uid;
	uint32_t gid;
	int32_t pid;
	bool child;       /* made for one that has not spoken: pid is not its */
	uint32_t version; /* of the protocol; 0 before its hello */
	bool may_write;   /* load, publish, remove */
	uint64_t held;    /* bytes of answers unread, as last counted */
	uint32_t in_flight; /* descriptors sent, perhaps unread */
	bool welcome;       /* said hello */
	bool seen;          /* an earlier server may have read from it */
	bool resuming;      /* nothing is read before WIRE_RESUME */
	struct completions completions;
	uint64_t came_at, last_message_at; /* loop_now() */
	bool gone;           /* to be freed when the loop is back */
	bool turned_away;    /* the request that is being received */
	bool spared;         /* the last one was: in_flight.c */
	uint64_t held_since; /* its next request; 0: it is not held */
	/* The system was short of memory or descriptors when the server had to
	 * answer the client, or to read from it: it tries again then. */
	struct backoff answering, reading;
	int sock;
	int pid_fd; /* of its process; -1: it cannot be watched */
	struct loop_watch *pid_watch;
	int lease_fd;
	struct lease_page **leases; /* the first is of lease_fd */
	uint32_t n_leases;
	struct loop_watch *watch;
	struct wire_reader reader;
	struct wire_writer *writer;
	uint64_t told_at; /* that its next request waits in its socket */
	uint32_t n_loads;
	uint32_t n_publishes; /* that wait, be it for their turn */
};

/* send/reply.c */
void client_reply(struct client *client, const struct wire_out *out);
/* The sentence of this thread's last failure, as an answer. */
void client_refuse(struct client *client, uint32_t serial, int error);
/* As wire_flush, but that the system is short for a moment is none of its
 * errors: 0, and it is tried again. */
int client_flush(struct client *client);
/* Does not read from it for a moment, for lack of memory or descriptors: from
 * one moment to the next twice as long, until client_readable. */
void client_pause(struct client *client);
/* It could be read from. */
void client_readable(struct client *client);
/* Cancels both back-off timers. */
void client_end_pauses(struct client *client);

/* client/client.c */
int client_new(struct domain *domain, const struct msg_client *from, int sock,
	int lease_fd);
void client_drop(struct client *client, const char *why);
/* Reads from it from now on. */
void client_listen(struct client *client);
void client_free(struct client *client);
/* Into a domain's list, and out of it. */
void client_join(struct client *client, struct domain *domain);
void client_leave(struct client *client);

/* A message that came, or of which r says why it did not; 0, or an error that
 * ends the connection. */
int client_receive(struct client *client, struct wire_message *m, int r);
/* After an event of this client's, which began then and ended with r. The
 * client may be gone after it. */
void client_received(struct client *client, uint64_t began, int r);

/* client/arrival.c: long messages, read in steps */
/* 1: the message is whole; 0: it is read on between events, and handed to
 * client_receive() then; *m is taken; or an error. */
int arrival_begin(struct client *client, struct wire_message *m);
/* Must the client's next message wait for a long one? */
bool arrival_holds(const struct client *client);
/* The client is about to be freed. */
void arrival_orphan(struct client *client);

/* client/request.c: the clients' requests */
/* The most that the body of such a message may have. */
uint32_t request_largest(uint16_t type);
/* Takes what it needs of the message; 0, or an error with its sentence. */
int request_take(struct client *client, struct wire_message *m);

/* inspect/report.c: WIRE_REPORT */
int report_send(struct client *client, uint32_t serial);

/* publish/remove.c: WIRE_REMOVE */
int remove_take(struct client *client, const struct wire_message *m);

/* inspect/check_queue.c: WIRE_CHECK */
int check_take(struct client *client, uint32_t serial);
/* The client is about to be freed. */
void check_orphan(struct client *client);

/* inspect/self_check.c: what is checked */
/* Has each storage that only leases hold one? */
bool self_check_is_settled(struct domain *domain);
/* Of all domains, or only that one. */
int self_check(struct server *server, struct domain *only,
	struct faults *faults, struct msg_checked *sum);
int self_check_send(struct client *client, uint32_t serial,
	const struct msg_checked *sum, const struct faults *faults);
/* Adds what is wrong with one domain, and what was looked at. -ENOMEM. */
int self_check_domain(
	struct domain *domain, struct faults *faults, struct msg_checked *sum);

/* client/process.c: a process whose end ends its client */
void process_watch(struct client *client, const struct msg_client *from);
void process_unwatch(struct client *client);
/* It was made for a child, by another process, which is watched no more. */
void process_expect(struct client *client);
/* It has sent this: perhaps the child's first message. */
void process_receive(struct client *client, const struct wire_message *m);

/* storage/lease_pages.c: a client's lease pages */
/* Maps them all: more than one after a server has died. */
int leases_open(struct client *client);
void leases_close(struct client *client);
/* Its process may live on, and look names up: in the pages it reads that what
 * it takes there from now on counts for nothing. */
void leases_send(struct client *client);
/* The answer to WIRE_LEASES. */
int leases_more(struct client *client, uint32_t serial);
uint32_t leases_count(const struct client *client);
void leases_search(const struct client *client, struct lease_batch *batch);
/* Has the client notified the server since this was asked last? See
 * "Notifications" in shm/lease.h. */
bool leases_were_notified(const struct client *client);
/* When did the client last release a lease on that storage, by its own note?
 * loop_now(), but not exactly; 0: it has no note. */
uint64_t leases_noted(
	const struct client *client, uint32_t index, uint64_t generation);

/* client/resume.c: clients of another server */
void client_resume(struct client *client);
int client_resumes(struct client *client, const struct wire_message *m);
