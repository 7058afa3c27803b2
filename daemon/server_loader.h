/* SPDX-License-Identifier: MIT */
/* Loaders: the processes that read files, from the server's end. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/internal.h"
#include "daemon/loop.h"

struct rule;

struct loader {
	struct rule *rule; /* whose pool it fills */
	struct rule *home; /* of the uid whose files it reads */
	struct loader *next;
	int32_t pid;
	uint32_t number;     /* of all loaders: table_storage.filler */
	uint32_t n_segments; /* it has those numbered below */
	uint32_t n_jobs;
	bool retired; /* a newer one takes the new jobs */
	bool hung;    /* retired for not answering */
	bool busy;    /* inside its callback: not to be freed */
	int sock, pipe_fd;
	uint32_t *forgetting; /* segments that it was told to unmap */
	uint32_t n_forgetting;
	struct loop_watch *watch, *pipe_watch;
	struct wire_reader *reader;
	struct wire_writer *writer;
};

/* server_loader.c: the server's end of loaders */
/* 1: the newest of that uid, if it knows enough segments; 0: one was asked for;
 * or an error: none will come. */
int loader_for(struct rule *rule, struct rule *home, uint32_t n_segments,
	struct loader **ret);
int loader_come(struct rule *rule, const struct msg_loader *from, int sock,
	int pipe_fd);
int loader_tell(struct loader *loader, uint16_t type, const void *body,
	size_t size, const int *fds, int n_fds);
/* D_LOADER_LEFT: one of a server before this one. */
int loader_left(struct rule *rule, const struct msg_loader *from, int pipe_fd);
bool loader_writes(const struct rule *rule, uint32_t number); /* may it? */
void loader_job_done(struct loader *loader);
/* Replaces the loader that a dead file system holds. */
void loader_check(struct rule *rule, uint64_t now);
void loader_free_all(struct rule *rule);
