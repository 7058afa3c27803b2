/* SPDX-License-Identifier: MIT */
/*
 * The keeper: what must outlive everything else.
 *
 * It holds the memory (segments, mapped writable before they were sealed, and
 * control regions), the listener, every client's socket and lease memfd, and
 * forks the processes that work: a server, loaders, and short-lived
 * populators. It understands no byte that a client sends, so there is nothing
 * a client could crash it with.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/nodes.h"
#include "daemon/config/conf.h"
#include "daemon/config/options.h"
#include "daemon/keeper/inherited.h"
#include "daemon/loop/deadline.h"
#include "daemon/loop/fd_store.h"
#include "daemon/loop/log_budget.h"
#include "daemon/messages.h"

#define SEGMENTS_MAX 16384u    /* io_uring's for one ring */
#define CLIENT_BUCKETS 1024u   /* picked; some four in each at most */
#define KEEPER_AGAIN_US 100000 /* what failed is tried again; picked */

struct listener;

/* A growth that the server asked for: one of a domain at a time. So there is a
 * record for each, and none goes unanswered for want of memory. One segment is
 * made at a time, of one growth after the other. */
struct keeper_grow {
	struct msg_grow want;
	bool asked;       /* it is in the queue */
	bool of_node;     /* it is the node that has no room */
	bool alone;       /* others under way do not count: a question */
	bool placed;      /* it has room for all that is left; then: */
	uint32_t lane;    /* that it goes to */
	uint64_t at, end; /* where the next segment goes, and what it ends at */
	uint64_t left;    /* bytes still to be made */
	struct keeper_grow *next;
};

struct keeper_domain {
	struct pool_spec spec;
	int fds[2]; /* its control region: O_RDWR; O_RDONLY, for clients */
	bool due;   /* the server could not take it: send it again */
	uint64_t pool_end;  /* of the last segment */
	uint64_t allocated; /* bytes of its segments */
	uint32_t n_clients; /* of its user, if it is a user's own domain */
	/* It had no names left when the last of these clients had gone. */
	bool empty;
	struct keeper_grow grow;
};

struct keeper_segment {
	struct mapped_segment mapped;
	uint64_t huge; /* bytes in huge pages, when it was populated */
	int fd;        /* O_RDONLY once it is sealed */
};

/* A connection: held so that a new server could take it over. */
struct keeper_client {
	struct msg_client who;
	uint32_t user; /* the domain of its uid */
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

/* The server that runs, and what is known of those before it. */
struct keeper_server {
	pid_t pid;
	int sock;
	struct wire_writer *writer;
	bool told; /* the whole state is in its socket, not in the queue */
	uint32_t restarts;     /* of the server */
	uint32_t ended;        /* servers, for upgrades */
	bool ended_last;       /* the last one was */
	uint64_t began_at;     /* CLOCK_MONOTONIC ns */
	uint64_t replay_until; /* the same: how long the keeper waits for it */
	uint64_t pause;        /* ns, before the next server if this one dies */
	struct deadline resume_at; /* the next server is started then */
	/* Reading is paused until then, for want of a descriptor or memory. */
	struct deadline read_at;
};

/* keeper/upgrade.c */
struct keeper_upgrade {
	uint32_t n;        /* of this process to another program, so far */
	char *program;     /* what it was started as; NULL: not known */
	pid_t checker_pid; /* whether what is installed can go on; 0: none */
	bool waiting;      /* it can; the server's end is awaited */
	struct deadline check_until; /* it is killed then */
	uint64_t left_at;            /* nobody is served since then; 0 */
};

/* keeper/segments.c */
struct keeper_memory {
	uint64_t budget;
	uint64_t allocated;
	uint64_t reach; /* of each pool */
	uint32_t lanes; /* of each pool; 1: nothing is placed */
	struct nodes nodes;
	struct keeper_segment *segments;
	uint32_t n_segments;
	uint32_t next_segment;       /* its number: none is used twice */
	struct keeper_grow *grows;   /* of growing it is the first */
	struct keeper_grow orphan;   /* the server that asked for it is dead */
	pid_t populator_pid;         /* 0: none */
	struct populated *populated; /* its page, shared with it */
	/* Being made, if mapped.addr is set: populated by a child, then mapped
	 * by the server, then sealed. */
	struct keeper_segment growing;
};

/* keeper/clients.c */
struct keeper_clients {
	struct keeper_client *buckets[CLIENT_BUCKETS]; /* by number */
	uint32_t n;
	uint32_t max;
	struct deadline accept_at; /* it failed: not again before */
	uint64_t next;             /* its number */
};

/* keeper/fd_reserve.c. Picked: more than the server can have given before a
 * message that frees one. */
#define KEEPER_RESERVE_MAX 64u
struct keeper_reserve {
	int fds[KEEPER_RESERVE_MAX];
	uint32_t n;
};

struct keeper {
	struct options line; /* without the configuration */
	struct options options;
	struct config config;
	char inherited[INHERITED_MAX]; /* and not to be undone */
	uint64_t instance;
	uint64_t began_at; /* CLOCK_MONOTONIC ns */
	struct deadlines deadlines;
	struct keeper_server server;
	struct keeper_upgrade upgrade;
	struct keeper_memory memory;
	struct keeper_clients clients;
	struct keeper_domain domains[DOMAINS_MAX];
	uint32_t n_domains;
	/* Of each domain, and, the last one, of all that have none. */
	struct log_budget lines[DOMAINS_MAX + 1];
	struct keeper_loader *loaders;
	uint32_t last_loader;
	struct fd_store fd_store; /* for the next server */
	struct keeper_reserve reserve;
	int dropper;               /* the socket to it; -1: none runs */
	struct fd_store undropped; /* sockets that could not be sent to it */
	struct deadline drop_at;   /* another one is forked for them */
	uint64_t drop_pause;       /* ns until then; 0: as short as can be */

	struct listener *listener;
	struct deadline listener_timer; /* is the socket there still? */
	bool displaced;                 /* it is not, and cannot be put there */
	/* the listener is, since the server wants to end */
	int unbound;

	int signal_fd;
	int stopping; /* a client asked for it */
	int draining;
	int finished; /* set once: leave the loop */
	int status;
};

/* Serves until it is asked to end; returns the exit status. */
/* line: the command line alone; options: with the configuration. */
int keeper_run(const struct options *line, const struct options *options,
	const struct config *config);

/* keeper/domains.c: control regions */
/* The domain of a user's own memory; DOMAINS_MAX: there is none. */
uint32_t keeper_domain_of(const struct keeper *keeper, uint32_t uid);
/* The same, made if there is none. */
int keeper_domain_for(
	struct keeper *keeper, uint32_t uid, uint32_t *ret_domain);
int keeper_domain_add(struct keeper *keeper, const struct pool_spec *spec,
	uint32_t *ret_domain);
/* The server could not take it. */
int keeper_domain_failed(struct keeper *keeper, const struct msg_domain *which);
/* The domain is empty; another user may have it if no client came. */
int keeper_domain_empty(struct keeper *keeper, const struct msg_domain *which);
void keeper_domains_replay(struct keeper *keeper);
/* May a line be logged that a domain's users cause, or, if it is DOMAINS_MAX,
 * anybody? Ask before any line that a client can cause. */
bool keeper_may_log(struct keeper *keeper, uint32_t domain);
void keeper_domains_free(struct keeper *keeper);

/* keeper/reload.c: the configuration, and once more at SIGHUP */
int keeper_pool_add(struct keeper *keeper, const struct pool_spec *spec);
/* Adds the new ones, and gives others the size that they have now. */
void keeper_pools_update(struct keeper *keeper, const struct config *config);
void keeper_reload(struct keeper *keeper);

/* keeper/segments.c: segments */
int keeper_grow(struct keeper *keeper, const struct msg_grow *want);
void keeper_populated(struct keeper *keeper, int status);
int keeper_mapped(struct keeper *keeper, const struct msg_segment *answer);
/* Drops all requests for memory, and unfinished segments. */
void keeper_memory_forget(struct keeper *keeper);
/* Ends what the dead server has asked for. */
void keeper_memory_finish(struct keeper *keeper);
void keeper_segments_replay(struct keeper *keeper);
void keeper_memory_free(struct keeper *keeper);

/* keeper/segment_grows.c: which growths have room, and whose turn it is */
int keeper_grow_add(struct keeper *keeper, const struct msg_grow *want);
/* The growth whose turn it is to make a segment, now at the head of the queue;
 * NULL: none has room. Others may get room for all that they want, or be
 * refused. While no segment is being made. */
struct keeper_grow *keeper_grow_next(struct keeper *keeper);
/* The first one has had its turn. */
void keeper_grow_turn(struct keeper *keeper);
/* Answers a growth, which is over. r 0 or the failure whose sentence was just
 * written. */
void keeper_grow_done(struct keeper *keeper, struct keeper_grow *grow, int r);
void keeper_grows_forget(struct keeper *keeper);
/* Is there room for so many bytes, of a growth that has its place all that is
 * left and what is made beyond that, beside the others under way? 0, or -ENOSPC
 * with a sentence. */
int keeper_may_grow(
	struct keeper *keeper, const struct keeper_grow *grow, uint64_t bytes);
/* What the others are still to take of a node, in pages as this one has. */
uint64_t keeper_held_on(
	const struct keeper *keeper, const struct keeper_grow *grow, int node);
/* A pool grows by multiples of that. */
uint64_t keeper_grow_unit(const struct keeper_domain *domain);

/* keeper/segment_pages.c: what pages they have */
/* Before a populator is forked: what it leaves its figures in. */
void keeper_pages_prepare(struct keeper *keeper);
/* Makes the memfd, and maps it with the advice that the pool wants. */
int keeper_segment_map(const struct pool_spec *spec, struct keeper_segment *s);
/* Of a pool of reserved pages: are there enough for so many bytes, beside others
 * that are to be taken? */
int keeper_reserve_check(
	const struct pool_spec *spec, uint64_t bytes, uint64_t others);
/* The populator's work, in its process, where fd is the segment's: 0, or a
 * positive errno. */
int keeper_populate(
	struct keeper *keeper, const struct keeper_segment *segment, int fd);
/* Of the segment that was populated last, the bytes in huge pages. */
uint64_t keeper_populated_huge(const struct keeper *keeper, uint64_t size);
/* Logs that a pool will not get the pages that it asks for. */
void keeper_pages_warn(const struct pool_spec *spec);

/* keeper/segment_gaps.c: segments that go, and what takes their place */
int keeper_drop_segment(struct keeper *keeper, const struct msg_segment *which);
/* The lowest gap between a domain's segments that has so many bytes. */
bool keeper_hole(const struct keeper *keeper, uint32_t domain, uint32_t lane,
	uint64_t size, uint64_t *ret_offset, uint64_t *ret_end);
/* Where the last segment of a lane ends, or else the lane begins. */
uint64_t keeper_lane_end(
	const struct keeper *keeper, uint32_t domain, uint32_t lane);
uint64_t keeper_lane_size(const struct keeper *keeper);

/* keeper/dropper.c: closing what clients can put something into */
/* Takes a descriptor, and closes it in another process; always returns -1. Never
 * blocks. If the peer of a socket is to see the end at once, the caller shuts
 * the socket down before. */
int keeper_drop(struct keeper *keeper, int fd);
/* Drops what could not be dropped before. If undropped is not empty then, no
 * process could be forked. */
void keeper_drop_rest(struct keeper *keeper);
/* Lets the process go that does so. The next socket starts another. */
void keeper_drop_end(struct keeper *keeper);
/* The main function of that process, which was forked with n of them. */
_Noreturn void keeper_dropper_run(int sock, const int *inherited, int n);

/* keeper/clients.c: accepting clients */
/* Are there enough descriptors to serve a client, and to be stopped? */
int keeper_check_descriptors(void);
void keeper_limit_clients(struct keeper *keeper);
/* Accepts some of the clients that wait; poll reports the others. */
void keeper_accept(struct keeper *keeper);
/* All of them. */
void keeper_accept_all(struct keeper *keeper);
/* The server was idle for a long time: does a client wait? */
void keeper_drain_accepts(
	struct keeper *keeper, const struct msg_drain *question);
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
/* Their connections end: the daemon's last act. */
void keeper_clients_end(struct keeper *keeper);

/* keeper/loader_pipes.c: loaders whose writes are not over */
int keeper_loader_start(struct keeper *keeper, const struct msg_loader *want);
int keeper_loader_adopt(
	struct keeper *keeper, const struct msg_loader *who, int pipe_fd);
void keeper_loader_gone(struct keeper *keeper, uint32_t number);
/* It does not answer; its pipe ends when nothing of it is in flight. */
void keeper_loader_kill(struct keeper *keeper, uint32_t number);
/* A child has ended: if it was a loader, its pid may belong to another process
 * now. */
void keeper_loader_reaped(struct keeper *keeper, pid_t pid);
void keeper_loaders_replay(struct keeper *keeper);
void keeper_loaders_free(struct keeper *keeper);

/* keeper/fd_reserve.c: descriptors for what the server gives */
/* As many as are free, up to what there should be. */
void keeper_reserve_take(struct keeper *keeper);
/* Closes one, in the place of which another can be received; false: there is
 * none left. */
bool keeper_reserve_give(struct keeper *keeper);

/* keeper/held_fds.c: what the server gave to be held */
int keeper_store_fd(struct keeper *keeper, struct wire_message *m);
void keeper_forget_fd(struct keeper *keeper, const struct msg_fd_key *key);
void keeper_fds_replay(struct keeper *keeper);

/* keeper/fork.c: children */
int keeper_fork_server(struct keeper *keeper);
/* The socket to a new one, which has inherited what is undropped. */
int keeper_fork_dropper(struct keeper *keeper);
int keeper_fork_loader(struct keeper *keeper, struct msg_loader *loader,
	int *ret_sock, int *ret_pipe);
/* Runs keeper_check_exec there, with the descriptor state. */
pid_t keeper_fork_checker(struct keeper *keeper, int state);
pid_t keeper_fork_populator(
	struct keeper *keeper, const struct keeper_segment *segment);

/* keeper/server_process.c: the server's life */
uint64_t keeper_now(void); /* CLOCK_MONOTONIC ns */
/* That is called with the keeper in so many ns. */
void keeper_call_in(struct keeper *keeper, struct deadline *deadline,
	uint64_t ns, void (*fn)(void *keeper));
/* Forks a server, and sends it the whole state. */
int keeper_server_start(struct keeper *keeper);
/* The same after another one; tried again later if it fails. */
void keeper_server_begin(struct keeper *keeper);
/* Its socket has ended, and all its messages were read. */
void keeper_server_gone(struct keeper *keeper);
/* It is dead, with a status of waitpid: another begins, or a pause, or the
 * upgrade that it was ended for. */
void keeper_server_died(struct keeper *keeper, int status);
/* The pause is over. */
void keeper_server_resume(struct keeper *keeper);
/* Sends to the server. If it is gone, the next gets the whole state. */
int keeper_send(struct keeper *keeper, uint16_t type, const void *body,
	size_t size, const int *fds, int n_fds);
/* The same for a message that the server waits for, or needs: if it cannot be
 * sent, the server is killed. */
void keeper_insist(
	struct keeper *keeper, uint16_t type, const void *body, size_t size);
/* Asks it to end, ahead of all that is queued: what the kernel refuses to send
 * must not keep the daemon. The server goes on with what comes later. */
void keeper_terminate_server(struct keeper *keeper);
/* Sends the queue: 1 all sent, 0 not yet, or an error that is final. */
int keeper_flush(struct keeper *keeper);
/* The same to a new one, which is killed if that fails. */
void keeper_replay(struct keeper *keeper, uint16_t type, const void *body,
	size_t size, const int *fds, int n_fds);

/* keeper.c */
/* No other process of the same user may attach to it, or open what it has. An
 * exec undoes that. */
void keeper_hide(void);
/* The first that a program does that takes a keeper's place (--adopt): it has
 * all that the keeper had, and can be attached to until then. */
void keeper_adopt_begin(void);

/* keeper/server_requests.c: what the server asks */
/* Handles all messages that have come. -EPIPE: the server is gone; -EPROTO: a
 * message is invalid. */
int keeper_receive_server(struct keeper *keeper);
/* Handles all messages that a dead server left; waits for a while for what they
 * lack. */
void keeper_receive_last(struct keeper *keeper);

/* keeper/upgrade.c: another program over the same memory */
#define ADOPT_YES 87 /* a check's exit status; nothing else ends so: picked */
void keeper_program_note(struct keeper *keeper);
/* SIGUSR2. First a child tries it. */
void keeper_upgrade(struct keeper *keeper);
/* It has ended, with a status of waitpid. Returns if nothing came of it, or if
 * the server must end first. */
void keeper_upgrade_checked(struct keeper *keeper, int status);
/* The server has ended. Returns if nothing came of the upgrade. */
void keeper_upgrade_go_on(struct keeper *keeper);
int keeper_check_exec(struct keeper *keeper, int state);
/* In the new program: could it go on with that state? */
int keeper_adopt_check(int state);
/* It does: options.adopt. */
int keeper_adopt(struct keeper *keeper);
