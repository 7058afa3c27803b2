/* SPDX-License-Identifier: MIT */
/*
 * A stream from the inside. Each copy is a job, in one list at a time:
 *
 *	waiting -> running -> done		with files: running is pumped
 *	memory -------------> done		the first one is, slice by slice
 *
 * Small reads are gathered: they are members of a gathering while it runs.
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
	/* Of half a MiB each: with fewer a disk would wait for us. */
	STREAM_GATHERS = 8,
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
	bool alone; /* is not to be gathered again */
	struct job_list *list; /* that it is in; NULL: a free job */
	struct job *prev, *next;
};

struct job_list {
	struct job *head, *tail;
	uint32_t n;
};

/* Small copies that are read together. */
struct gather {
	struct mover *reader; /* NULL: not in use */
	struct job_list members;
	uint64_t begin;	      /* in the storage, of what is read */
	char *buffer, *data;  /* where it goes, in the buffer */
};

struct tarn_stream {
	struct mover_env env;
	pthread_t owner;
	/* A child of fork has the memory, but not the engine. */
	pid_t pid;
	unsigned forks; /* as many as there were */
	int epoll_fd, event_fd, timer_fd;
	bool lost; /* the engine does not answer: what it has stays its */

	struct job *jobs; /* limit of them */
	uint32_t limit, fresh; /* jobs from fresh on were never used */
	uint64_t sequence;
	struct job_list unused, waiting, running, memory, done;

	struct gather gathers[STREAM_GATHERS];

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
void job_list_add_first(struct job_list *list, struct job *job);
void job_list_remove(struct job *job);

/* So many milliseconds from the last look at the clock. */
static inline int64_t stream_time(const tarn_stream *s, int timeout_ms)
{
	return timeout_ms < 0 ? STREAM_NEVER
			      : s->now + (int64_t)timeout_ms * 1000000;
}

/* Jobs that are being read together. */
static inline uint32_t stream_gathered(const tarn_stream *s)
{
	uint32_t n = 0;

	for (int i = 0; i < STREAM_GATHERS; i++)
		n += s->gathers[i].members.n;
	return n;
}

/* Jobs that are not done. */
static inline uint32_t stream_unfinished(const tarn_stream *s)
{
	return s->waiting.n + s->running.n + s->memory.n + stream_gathered(s);
}

/* ---- stream_queue.c -------------------------------------------------- */

/* Those that have nothing under way are done at once. */
void stream_cancel_all(tarn_stream *stream);

/* ---- stream_work.c --------------------------------------------------- */

void stream_look_at_clocks(tarn_stream *stream);
/* Begins what there is room for; nothing is submitted yet. */
void stream_begin(tarn_stream *stream);
/* Hands to the kernel what was begun, and calls back what is done. */
int stream_submit(tarn_stream *stream, unsigned wait_for, int timeout_ms);
/* Notes the time. */
void stream_start(tarn_stream *stream, struct job *job);
/* To the list of those that are done. */
void stream_finish(tarn_stream *stream, struct job *job);
/* Gives back a job that is done. */
void stream_forget(tarn_stream *stream, struct job *job);

/* ---- stream_gather.c ------------------------------------------------- */

/* Whether a copy can be gathered; then its mover is made by stream_new_small,
 * and takes nothing of the engine. */
bool stream_is_small(const struct mover *head);
int stream_new_small(struct mover_env *env, const struct mover *head,
	struct mover **ret) _must_check_;
/* Before a job runs by itself: its mover becomes one that can. */
int stream_alone(struct job *job) _must_check_;
/* Gathers the first jobs that wait, if that can be done: the reader is to be
 * pumped. NULL: not now. */
struct gather *stream_gather(tarn_stream *stream);
/* The reader is finished, or lost: members are done, or, if they may try again
 * after a failure, wait to be read one by one. */
void stream_gather_done(tarn_stream *stream, struct gather *gather, bool again);
/* Nobody is a member any more. */
void stream_gather_free(tarn_stream *stream);

/* ---- stream_poll.c --------------------------------------------------- */

int stream_poll_open(tarn_stream *stream) _must_check_;
void stream_poll_close(tarn_stream *stream);
/* At the end of each call: makes the descriptor say what is so. */
void stream_poll_update(tarn_stream *stream);
