/* SPDX-License-Identifier: MIT */
/* A load: a file's bytes on their way into a pool, and their names. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/internal.h"
#include "daemon/server_names.h"

struct client;
struct loader;
struct rule;

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
	struct rule *rule;
	struct rule *home; /* of the uid that loads */
	struct load *next;
	struct client *client; /* NULL: it left */
	bool joined;           /* in its rule's list, and charged for */
	uint32_t serial;
	uint64_t token; /* of what it publishes */
	uint64_t since; /* as in msg_publish; 0: it is not said */
	bool doubt;     /* asked again, and others were there since */
	uint64_t job;
	enum load_state state;
	struct loader *loader;
	int fds[2];     /* buffered, direct; -1 when there is none */
	uint32_t n_fds; /* that it was charged for */
	struct wire_message message; /* the names are read from it */
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
	bool asked_to_grow;
	bool parked;         /* waits for memory to come back, asks for none */
	uint64_t park_until; /* 0: it never has */
	bool told;           /* WIRE_LOADING was sent */
	uint64_t asked_at;   /* L_FILE is not answered since then; 0: it is */
	uint64_t heard_at;   /* when the loader last spoke of it; 0: not yet */
	uint64_t began_at;
	bool moved;         /* away from a loader that hung */
	bool retried;       /* after a loader that died */
	struct load *with;  /* LOAD_SHARING: whose bytes */
	uint64_t cpu_start; /* of the server */
};

/* server_load.c and its like: the life of a load */
void load_start(struct client *client, struct wire_message *message);
void load_cancel(struct client *client, uint32_t serial);
void load_orphan(struct client *client); /* its client left */
void load_have_memory(struct rule *rule);
void load_no_memory(struct rule *rule, int error);
/* As publish_unpark. */
bool load_unpark(struct rule *rule, uint64_t now, uint64_t *next);
void load_identified(struct load *load, const struct msg_identity *identity);
void load_filled(struct load *load, const struct msg_filled *filled);
void load_failed(struct load *load, int error);
void load_dropped(struct load *load);
void load_lost(struct load *load); /* its loader died */
void load_progress(struct load *load, uint64_t bytes);
void load_go_on(struct rule *rule); /* a loader came, or memory */
void load_move(struct load *load);  /* to another loader: this one hangs */
struct load *load_by_job(struct rule *rule, uint64_t job);

/* server_load_parse.c */
int load_parse(struct load *load);
