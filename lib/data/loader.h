// SPDX-License-Identifier: MIT
/*
 * What a loader is made of (loader.c), and what both its opening (loader_open.c)
 * and its batches need. With the loader's caller, but for the counters, and whether
 * there is one that reads alone: any thread may ask for these.
 */
#pragma once

#include <tarn/loader.h>

#include <sys/types.h>

#include "lib/data/alone.h"
#include "lib/data/feed.h"

/* Positions end where those of orders do. */
#define LOADER_END (UINT64_C(1) << 63)

/* So long a rank waits for its feed at most before it reads what it wants itself.
 * What comes after the next item is known, but where a process that knows of no item
 * becomes the reader, or one errs, ranks that wait for each other could wait for what
 * does not come. Picked: longer than a drive takes. Each further time is half as long,
 * until something comes: behind a process that has stopped a job goes on, slowly. A
 * variable for tests. */
extern int64_t loader_stalled_ms;

struct tarn_loader {
	tarn_data *data;
	struct batch_form form;
	pid_t pid;
	uint64_t batch, end;
	uint32_t rank, world;
	uint64_t first, n; /* of each full batch, the rank's */
	uint64_t node_first;
	uint32_t slots;
	bool keeps; /* as the options have it */
	atomic_bool busy;
	atomic_uint_least64_t position;
	atomic_uint_least64_t n_shared, n_alone, n_dropped;
	struct ahead_counts counts;
	struct feed *feed;     /* NULL: it has no name */
	struct feed_item item; /* of the feed, of a later position */
	struct alone *_Atomic alone;
	struct pool_buffer *buffer; /* of alone, of a later position */
	uint64_t outside;           /* batches since it is not in the feed */
	int64_t waits_since;        /* for its feed, in ms; 0: it does not */
	int64_t patience;           /* in ms, loader_stalled_ms at most */
};

static inline uint64_t loader_position(const struct tarn_loader *l)
{
	/* Relaxed: the caller's thread writes it. */
	return atomic_load_explicit(&l->position, memory_order_relaxed);
}

/* Begins to read ahead for this rank alone. */
int loader_begin_alone(struct tarn_loader *l);
void loader_end_alone(struct tarn_loader *l);

/* The item, or the buffer, of a later position, if there is one. */
void loader_drop_item(struct tarn_loader *l);
void loader_drop_buffer(struct tarn_loader *l);
