/* SPDX-License-Identifier: MIT */
/*
 * A stream from the inside. Each copy is a job, in one list at a time:
 *
 *	waiting -> running -> done		with files: running is pumped
 *	memory -------------> done		the first one is, slice by slice
 *
 * stream.c makes and frees it, stream_queue.c takes jobs in and cancels them,
 * stream_work.c carries them out, stream_poll.c tells poll() of it.
 */
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <sys/types.h>

#include "lib/copy/env.h"

enum {
	STREAM_COPIES = 1024, /* the default of the options */
	/* Picked: a job and its mover take some 2 KiB. It is also what an id
	 * has room for. */
	STREAM_COPIES_MAX = 1 << 20,
	STREAM_BUFFER = 16 << 20,
	/* Each running copy has a request under way, or will have. */
	STREAM_RUNNING = TARN_IO_DEPTH,
	/* Requests submitted, or waited for, together. */
	STREAM_BATCH = TARN_IO_DEPTH / 4,
	STREAM_BATCH_MS = 2, /* but no longer than this */
};

#define STREAM_NEVER INT64_MAX /* of clocks */

struct job {
	uint64_t id, user;
	struct mover *mover;
	int64_t deadline; /* STREAM_NEVER: none */
	int64_t begun, cpu_begun; /* the stream's clocks when work began */
	bool started, done;
	struct job_list *list; /* that it is in; NULL: a free job */
	struct job *prev, *next;
};

struct job_list {
	struct job *head, *tail;
	uint32_t n;
};

struct tarn_stream {
	struct mover_env env;
	pthread_t owner;
	pid_t pid; /* a child of fork has the memory, but not the engine */
	int epoll_fd, event_fd, timer_fd;
	bool lost; /* the engine does not answer: what it has stays its */

	struct job *jobs; /* limit of them */
	uint32_t limit, fresh; /* jobs from fresh on were never used */
	uint64_t sequence;
	struct job_list unused, waiting, running, memory, done;

	int64_t now, cpu; /* nanoseconds, as of the last look */
	int64_t earliest; /* deadline; may be earlier than any that is left */
	unsigned unsubmitted; /* requests, about */
	bool called_back; /* since the last stream_begin: some can go on */
	uint64_t bytes_done, bytes_total;

	bool polled; /* somebody has the descriptor */
	bool signalled;
	int64_t armed; /* the timer, for this time */
};

/* -EINVAL, -EPERM: not from this thread, not from this process. */
int stream_check(const tarn_stream *stream) _must_check_;

void job_list_add(struct job_list *list, struct job *job); /* to the end */
void job_list_remove(struct job *job);

/* So many milliseconds from the last look at the clock. */
static inline int64_t stream_time(const tarn_stream *s, int timeout_ms)
{
	return timeout_ms < 0 ? STREAM_NEVER
			      : s->now + (int64_t)timeout_ms * 1000000;
}

/* Jobs that are not done. */
static inline uint32_t stream_unfinished(const tarn_stream *s)
{
	return s->waiting.n + s->running.n + s->memory.n;
}

/* ---- stream_work.c --------------------------------------------------- */

void stream_look_at_clocks(tarn_stream *stream);
/* Begins what there is room for; nothing is submitted yet. */
void stream_begin(tarn_stream *stream);
/* Hands to the kernel what was begun, and calls back what is done. */
int stream_submit(tarn_stream *stream, unsigned wait_for, int timeout_ms);
/* To the list of those that are done. */
void stream_finish(tarn_stream *stream, struct job *job);
/* Gives back a job that is done. */
void stream_forget(tarn_stream *stream, struct job *job);

/* ---- stream_poll.c --------------------------------------------------- */

int stream_poll_open(tarn_stream *stream) _must_check_;
void stream_poll_close(tarn_stream *stream);
/* At the end of each call: makes the descriptor say what is so. */
void stream_poll_update(tarn_stream *stream);
