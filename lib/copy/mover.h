/* SPDX-License-Identifier: MIT */
/*
 * A mover carries out one copy: a state machine driven by completions, which
 * never waits. A stream (stream.c) pumps many of them on one engine; tarn_copy
 * pumps one until it is finished.
 *
 * Which executor is decided by where the two sides are (a table in mover.c,
 * [dst place][src place]; a device will be a third row and column):
 *
 *	copy_memory.c	memory -> memory	slices of a move, no request
 *	copy_read.c	file -> memory
 *	copy_write.c	memory -> file
 *	copy_relay.c	file -> file		through a window in memory
 */
#pragma once

#include <tarn/copy.h>

#include "lib/copy/bounce.h"
#include "lib/copy/file_slots.h"
#include "lib/copy/regions.h"
#include "lib/io/io.h"
#include "lib/move/move.h"
#include "lib/tensor/tensor.h"

enum place { PLACE_MEMORY, PLACE_FILE, PLACE_DEVICE, PLACES };

/*
 * What the movers of a stream share; all NULL where neither side is a file.
 * To be used from the first pump on, not before: a thousand movers may be
 * waiting, and must hold nothing of it.
 */
struct mover_env {
	struct tarn_io *io;
	struct bounce *bounce;
	struct file_slots *files;
	struct regions *regions; /* or NULL: nothing is registered */
	/* Bytes that copies from file to file have for their windows, and may
	 * have together; one of them may have more. */
	uint64_t windows, windows_max;
	bool windows_wanted;	/* somebody was told to wait, */
	bool windows_came_free; /* and since then some were given back */
};

struct mover;
struct mover_ops {
	/*
	 * Begins something: queues requests while fewer than limit of this
	 * mover are in flight, or moves a slice (about 1 MiB) of memory.
	 * Returns how much it began; 0: only a completion or a free bounce
	 * buffer helps, or nothing is left (then it has set ended). Not called
	 * once it has ended.
	 */
	unsigned (*pump)(struct mover *mover, unsigned limit);
	/* What it has of env goes back, and its own large memory: of one that
	 * is finished, or was never pumped; perhaps a second time. NULL: it
	 * has nothing. */
	void (*let_go)(struct mover *mover);
	/* Has let go. Frees mover. */
	void (*free)(struct mover *mover);
};

/* The head of each executor's own structure. */
struct mover {
	const struct mover_ops *ops;
	struct mover_env *env;
	tarn_tensor *dst, *src; /* a reference to each */
	struct tarn_layout from; /* src's, broadcast to dst's shape */
	struct move move; /* planned by dst for memory; executors that want
			     another order plan again */
	/* A copy; scale and bias are the caller's. channel_dim is >= 0, or -1
	 * where all elements share one scale and bias, or there are none. */
	struct tarn_copy_options options;
	struct tarn_copy_info info; /* executors count read, written, cached,
				       direct, requests; bytes is set */
	uint64_t done;	    /* bytes of dst that have arrived */
	unsigned in_flight; /* requests of its that the engine has */
	struct mover *outer; /* of which this one does a part, or NULL */
	bool ended;	    /* begins nothing more */
	bool cancelled;
	int error; /* the first, negative, kept with its sentence */
	char error_text[256];
};

/*
 * Checks (shape, rights, overlap, channels), plans, picks. Takes references
 * to both. -EINVAL, -EROFS, -EBADF: they must not be copied so; -ENOTSUP: no
 * executor, or dtypes that cannot be; -ENOMEM.
 */
int mover_new(struct mover_env *env, tarn_tensor *dst, const tarn_tensor *src,
	const struct tarn_copy_options *options, struct mover **ret)
	_must_check_;

/* Before a finished one is kept for long, for its result alone: others want
 * what it has of env. */
void mover_let_go(struct mover *mover);
/* Only of one that is finished, or was never pumped. Takes NULL and returns
 * NULL. */
struct mover *mover_free(struct mover *mover);
DEFINE_CLEANUP(struct mover *, mover_free);

/* Nothing is in flight, and nothing more will be. */
static inline bool mover_finished(const struct mover *mover)
{
	return mover->ended && mover->in_flight == 0;
}

/* Begins nothing more; the result will be -ECANCELED, unless it ended or
 * failed before. */
void mover_cancel(struct mover *mover);
/* The thread's sentence becomes the mover's, unless it has one; ended. error
 * is negative. */
void mover_failed(struct mover *mover, int error);
/*
 * For one that can neither go on nor has anything under way that would bring it
 * on, which is our own mistake. An assertion would take the caller's process
 * for it, and without one he would wait for ever; but nothing writes to his
 * memory any more, so it costs him no more than this copy: -EIO.
 */
void mover_stuck(struct mover *mover);
/* Of a finished one: 0, or the error, and tells its sentence again. */
int mover_result(const struct mover *mover);

/* ---- for executors --------------------------------------------------- */

/* head is what mover_new has found out: copied to mover, with references to
 * both tensors. mover_drop gives those back. */
void mover_begin(struct mover *mover, struct mover_env *env,
	const struct mover *head, const struct mover_ops *ops);
void mover_drop(struct mover *mover);

/* A request was queued; one is done. Executors count with these alone, since
 * it is in flight for the outer mover too. */
static inline void mover_launched(struct mover *mover)
{
	for (; mover; mover = mover->outer)
		mover->in_flight++;
}

static inline void mover_landed(struct mover *mover)
{
	for (; mover; mover = mover->outer)
		mover->in_flight--;
}

/* Each allocates its structure, and begins it with head. */
int copy_memory_new(struct mover_env *env, const struct mover *head,
	struct mover **ret);
int copy_read_new(struct mover_env *env, const struct mover *head,
	struct mover **ret);
int copy_relay_new(struct mover_env *env, const struct mover *head,
	struct mover **ret);
int copy_write_new(struct mover_env *env, const struct mover *head,
	struct mover **ret);

/* Has room for windows come free since somebody was told to wait? Asked
 * once. */
bool copy_relay_came_free(struct mover_env *env);

/* ---- for those who drive them ---------------------------------------- */

enum place place_of(const tarn_storage *storage);

/* mover_new in two steps. First its checks and its plan (copy_check.c): head
 * holds no references and is good for as long as the arguments are. */
int copy_check(struct mover *head, tarn_tensor *dst, const tarn_tensor *src,
	const struct tarn_copy_options *options) _must_check_;
/* What they must be for a dst of that layout: -EINVAL. channel_dim becomes what
 * it is in struct mover. */
int copy_check_options(const struct tarn_layout *to,
	struct tarn_copy_options *options) _must_check_;
/* -EINVAL unless it is one that users may name, or NULL. */
int copy_check_engine(const char *verb, const char *engine) _must_check_;
int mover_new_checked(struct mover_env *env, const struct mover *head,
	struct mover **ret) _must_check_;
