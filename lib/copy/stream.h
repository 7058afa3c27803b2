/* SPDX-License-Identifier: MIT */
/*
 * The internals of a stream. Each copy is a job, in one list at a time:
 *
 *	waiting -> running -> done		with files: running is pumped
 *	memory -------------> done		the first one is, slice by slice
 *
 * Small reads are gathered: they are members of a gathering while it runs.
 *
 * stream.c makes and frees it, stream_queue.c accepts and cancels jobs,
 * stream_work.c carries them out, stream_poll.c provides the descriptor for
 * poll().
 */
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <sys/types.h>

#include "lib/copy/copy_env.h"

enum {
	STREAM_COPIES = 1024, /* the default of the options */
	/* Picked: a job and its copy operation take some 2 KiB. It is also
	 * what an id has room for. */
	STREAM_COPIES_MAX = 1 << 20,
	STREAM_BUFFER = 16 << 20,
	/* Each running copy has a request under way, or will have. */
	STREAM_RUNNING = TARN_IO_DEPTH,
	/* Of half a MiB each: with fewer a disk would be idle between them. */
	STREAM_GATHERS = 8,
	/* Requests submitted, or waited for, together. */
	STREAM_BATCH = TARN_IO_DEPTH / 4,
	STREAM_BATCH_MS = 2, /* but no longer than this */
};

#define STREAM_NEVER INT64_MAX /* of clocks */

struct job {
	uint64_t id, user;
	struct copy_op *copy_op;
	int64_t deadline;         /* STREAM_NEVER: none */
	int64_t begun, cpu_begun; /* the stream's clocks when work began */
	bool started, done;
	bool alone;            /* must not be gathered again */
	struct job_list *list; /* the list that contains it; NULL: a free job */
	struct job *prev, *next;
};

struct job_list {
	struct job *head, *tail;
	uint32_t n;
};

/* Small copies that are read together. */
struct gather {
	struct copy_op *reader; /* NULL: not in use */
	struct job_list members;
	uint64_t begin;      /* in the storage, of the range that is read */
	char *buffer, *data; /* data: where the bytes go in buffer */
};

struct tarn_stream {
	struct copy_env env;
	pthread_t owner;
	/* A child of fork has the memory, but not the engine. */
	pid_t pid;
	unsigned forks; /* the number of forks at that time */
	int epoll_fd, event_fd, timer_fd;
	bool lost; /* the engine does not answer: its memory is never freed */

	struct job *jobs;      /* limit of them */
	uint32_t limit, fresh; /* jobs from fresh on were never used */
	uint64_t sequence;
	struct job_list unused, waiting, running, memory, done;

	struct gather gathers[STREAM_GATHERS];

	int64_t now, cpu; /* nanoseconds, when last read */
	int64_t earliest; /* deadline; may be earlier than any that remains */
	unsigned unsubmitted; /* requests, approximately */
	bool called_back;     /* since the last stream_begin: some copies can go
			   * on */
	uint64_t bytes_done, bytes_total;

	bool polled; /* the caller has the descriptor */
	bool signalled;
	int64_t armed; /* the timer is set to this time */
};

/* -EINVAL: the wrong thread; -EPERM: the wrong process. */
int stream_check(const tarn_stream *stream) _must_check_;

void job_list_add(struct job_list *list, struct job *job); /* adds to the end */
void job_list_add_first(struct job_list *list, struct job *job);
void job_list_remove(struct job *job);

/* The time ms milliseconds after the last reading of the clock. */
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

/* Ends those with no request under way at once. */
void stream_cancel_all(tarn_stream *stream);

/* ---- stream_work.c --------------------------------------------------- */

void stream_look_at_clocks(tarn_stream *stream);
/* Begins copies as far as there is room; nothing is submitted yet. */
void stream_begin(tarn_stream *stream);
/* Submits the begun requests to the kernel, and calls done() for completed
 * ones. */
int stream_submit(tarn_stream *stream, unsigned wait_for, int timeout_ms);
/* Records the start time. */
void stream_start(tarn_stream *stream, struct job *job);
/* Moves a job to the list of those that are done. */
void stream_finish(tarn_stream *stream, struct job *job);
/* Frees a job that is done. */
void stream_forget(tarn_stream *stream, struct job *job);

/* ---- stream_gather.c ------------------------------------------------- */

/* Can a copy be gathered? Then its copy operation is made by stream_new_small,
 * and uses no resources of the engine. */
bool stream_is_small(const struct copy_op *head);
int stream_new_small(struct copy_env *env, const struct copy_op *head,
	struct copy_op **ret) _must_check_;
/* Before a job runs alone: replaces its copy operation by one that can. */
int stream_alone(struct job *job) _must_check_;
/* Gathers the first waiting jobs, if possible: the caller pumps the reader.
 * NULL: not now. */
struct gather *stream_gather(tarn_stream *stream);
/* The reader is finished, or lost: its members are done, or, if they may be
 * tried again after a failure, wait to be read one by one. */
void stream_gather_done(tarn_stream *stream, struct gather *gather, bool again);
/* No job may be a member any more. */
void stream_gather_free(tarn_stream *stream);

/* ---- stream_poll.c --------------------------------------------------- */

int stream_poll_open(tarn_stream *stream) _must_check_;
void stream_poll_close(tarn_stream *stream);
/* At the end of each call: updates the descriptor's state. */
void stream_poll_update(tarn_stream *stream);
