/* SPDX-License-Identifier: MIT */
/*
 * A copy operation carries out one copy: a state machine driven by
 * completions, which never waits. A stream (stream.c) pumps many of them on
 * one engine; tarn_copy pumps one until it is finished.
 *
 * The executor depends on where the two sides are (a table in copy_op.c, [dst
 * medium][src medium]):
 *
 *	copy_memory.c	memory -> memory	slices of a move, no request
 *	copy_read.c	file -> memory
 *	copy_write.c	memory -> file
 *	copy_relay.c	file -> file		through a window in memory
 *	copy_device.c	device -> device, and memory that it has registered
 *	copy_through.c	device <-> anything	through slots in memory
 */
#pragma once

#include <tarn/copy.h>

#include "lib/copy/bounce.h"
#include "lib/copy/file_slots.h"
#include "lib/copy/regions.h"
#include "lib/io/io.h"
#include "lib/move/move.h"
#include "lib/tensor/tensor.h"

enum medium { MEDIUM_MEMORY, MEDIUM_FILE, MEDIUM_DEVICE, MEDIA };

/*
 * The resources that the copy operations of a stream share; all NULL where
 * neither side is a file. A copy operation uses them from its first pump on,
 * not before: a thousand copy operations may be waiting, and must hold none of
 * them.
 */
struct copy_env {
	struct tarn_io *io;
	struct bounce *bounce;
	struct file_slots *files;
	struct regions *regions; /* or NULL: nothing is registered */
	/* The budget, in bytes, of the windows of all copies from file to file;
	 * a single one of them may exceed it. */
	uint64_t windows, windows_max;
	bool windows_wanted;    /* a copy was told to wait, */
	bool windows_came_free; /* and since then some were returned */
};

struct copy_op;
struct copy_op_ops {
	/*
	 * Begins something: queues requests while fewer than limit of this
	 * copy operation are in flight, or moves a slice (about 1 MiB) of
	 * memory. Returns how much it began; 0: only a completion or a free
	 * bounce buffer helps, or nothing is left (then it has set ended). Not
	 * called once it has ended.
	 */
	unsigned (*pump)(struct copy_op *copy_op, unsigned limit);
	/* Returns its resources of env, and frees its own large memory: for a
	 * copy operation that is finished, or was never pumped; it may be
	 * called twice. NULL: it has none. */
	void (*release)(struct copy_op *copy_op);
	/* Called after release. Frees copy_op. */
	void (*free)(struct copy_op *copy_op);
};

/* The head of each executor's own structure. */
struct copy_op {
	const struct copy_op_ops *ops;
	struct copy_env *env;
	tarn_tensor *dst, *src;  /* a reference to each */
	struct tarn_layout from; /* src's layout, broadcast to dst's shape */
	struct move move; /* planned in dst's order for memory; executors that
			   * need another order plan again */
	/* A copy; scale and bias are the caller's. channel_dim is >= 0, or -1
	 * where all elements share one scale and bias, or there are none. */
	struct tarn_copy_options options;
	struct tarn_copy_info info; /* executors count read, written, cached,
				       direct, requests; bytes is set */
	uint64_t done;              /* bytes of dst that are complete */
	unsigned in_flight;         /* its requests in the engine */
	/* the copy operation of which this one does a part, or NULL */
	struct copy_op *outer;
	bool ended; /* begins nothing more */
	bool cancelled;
	int error; /* the first, negative, kept with its sentence */
	char error_text[256];
};

/*
 * Checks (shape, rights, overlap, channels), plans, and chooses the executor.
 * Takes references to both. -EINVAL, -EROFS, -EBADF: this copy is not allowed;
 * -ENOTSUP: no executor, or no conversion between the dtypes; -ENOMEM.
 */
int copy_op_new(struct copy_env *env, tarn_tensor *dst, const tarn_tensor *src,
	const struct tarn_copy_options *options,
	struct copy_op **ret) _must_check_;

/* Before a finished copy operation is kept for long, for its result alone:
 * other copy operations need its resources of env. */
void copy_op_release(struct copy_op *copy_op);
/* Only for a copy operation that is finished, or was never pumped. Takes NULL
 * and returns NULL. */
struct copy_op *copy_op_free(struct copy_op *copy_op);
DEFINE_CLEANUP(struct copy_op *, copy_op_free);

/* No request is in flight, and none will be. */
static inline bool copy_op_finished(const struct copy_op *copy_op)
{
	return copy_op->ended && copy_op->in_flight == 0;
}

/* Begins nothing more; the result will be -ECANCELED, unless it ended or
 * failed before. */
void copy_op_cancel(struct copy_op *copy_op);
/* The copy operation ends with this error (negative) and takes the thread's
 * sentence, unless it has one already. */
void copy_op_failed(struct copy_op *copy_op, int error);
/*
 * For a copy operation that can neither go on nor has a request under way that
 * would change that, which is a bug of the library. An assertion would kill
 * the caller's process, and without one the caller would wait for ever; but
 * nothing writes to its memory any more, so only this copy fails: -EIO.
 */
void copy_op_stuck(struct copy_op *copy_op);
/* Of a finished copy operation: 0, or the error with its sentence. -ESTALE: it
 * read from a file that is not the version any more whose header was
 * parsed. */
int copy_op_result(struct copy_op *copy_op);

/* ---- copies within a copy -------------------------------------------- */

/* A side of one: elements of a storage from its byte base on. */
struct copy_side {
	tarn_storage *storage;
	uint64_t base;
	const struct tarn_layout *layout;
};

/* A copy operation that does a part of another one, which pumps it. Errors are
 * those of copy_op_new. */
int copy_op_new_inner(struct copy_op *outer, const struct copy_side *dst,
	const struct copy_side *src, const struct tarn_copy_options *options,
	struct copy_op **ret) _must_check_;
/* Of a finished one: adds its counts to those of its outer one, frees it, and
 * sets *inner to NULL. Returns its result. */
int copy_op_end_inner(struct copy_op **inner);

/* ---- for executors --------------------------------------------------- */

/* Copies head, the result of copy_check, to the copy operation, with references
 * to both tensors. copy_op_drop releases those. */
void copy_op_begin(struct copy_op *copy_op, struct copy_env *env,
	const struct copy_op *head, const struct copy_op_ops *ops);
void copy_op_drop(struct copy_op *copy_op);

/* A request was queued; or one is done. Executors count with these alone, since
 * it is in flight for the outer copy operation too. */
static inline void copy_op_submitted(struct copy_op *copy_op)
{
	for (; copy_op; copy_op = copy_op->outer)
		copy_op->in_flight++;
}

static inline void copy_op_completed(struct copy_op *copy_op)
{
	for (; copy_op; copy_op = copy_op->outer)
		copy_op->in_flight--;
}

/* Each allocates its structure, and copies head into it. */
int copy_memory_new(
	struct copy_env *env, const struct copy_op *head, struct copy_op **ret);
int copy_read_new(
	struct copy_env *env, const struct copy_op *head, struct copy_op **ret);
int copy_relay_new(
	struct copy_env *env, const struct copy_op *head, struct copy_op **ret);
int copy_write_new(
	struct copy_env *env, const struct copy_op *head, struct copy_op **ret);

/* Has room for windows become free since a copy was told to wait? Resets the
 * flag. */
bool copy_relay_came_free(struct copy_env *env);

/* ---- for those who drive them ---------------------------------------- */

enum medium medium_of(const tarn_storage *storage);

/* copy_op_new in two steps. First its checks and its plan (copy_check.c): head
 * holds no references and is good for as long as the arguments are. */
int copy_check(struct copy_op *head, tarn_tensor *dst, const tarn_tensor *src,
	const struct tarn_copy_options *options) _must_check_;
/* Checks the options for a dst of that layout: -EINVAL. channel_dim is
 * normalised as in struct copy_op. */
int copy_check_options(const struct tarn_layout *to,
	struct tarn_copy_options *options) _must_check_;
/* -EINVAL unless it is an engine that users may name, or NULL. */
int copy_check_engine(const char *verb, const char *engine) _must_check_;
/* -EINVAL if two of dst's indices lead to one element. */
int copy_check_itself(const char *verb, const tarn_tensor *dst) _must_check_;
/* Do both have elements in the same bytes, of memory or of a file, if src is
 * walked as from? Yes where that is hard to tell. */
bool copy_shares_bytes(const tarn_tensor *dst, const tarn_tensor *src,
	const struct tarn_layout *from);
int copy_op_new_checked(struct copy_env *env, const struct copy_op *head,
	struct copy_op **ret) _must_check_;
