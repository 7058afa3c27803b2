/* SPDX-License-Identifier: MIT */
/*
 * The server: one thread, one loop, all the answers.
 *
 * It alone writes the control regions and decides who gets which bytes. Of the
 * bytes themselves it writes only what clients publish in a message or a
 * memfd. It never touches a client's file: of a descriptor
 * that a client sent it asks only F_GETFL, and closing it is left to a thread
 * (closer.h), because even that may block.
 *
 * This is the whole of it; each of its nouns has a header of its own.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/conf.h"
#include "daemon/internal.h"
#include "daemon/kept.h"
#include "daemon/loop.h"
#include "daemon/options.h"
#include "daemon/server_cache.h"
#include "daemon/server_channel.h"
#include "daemon/server_client.h"
#include "daemon/server_load.h"
#include "daemon/server_loader.h"
#include "daemon/server_names.h"
#include "daemon/server_own.h"
#include "daemon/server_publish.h"
#include "daemon/server_rule.h"
#include "daemon/server_segments.h"
#include "daemon/server_storage.h"
#include "shm/table.h"

struct server_start {
	struct options options;
	struct config *config; /* the server's own, from the fork on */
	uint64_t instance;
	uint64_t budget;
	uint64_t reach;
	int32_t keeper_pid;
	uint32_t restarts; /* servers that died before this one */
	uint32_t ended;    /* and that were ended for an upgrade */
	bool upgraded;     /* the last one was */
	uint32_t upgrades; /* of the keeper, that came about */
	uint64_t began_at; /* the keeper: loop_now() */
	int sock;          /* to the keeper */
	/* Mapped writable when this process was forked. */
	const struct mapped_segment *segments;
	uint32_t n_segments;
	const struct table *tables; /* by rule */
	uint32_t n_tables;
};

/* From the fork to the end; the exit status. */
int server_run(const struct server_start *start);

#define SERVER_LOADS_MAX 65536u /* of all; fewer with few descriptors */
#define SERVER_SPARES 2u /* what a message of the keeper's brings at most */

struct server {
	struct server_start start;
	struct loop *loop;
	struct loop_watch *keeper_watch;
	int spares[SERVER_SPARES];
	uint32_t n_spares;
	uint64_t deaf_since; /* without spares, loop_now(); 0: not */
	struct wire_reader *reader;
	struct wire_writer *writer;
	struct rule *rules;
	struct expiry *expiry;
	/* Mapped, not yet sealed; the keeper makes one at a time. */
	struct mapped_segment offered;
	struct kept_table kept;
	bool serving;         /* it was told all that there is */
	uint32_t n_inherited; /* of start.segments, that were taken over */
	uint64_t next_job;
	uint64_t started_at;
	uint64_t idle_since; /* 0: not idle */
	uint64_t timer_at;   /* 0: it is not set */
	uint64_t sweep_at;   /* see frozen_look */
	bool draining;
	uint64_t drain_until; /* then it ends with loads under way */
	bool asked_to_drain;  /* accepts */
	uint64_t n_loads, n_cached, n_failed, bytes_loaded;
	uint64_t allocated;
	uint32_t n_leaving;        /* segments on their way to the keeper */
	struct pressure *pressure; /* NULL: the kernel tells nothing */
	uint64_t pressure_at;      /* when to look at the headroom; 0: never */
	uint32_t n_clients;
	uint32_t n_users;      /* that are connected */
	uint64_t round;        /* server_share.c */
	uint64_t round_events; /* that it had room for so far */
	uint32_t n_short; /* clients that wait for the system to have again */
	uint64_t short_until; /* then it is tried; loop_now() */
	uint32_t n_left_behind;
	uint32_t n_active;      /* loads, those that are being dropped too */
	uint32_t n_publishes;   /* that wait */
	uint32_t n_publish_fds; /* that these have brought */
	uint32_t publish_fds_max;
	uint32_t loads_max;
	uint32_t n_more_leases; /* pages beside the first of each client */
	uint32_t more_leases_max;
};

/* server_keeper.c */
/* Copies of the descriptors go; the caller keeps its own. */
int server_tell_keeper(struct server *server, uint16_t type, const void *body,
	size_t size, const int *fds, int n_fds);
/* It is readable or writable. */
void server_hear_keeper(void *server, unsigned ready);

/* server_spare.c: descriptors for what the keeper says */
/* They are here; else it is not to be heard, and server_spare_look says when it
 * is. */
bool server_spare_take(struct server *server);
/* For the next message. */
void server_spare_give(struct server *server);
/* Whether to read from the keeper, and to write to it. */
void server_spare_watch(struct server *server);
/* Between turns: when to look next; 0: never. */
uint64_t server_spare_look(struct server *server, uint64_t now);

/* server_idle.c: between events */
/* Something ended or began: is the daemon idle, drained, in need of a timer? */
void server_look_around(struct server *server);
/* Before each wait of the loop. */
void server_between_turns(void *server);
/* The keeper's answer to being asked to accept nobody. */
void server_drained(struct server *server, const struct msg_drained *message);

/* server_expiry.c: names that were published for a time */
int expiry_new(struct server *server);
void expiry_free(struct server *server);
/* Sets the timer to what ends first; before each wait of the loop. */
void expiry_set(struct server *server);
