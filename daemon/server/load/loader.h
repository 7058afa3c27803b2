/* SPDX-License-Identifier: MIT */
/* Loaders: the processes that read files, from the server's end. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/loop/deadline.h"
#include "daemon/loop/loop.h"
#include "daemon/messages.h"
#include "daemon/server/memory/segments.h"

struct load;
struct domain;

#define HUNG_NS 5000000000ull /* a slow disk answers sooner; picked */

struct loader {
	struct domain *domain; /* the domain of the pool that it fills */
	struct domain *user;   /* of the uid whose files it reads */
	struct loader *next;
	int32_t pid;
	uint32_t number; /* of all loaders: table_storage.loader */
	uint32_t n_jobs;
	bool retired; /* a newer one takes the new jobs */
	bool alone;   /* its job is to have no other beside it */
	bool hung;    /* killed for not answering */
	bool busy;    /* inside its callback: not to be freed */
	int sock, pipe_fd;
	struct segment_mapper mapper;
	struct loop_watch *watch, *pipe_watch;
	struct wire_writer *writer;
	struct deadline again; /* something is short: it is sent later */
};

/* load/loader.c: the server's end of loaders */
/* 1: the newest of that load's uid, if it knows enough segments; 0: one was
 * asked for; or an error: none will come. */
int loader_for(
	const struct load *load, uint32_t n_segments, struct loader **ret);
int loader_come(struct domain *domain, const struct msg_loader *from, int sock,
	int pipe_fd);
int loader_command(struct loader *loader, uint16_t type, const void *body,
	size_t size, const int *fds, int n_fds);
/* D_LOADER_LEFT: one of a server before this one. */
int loader_left(
	struct domain *domain, const struct msg_loader *from, int pipe_fd);
bool loader_writes(const struct domain *domain, uint32_t number); /* may it? */
void loader_job_done(struct loader *loader);
void loader_free_all(struct domain *domain);
/* It does no more: its loads begin again with another. */
void loader_died(struct loader *loader);

/* load/loader_hang.c */
/* Kills loaders that a dead file system holds: others do their work. */
void loader_check(struct domain *domain, uint64_t now);
