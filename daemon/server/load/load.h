/* SPDX-License-Identifier: MIT */
/* A load: a file's bytes on their way into a pool, and their names. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/messages.h"
#include "daemon/server/account/admission.h"
#include "daemon/server/publish/names.h"
#include "daemon/server/storage/memory_queue.h"

struct client;
struct loader;
struct domain;

enum load_state {
	LOAD_UNADMITTED,  /* waits for its turn */
	LOAD_NEW,         /* waits for a loader */
	LOAD_IDENTIFYING, /* the loader stats the file */
	LOAD_WAITING,     /* for memory */
	LOAD_FILLING,     /* the loader reads */
	LOAD_SHARING,     /* another load reads the same bytes */
	LOAD_DROPPING,    /* cancelled: the loader may still write */
};

/* What its loader has done with it so far. */
struct load_reading {
	uint64_t asked_at; /* L_FILE is not answered since then; 0: it is */
	uint64_t last_message_at; /* about it, from the loader; 0: none */
	bool begun;               /* to read its file */
	bool alone;   /* it may have held up a loader: it gets its own */
	bool retried; /* after a loader that died */
};

/* Where its bytes go, from LOAD_FILLING on. */
struct load_bytes {
	uint32_t index;
	uint64_t generation;
	uint64_t offset, size; /* of the pool; size 0: it has nothing */
};

/* LOAD_SHARING: it waits for the bytes that another load reads. */
struct load_share {
	struct load *with;
	bool apart;             /* it shares with none of another user */
	uint64_t since, landed; /* so many bytes had landed then */
};

/* LOAD_COPY: its bytes are those of another storage, and there is no file. */
struct load_copy {
	bool is;
	bool moves; /* LOAD_MOVE */
	bool held;  /* storage_need */
	uint32_t index;
	uint64_t generation;
	struct msg_range range;
};

/* One WIRE_LOAD on its way. */
struct load {
	struct domain *domain;
	struct domain *user; /* of the uid that loads */
	struct load *next;
	enum load_state state;
	bool joined; /* in its domain's list, and charged for */

	/* What was asked for. */
	struct client *client; /* NULL: it left */
	uint32_t serial;
	struct wire_message message; /* the names are read from it */
	int fds[2];               /* buffered, direct; -1 when there is none */
	uint32_t n_fds;           /* that it was charged for */
	struct file_version seen; /* by its client */
	bool fresh;               /* it is read, also if it is kept */
	uint32_t place;           /* that its client names: place.h */
	uint32_t n_ranges;
	const struct msg_range *ranges;
	struct name_list names;
	char *label;   /* printable */
	uint64_t size; /* of the storage */
	struct load_copy copy;

	/* What it waits for: its turn, then memory. */
	struct admission admission;
	struct memory_wait wait;
	struct {
		bool counts; /* for an entry in the table */
		uint64_t bytes;
	} awaited;

	/* How it goes. */
	uint64_t job;
	struct loader *loader;
	struct msg_identity identity;
	struct load_reading reading;
	struct load_bytes bytes;
	struct load_share share;
	struct {
		bool loading;    /* WIRE_LOADING was sent */
		uint64_t memory; /* what was ready then, + 1; 0: not sent */
	} told;                  /* its client */
	uint64_t began_at;
	uint64_t cpu_start; /* of the server */
};

/* The loads of a domain, and their loader processes. */
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
/* The server ends, and no client is left: those that a loader has in hand. */
void load_end_all(struct domain *domain);
void load_progress(struct load *load, uint64_t bytes);
void load_go_on(struct domain *domain); /* a loader came, or ended */
/* Loads that another user's holds up go their own way. */
void load_check_sharers(struct domain *domain, uint64_t now);
struct load *load_by_job(struct domain *domain, uint64_t job);

/* load/parse.c */
int load_parse(struct load *load);
