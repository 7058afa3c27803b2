/* SPDX-License-Identifier: MIT */
/*
 * A reader reads the part of a file that is this node's, chunk after chunk, before
 * the ring sends them, in no thread of its own: it works when it is called.
 */
#pragma once

#include <stdbool.h>

#include "mpi/agree.h"
#include "mpi/source.h"

/* What is read and sent at a time: a node sends one chunk while it reads the next.
 * Picked. */
#define CHUNK (UINT64_C(2) << 20)

struct reader {
	const struct source *source;
	tarn_tensor *memory;
	tarn_stream *stream; /* NULL: it has failed before it began */
	uint64_t begin, end; /* of the part, in memory */
	int *left;           /* copies under way, of each chunk */
	int n, begun, under_way;
	uint64_t bytes;
	struct said
		*said; /* gets the first error; after it chunks are "there" */
	bool failed;
};

/* Errors are noted in said. */
void reader_begin(struct reader *reader, const struct source *source,
	tarn_tensor *memory, uint64_t begin, uint64_t end, struct said *said);

/* Begins reads, and notices those that have ended; waits for one to end, for
 * wait_ms at most. */
void reader_work(struct reader *reader, int wait_ms);

/* Is the chunk there, or failed? */
bool reader_has(const struct reader *reader, int chunk);

/* stuck: reads may be blocked for ever, and are left behind. */
void reader_end(struct reader *reader, bool stuck);
