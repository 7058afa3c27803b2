/* SPDX-License-Identifier: MIT */
/* A load: a file's bytes on their way into a pool, and their names. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/messages.h"
#include "daemon/server/publish/names.h"
#include "daemon/server/storage/memory_queue.h"

struct client;
struct loader;
struct domain;

enum load_state {
	LOAD_NEW,         /* waits for a loader */
	LOAD_IDENTIFYING, /* the loader stats the file */
	LOAD_WAITING,     /* for memory */
	LOAD_FILLING,     /* the loader reads */
	LOAD_SHARING,     /* another load reads the same bytes */
	LOAD_DROPPING,    /* cancelled: the loader may still write */
};

/* One WIRE_LOAD on its way. */
struct load {
	struct domain *domain;
	struct domain *user; /* of the uid that loads */
	struct load *next;
	struct client *client; /* NULL: it left */
	bool joined;           /* in its domain's list, and charged for */
	uint32_t serial;
	uint64_t job;
	enum load_state state;
	struct loader *loader;
	int fds[2];     /* buffered, direct; -1 when there is none */
	uint32_t n_fds; /* that it was charged for */
	struct wire_message message; /* the names are read from it */
	struct file_version seen;    /* by its client */
	bool fresh;                  /* it is read, also if it is kept */
	uint32_t n_ranges;
	const struct msg_range *ranges;
	struct name_list names;
	char *label;   /* printable */
	uint64_t size; /* of the storage */
	struct msg_identity identity;
	/* from LOAD_FILLING on */
	uint32_t index;
	uint64_t generation;
	uint64_t alloc_offset, alloc_size;
	struct memory_wait wait;
	bool awaited; /* that much is, for an entry in the table */
	uint64_t awaited_bytes;
	bool announced; /* WIRE_LOADING was sent */
	/* what was ready when last sent, + 1; 0: not */
	uint64_t announced_memory;
	uint64_t asked_at; /* L_FILE is not answered since then; 0: it is */
	/* when the loader last spoke of it; 0: not yet */
	uint64_t last_message_at;
	uint64_t began_at;
	bool begun;        /* its loader has begun to read its file */
	bool alone;        /* it may have held up a loader: it gets its own */
	bool retried;      /* after a loader that died */
	struct load *with; /* LOAD_SHARING: the load that reads */
	bool apart;        /* it shares with none of another user */
	/* LOAD_SHARING: how much had landed then */
	uint64_t shared_since, shared_landed;
	uint64_t cpu_start; /* of the server */
};

/* The loads of a domain, and who reads for them. */
struct loading {
	struct load *loads;
	struct loader *loaders;
	bool loader_wanted; /* the keeper was asked for a loader */
	bool loader_free;   /* loads that wait for one may look again */
	/* Loaded, kept for nobody: the oldest first. */
	struct uncached *uncached, *uncached_last;
	struct deadline uncached_end;
	uint32_t nothing; /* the storage of all that is empty, if cached */
	uint64_t nothing_generation;
};

/* load/load.c and its like: the life of a load */
void load_start(struct client *client, struct wire_message *message);
void load_cancel(struct client *client, uint32_t serial);
void load_orphan(struct client *client); /* its client left */
/* A segment came: tells waiting clients how much of their memory is there. */
void load_memory_comes(struct domain *domain, uint64_t bytes);
/* How much of the memory that a load waits for is ready. Both 0: it waits for
 * something else. */
void load_memory(
	const struct load *load, uint64_t *ret_ready, uint64_t *ret_wanted);
void load_identified(struct load *load, const struct msg_identity *identity);
void load_filled(struct load *load, const struct msg_filled *filled);
void load_failed(struct load *load, int error);
void load_dropped(struct load *load);
void load_lost(struct load *load); /* its loader died */
void load_progress(struct load *load, uint64_t bytes);
void load_go_on(struct domain *domain); /* a loader came, or ended */
/* Loads that another user's holds up go their own way. */
void load_check_sharers(struct domain *domain, uint64_t now);
struct load *load_by_job(struct domain *domain, uint64_t job);

/* load/parse.c */
int load_parse(struct load *load);
