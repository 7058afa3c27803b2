/* SPDX-License-Identifier: MIT */
/*
 * The server: one thread, one loop, all the answers.
 *
 * It alone writes the control regions and decides which client gets which
 * bytes. Of the bytes themselves it writes only those that clients publish in a
 * message or a memfd. It never touches a client's file: it calls only F_GETFL
 * on a descriptor that a client sent, and another process closes it (closer.h),
 * because even that may block.
 *
 * This is the state of the whole server; each of its nouns has its own header.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/config/conf.h"
#include "daemon/config/options.h"
#include "daemon/loop/deadline.h"
#include "daemon/loop/fd_store.h"
#include "daemon/loop/loop.h"
#include "daemon/loop/nudge.h"
#include "daemon/messages.h"
#include "daemon/server/account/admission.h"
#include "daemon/server/channel/channel.h"
#include "daemon/server/client/client.h"
#include "daemon/server/domain.h"
#include "daemon/server/load/load.h"
#include "daemon/server/load/loader.h"
#include "daemon/server/memory/segments.h"
#include "daemon/server/publish/names.h"
#include "daemon/server/publish/publish.h"
#include "daemon/server/storage/cache.h"
#include "daemon/server/send/completion.h"
#include "daemon/server/send/in_flight.h"
#include "daemon/server/storage/memory_queue.h"
#include "daemon/server/storage/own_memfd.h"
#include "daemon/server/storage/storage.h"
#include "shm/table_writer.h"

struct server_start {
	struct options options;
	struct config *config; /* the server's own, from the fork on */
	uint64_t instance;
	uint64_t budget;
	uint64_t reach;
	uint32_t lanes;     /* of each pool */
	struct nodes nodes; /* of the machine */
	int32_t keeper_pid;
	uint64_t pid_namespace;
	const char *inherited; /* and not to be undone */
	uint32_t restarts;     /* servers that died before this one */
	uint32_t ended;        /* and that were ended for an upgrade */
	bool upgraded;         /* the last one was */
	uint32_t upgrades;     /* of the keeper, that came about */
	uint64_t began_at;     /* the keeper: loop_now() */
	int sock;              /* to the keeper */
	/* Mapped writable when this process was forked. */
	const struct mapped_segment *segments;
	uint32_t n_segments;
};

/* From the fork to the end; the exit status. */
int server_run(const struct server_start *start);

#define SERVER_LOADS_MAX 65536u /* of all; fewer with few descriptors */
#define FD_RESERVE 2u /* what a message of the keeper's brings at most */

/* Descriptors for what the keeper sends: send/fd_reserve.c. */
struct fd_reserve {
	int fds[FD_RESERVE];
	uint32_t n;
	uint64_t lacking_since; /* loop_now(); 0: they are here */
	struct deadline timer;
};

/* Names that were published for a time: storage/name_expiry.c. */
struct ending_names {
	struct deadline end;
	uint64_t first, not_before; /* CLOCK_BOOTTIME */
};

/* between_turns.c: nothing to do, and the end. */
struct idle {
	uint64_t since; /* 0: not idle */
	struct deadline look;
};

struct drain {
	bool asked; /* the keeper was asked whether clients are queued */
	bool draining;
	bool leaving;   /* announced to the keeper, which ends when this
			 * process has */
	uint64_t until; /* then it ends with loads under way */
	struct deadline end;
};

/* Since the server began. */
struct load_totals {
	uint64_t loads, cached, failed, bytes;
	bool by_uring, by_threads;
};

/* The server's time, among users: client/quantum.c. */
struct turns {
	uint32_t n_users; /* that are connected */
	uint64_t round;
	uint64_t events; /* that it had room for so far */
};

/* With few descriptors there are fewer. */
struct server_limits {
	uint32_t loads;
	uint32_t publish_fds;
	uint32_t waiting; /* of requests that wait for these two */
	uint32_t more_leases;
	uint32_t in_flight; /* descriptors that clients have not read */
};

struct server {
	struct server_start start;
	struct loop *loop;
	struct loop_watch *keeper_watch;
	struct wire_writer *writer;
	struct fd_reserve fd_reserve;
	struct nudge nudge;   /* while a client's message is taken */
	unsigned char *spare; /* wire_reader's, for all clients */
	struct domain *domains;
	struct ending_names names;
	struct memory_queue memory;
	/* Mapped, not yet sealed; the keeper makes one at a time. */
	struct mapped_segment offered;
	struct fd_store fd_store;
	bool serving;         /* the keeper has sent the whole state */
	uint32_t n_inherited; /* of start.segments, that were taken over */
	uint64_t next_job;
	uint64_t started_at;
	struct idle idle;
	struct drain drain;
	struct deadline loads_timer; /* whether a loader hangs */
	struct load_totals totals;
	uint64_t allocated;
	uint32_t n_leaving;        /* segments on their way to the keeper */
	struct psi_watch *psi;     /* NULL: the kernel tells nothing */
	struct deadline psi_timer; /* not all that can be watched is */
	struct deadline pressure_timer; /* at the headroom */
	struct turns turns;
	struct server_limits limits;
	struct in_flight in_flight;
	struct admissions admissions;
	uint32_t n_clients;
	uint32_t n_publishes;   /* that wait, be it for their turn */
	uint32_t n_more_leases; /* pages beside the first of each client */
};

/* send/to_keeper.c */
/* Copies of the descriptors go; the caller keeps its own. */
int server_send_keeper(struct server *server, uint16_t type, const void *body,
	size_t size, const int *fds, int n_fds);

/* from_keeper.c */
/* It is readable or writable. */
void server_receive_keeper(void *server, unsigned ready);

/* send/fd_reserve.c: descriptors for the keeper's messages */
/* They are reserved; otherwise the keeper's socket is not read until
 * fd_reserve_poll has found some. */
bool fd_reserve_take(struct server *server);
/* For the next message. */
void fd_reserve_give(struct server *server);
/* Whether to read from the keeper, and to write to it. */
void fd_reserve_watch(struct server *server);
/* Between turns. */
void fd_reserve_poll(struct server *server);

/* between_turns.c: between turns */
/* Before each wait of the loop. */
void server_between_turns(void *server);
/* The keeper's answer to the request to accept no more clients. */
void server_drained(struct server *server, const struct msg_drained *message);

/* balance.c: everything that counts in an account has left: do they add up? The
 * exit status, 1: they do not. */
int server_balance(const struct server *server);

/* storage/name_expiry.c: names that were published for a time */
/* Sets the deadline to what ends first; between turns. */
void expiry_set(struct server *server);
