/* SPDX-License-Identifier: MIT */
/* A client: its connection, its leases, what it asks, and its end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/internal.h"
#include "daemon/loop.h"
#include "shm/lease.h"

struct faults;
struct msg_checked;
struct rule;
struct server;

#define CLIENT_QUEUE_MAX (4u << 20) /* replies that a client did not read */
/* Answers to publications beside those: what waits for memory at once, and then
 * comes to an end at once, is WIRE_MESSAGE_MAX of messages, each with at least
 * four bytes for one of its answer. */
#define CLIENT_ANSWERS_MAX (20u << 20)
#define CLIENT_LEASES_MAX 64u /* pages: 8 million leases; picked */
#define CLIENT_LOADS_MAX 64u  /* at once, for one connection */

struct client {
	struct rule *rule; /* which it may use, and no other */
	struct rule *home; /* of its uid: whose closer closes its descriptors */
	struct client *next, **here; /* of its rule; what leads to it */
	uint64_t number;
	uint32_t uid;
	uint32_t gid;
	int32_t pid;
	bool child;       /* made for one that has not spoken: pid is not its */
	uint32_t version; /* of the protocol; 0 before its hello */
	bool may_write;   /* load, publish, remove */
	uint64_t held;    /* bytes of messages, as last counted */
	bool welcome;     /* said hello */
	bool seen;        /* a server before this one may have heard it */
	bool resuming;    /* not heard before it says WIRE_RESUME */
	bool left_behind; /* it cannot follow: whatever it asks is refused */
	uint64_t came_at, heard_at; /* loop_now() */
	bool gone;                  /* to be freed when the loop is back */
	bool is_short; /* the system was, when it should have been answered */
	int sock;
	int pid_fd; /* of its process; -1: it cannot be watched */
	struct loop_watch *pid_watch;
	int lease_fd;
	struct lease_page **leases; /* the first is of lease_fd */
	uint32_t n_leases;
	struct loop_watch *watch;
	struct wire_reader *reader;
	struct wire_writer *writer;
	uint32_t n_loads;
	uint32_t n_publishes;   /* that wait */
	uint64_t publish_bytes; /* of their messages */
	uint32_t n_unread;      /* times that it asked for more than it reads */
};

/* server_reply.c */
void client_reply(struct client *client, uint16_t type, uint32_t serial,
	const void *body, size_t size, const int *fds, int n_fds);
/* The sentence of this thread's last failure, as an answer. */
void client_refuse(struct client *client, uint32_t serial, int error);
/* The same, with ERROR_FOR_NOW. */
void client_refuse_for_now(struct client *client, uint32_t serial, int error);
/* As wire_flush, but that the system is short for a moment is none of its
 * errors: 0, and it is tried again. */
int client_flush(struct client *client);
/* What the system was too short to send, sooner or later. When to come back,
 * loop_now(); UINT64_MAX: nothing is left. */
uint64_t clients_push_on(struct server *server);

/* server_client.c */
int client_new(struct rule *rule, const struct msg_client *from, int sock,
	int lease_fd);
void client_drop(struct client *client, const char *why);
/* It is heard from now on. */
void client_listen(struct client *client);
void client_free(struct client *client);
/* Into a rule's list, and out of it. */
void client_join(struct client *client, struct rule *rule);
void client_leave(struct client *client);

/* server_request.c: what clients ask */
/* The most that the body of such a message may have. */
uint32_t request_largest(uint16_t type);
/* Takes what it needs of the message; 0, or an error with its sentence. */
int request_take(struct client *client, struct wire_message *m);

/* server_report.c: what people ask */
void report_status(struct client *client, uint32_t serial);
int report_send(struct client *client, uint32_t serial);

/* server_remove.c: WIRE_REMOVE */
int remove_take(struct client *client, const struct wire_message *m);

/* server_check.c: WIRE_CHECK */
int check_send(struct client *client, uint32_t serial);
/* Adds what is wrong with one rule, and what was looked at. -ENOMEM. */
int check_rule(
	struct rule *rule, struct faults *faults, struct msg_checked *sum);

/* server_share.c: the server's time, among users */
void share_join(struct client *client);
void share_leave(struct client *client);
/* A turn of the loop begins. */
void share_turn(struct server *server);
/* Is it another user's turn? It is heard in a later one. */
bool share_is_spent(const struct client *client);
void share_spend(struct client *client, uint64_t began);

/* server_process.c: whose end is the client's, too */
void process_watch(struct client *client, const struct msg_client *from);
void process_unwatch(struct client *client);
/* It was made for a child, by another process, which is watched no more. */
void process_expect(struct client *client);
/* It has said this: perhaps the child's first word. */
void process_hear(struct client *client, const struct wire_message *m);

/* server_leases.c: a client's lease pages */
/* Maps them all: more than one after a server has died. */
int leases_open(struct client *client);
void leases_close(struct client *client);
/* Its process may live on, and look names up: in the pages it reads that what
 * it takes there from now on counts for nothing. */
void leases_tell(struct client *client);
/* The answer to WIRE_LEASES. */
int leases_more(struct client *client, uint32_t serial);
uint32_t leases_count(const struct client *client);
void leases_search(const struct client *client, struct lease_batch *batch);
/* When did it last give one back on that storage, as it says? loop_now(), but
 * not exactly; 0: it does not say. */
uint64_t leases_noted(
	const struct client *client, uint32_t index, uint64_t generation);

/* server_resume.c: clients of another server */
void client_resume(struct client *client);
int client_resumes(struct client *client, const struct wire_message *m);
/* Why it is not served: -ESTALE. */
int client_left_behind(const struct client *client);
