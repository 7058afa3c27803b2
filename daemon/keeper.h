/* SPDX-License-Identifier: MIT */
/*
 * The keeper: what must outlive everything else.
 *
 * It holds the memory (segments and control regions, mapped writable before
 * they were sealed), the door, every client's socket and lease memfd, and
 * forks the processes that work: a server, loaders, and short-lived
 * populators. It understands no byte that a client sends, so there is nothing
 * a client could crash it with.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "daemon/conf.h"
#include "daemon/internal.h"
#include "daemon/kept.h"
#include "daemon/options.h"
#include "shm/table.h"

#define SEGMENT_UNIT (2ull << 20)      /* the size of a huge page */
#define SEGMENT_FIRST (32ull << 20)    /* of a small daemon; then it doubles */
#define SEGMENT_DEFAULT (256ull << 20) /* a GiB is registered in four calls */
#define SEGMENT_LIMIT (1ull << 30)     /* io_uring's for one buffer */
#define SEGMENTS_MAX 16384u            /* io_uring's for one ring */
#define CLIENT_BUCKETS 1024u           /* picked; some four in each at most */
#define RULES_MAX 256u /* users and pools; picked, each costs a region */

struct door;

/* A growth that the server asked for: one of a rule at a time, and one of all
 * rules is worked on. So there is a record for each, and none goes unanswered
 * for want of memory. */
struct keeper_grow {
	struct msg_grow want;
	bool asked;       /* it is in the queue */
	bool placed;      /* then: */
	uint64_t at, end; /* where the next segment goes, and what it ends at */
	uint64_t left;    /* bytes still to be made */
	struct keeper_grow *next;
};

/* What the server is still to be told of a rule. */
enum rule_due { DUE_NOTHING, DUE_OFFER, DUE_READY };

struct keeper_rule {
	struct pool_spec spec;
	int rw_fd; /* until it is sealed; then -1 */
	int ro_fd; /* from then on */
	struct table table;
	enum rule_due due;
	bool left; /* by the program before: mapped read-only, to be copied */
	uint64_t pool_end;  /* of the last segment */
	uint64_t allocated; /* bytes of its segments */
	uint32_t n_clients; /* of its user, if it is one's own */
	struct keeper_grow grow;
};

struct keeper_segment {
	struct mapped_segment mapped;
	int fd; /* O_RDONLY once it is sealed */
};

/* A connection: held so that a new server could take it over. */
struct keeper_client {
	struct msg_client who;
	uint32_t home; /* the rule of its uid */
	int socket;
	int lease_fd;
	struct keeper_client *next; /* of the same bucket */
};

/* One that may still write: until its pipe has ended. */
struct keeper_loader {
	struct msg_loader who;
	int pipe_fd;
	struct keeper_loader *next;
};

struct keeper {
	struct options line; /* without the configuration */
	struct options options;
	struct config config;
	struct door *door;
	uint64_t instance;
	uint64_t budget;
	uint64_t allocated;
	uint64_t own;   /* of the budget, beside segments, as last told */
	uint64_t reach; /* of each pool */

	uint64_t began_at; /* CLOCK_MONOTONIC ns */

	pid_t server_pid;
	int server_sock;
	uint32_t restarts;    /* of the server */
	uint32_t ended;       /* servers, for upgrades */
	bool ended_last;      /* the last one was */
	uint32_t upgrades;    /* of this process to another program */
	char *program;        /* what it was started as; NULL: not known */
	pid_t checker_pid;    /* whether what is installed can go on; 0: none */
	uint64_t check_until; /* it is killed then; 0: not */
	uint64_t left_at;     /* nobody is served since then; 0 */
	uint64_t deaths[4];   /* when the last few were */
	uint64_t resume_at;   /* 0, or when to try again */
	struct wire_reader *reader;
	struct wire_writer *writer;

	struct keeper_rule rules[RULES_MAX];
	uint32_t n_rules;
	uint64_t rules_at; /* when to try again what is due; 0: nothing is */
	struct keeper_segment *segments;
	uint32_t n_segments;
	uint32_t next_segment; /* its number: none is used twice */
	struct keeper_client *clients[CLIENT_BUCKETS]; /* by number */
	uint32_t n_clients;
	uint32_t clients_max;
	int deaf; /* accepting failed: not at once again */
	uint64_t next_client;
	struct keeper_loader *loaders;
	uint32_t last_loader;
	struct kept_table kept; /* for the next server */

	struct keeper_grow *grows; /* the first is under way */
	struct keeper_grow orphan; /* who asked for it is dead */
	pid_t populator_pid;       /* 0: none */
	/* Being made, if mapped.addr is set: populated by a child, then mapped
	 * by the server, then sealed. */
	struct keeper_segment growing;

	int signal_fd;
	int shut;     /* the door, since the server wants to end */
	int stopping; /* a client asked for it */
	int draining;
	int finished; /* set once: leave the loop */
	int status;
};

/* Serves until told to end; the exit status. */
/* line: what the command line alone says; options: with the configuration. */
int keeper_run(const struct options *line, const struct options *options,
	const struct config *config);

/* keeper_rules.c: control regions */
/* The rule of a user's own memory, made if there is none. */
int keeper_rule_for(struct keeper *keeper, uint32_t uid, uint32_t *ret_rule);
int keeper_rule_add(struct keeper *keeper, const struct pool_spec *spec,
	uint32_t *ret_rule);
int keeper_rule_mapped(struct keeper *keeper, const struct msg_rule *rule);
/* Tries again what failed for want of something. */
void keeper_rules_look(struct keeper *keeper);
/* Copies those that were left, and seals those that the dead server did not
 * come to map: the next inherits. */
int keeper_rules_settle(struct keeper *keeper);
void keeper_rules_tell(struct keeper *keeper);
void keeper_rules_free(struct keeper *keeper);

/* keeper_reload.c: the configuration, and once more at SIGHUP */
int keeper_pool_add(struct keeper *keeper, const struct pool_spec *spec);
/* Adds the new ones, and gives others the size that they have now. */
void keeper_pools_update(struct keeper *keeper, const struct config *config);
void keeper_reload(struct keeper *keeper);

/* keeper_memory.c: segments */
int keeper_grow(struct keeper *keeper, const struct msg_grow *want);
void keeper_populated(struct keeper *keeper, int status);
int keeper_mapped(struct keeper *keeper, const struct msg_segment *answer);
/* As if nobody had asked for memory; what was being made goes back. */
void keeper_memory_forget(struct keeper *keeper);
/* Ends what the dead server has asked for. */
void keeper_memory_settle(struct keeper *keeper);
void keeper_segments_tell(struct keeper *keeper);
void keeper_memory_free(struct keeper *keeper);

/* keeper_holes.c: segments that go, and what takes their place */
int keeper_drop_segment(struct keeper *keeper, const struct msg_segment *which);
/* The lowest gap between a rule's segments that has so many bytes. */
bool keeper_hole(const struct keeper *keeper, uint32_t rule, uint64_t size,
	uint64_t *ret_offset, uint64_t *ret_end);

/* keeper_clients.c: the door, and who came through it */
void keeper_limit_clients(struct keeper *keeper);
/* Some of those who wait; poll tells of the others. */
void keeper_accept(struct keeper *keeper);
/* The server found nothing to do for a long time: does anybody wait? */
void keeper_drain_accepts(struct keeper *keeper);
struct keeper_client *keeper_client_find(
	struct keeper *keeper, uint64_t number);
/* One of the keeper before this one. Takes its descriptors. */
int keeper_client_adopt(
	struct keeper *keeper, const struct keeper_client *client);
void keeper_client_forget(struct keeper *keeper, uint64_t number);
/* It has named a pool: a new server finds it there. */
int keeper_client_move(struct keeper *keeper, const struct msg_client *to);
/* All of them one by one, from NULL on, in no order; NULL at the end. */
struct keeper_client *keeper_client_next(
	struct keeper *keeper, const struct keeper_client *client);
void keeper_clients_free(struct keeper *keeper);

/* keeper_loaders.c: whose writes are not over */
int keeper_loader_start(struct keeper *keeper, const struct msg_loader *want);
int keeper_loader_adopt(
	struct keeper *keeper, const struct msg_loader *who, int pipe_fd);
void keeper_loader_gone(struct keeper *keeper, uint32_t number);
void keeper_loaders_tell(struct keeper *keeper);
void keeper_loaders_free(struct keeper *keeper);

/* keeper_kept.c: what the server gave to be held */
int keeper_keep(struct keeper *keeper, struct wire_message *m);
void keeper_kept_tell(struct keeper *keeper);

/* keeper_fork.c: children */
int keeper_fork_server(struct keeper *keeper);
int keeper_fork_loader(struct keeper *keeper, struct msg_loader *loader,
	int *ret_sock, int *ret_pipe);
/* Runs keeper_check_exec there, with the descriptor state. */
pid_t keeper_fork_checker(struct keeper *keeper, int state);
/* reserved: of the reserve of huge pages, so that no headroom is asked for. */
pid_t keeper_fork_populator(struct keeper *keeper, int fd, void *addr,
	uint64_t size, bool reserved);

/* keeper_server.c: the server's life */
uint64_t keeper_now(void); /* CLOCK_MONOTONIC ns */
/* Forks one, and tells it all that there is. */
int keeper_server_start(struct keeper *keeper);
/* The same after another one; tried again later if it fails. */
void keeper_server_begin(struct keeper *keeper);
/* Its socket has ended; all that it said was heard. */
void keeper_server_gone(struct keeper *keeper);
/* It is dead, with a status of waitpid: another begins, or a pause. */
void keeper_server_died(struct keeper *keeper, int status);
/* The pause is over. */
void keeper_server_resume(struct keeper *keeper);
/* Sends to the server. If it is gone, the next one is told all there is. */
int keeper_tell(struct keeper *keeper, uint16_t type, const void *body,
	size_t size, const int *fds, int n_fds);
/* The same for what the server waits for, or must not be without: if it cannot
 * be told, it is ended. */
void keeper_insist(
	struct keeper *keeper, uint16_t type, const void *body, size_t size);
/* What is queued: 1 all away, 0 not yet, or an error that is final. */
int keeper_flush(struct keeper *keeper);
/* The same to a new one, which is killed if it cannot be told. */
void keeper_replay(struct keeper *keeper, uint16_t type, const void *body,
	size_t size, const int *fds, int n_fds);

/* keeper.c */
/* All that a server which is dead has said. */
void keeper_hear_last(struct keeper *keeper);

/* keeper_upgrade.c: another program over the same memory */
#define ADOPT_YES 87 /* a check's exit status; nothing else ends so: picked */
void keeper_program_note(struct keeper *keeper);
/* SIGUSR2. First a child tries it. */
void keeper_upgrade(struct keeper *keeper);
void keeper_upgrade_look(struct keeper *keeper); /* does it take too long? */
/* It has ended, with a status of waitpid. Returns if nothing came of it. */
void keeper_upgrade_checked(struct keeper *keeper, int status);
int keeper_check_exec(struct keeper *keeper, int state);
/* In the new program: could it go on with that state? */
int keeper_adopt_check(int state);
/* It does: options.adopt. */
int keeper_adopt(struct keeper *keeper);
