/* SPDX-License-Identifier: MIT */
/* A copy from a file to memory, shared by copy_read.c, which decides what is
 * read next, and read_chunk.c, which reads it. */
#pragma once

#include "lib/copy/copy_op.h"
#include "lib/copy/read_plan.h"
#include "lib/io/io_mode.h"

struct copy_read;

/* A buffer and its content: the ranges of a box, or a chunk of a run whose
 * destination does not permit direct reads. */
struct read_batch {
	struct bounce_buffer buffer;
	struct read_part part;
	uint64_t range; /* the next range to begin, and */
	uint64_t done;  /* how many bytes of it were begun */
	bool more;      /* some of it was not begun */
	unsigned in_flight;
	struct read_batch *next; /* in the list of unused ones */
};

/* A request, and its rest if it came short. It stays in its slot until all
 * bytes are there. */
struct read_chunk {
	struct tarn_io_request req; /* first: done() gets a pointer to it */
	struct copy_read *copy;
	struct read_batch *batch; /* NULL: straight to dst */
	uintptr_t place;          /* the address where the file's byte 0 would
				   * be */
	uint64_t pos;             /* read up to here, a file offset as these: */
	uint64_t need;            /* complete when pos reaches this */
	uint64_t end;             /* a direct read extends to here, >= need */
	unsigned retries;
	enum io_kind kind;
};

struct copy_read {
	struct copy_op head;
	const struct storage_file *file;
	struct io_mode io_mode;
	struct tarn_direct align; /* of the I/O mode at the beginning: it may be
				   * refused */
	uint32_t block;           /* the granularity to which ranges in a window
				   * are rounded */
	struct file_slot slot;
	bool begun;
	struct read_plan plan;
	bool has_part; /* one that is not begun, or not completely */
	struct read_part part;
	uint64_t pos;               /* in a straight part: begun up to here */
	struct read_batch *batch;   /* with ranges that are not begun */
	struct read_batch *batches; /* unused */
	struct move move;           /* for boxes */
	uint64_t error_at;          /* the file offset of head.error */
	uint32_t free_chunks;       /* one bit for each */
	struct read_chunk chunks[];
};

/* Queues the rest of a chunk that was filled in except for req; there is always
 * room for it. */
void read_chunk_queue(struct read_chunk *chunk);

/* Puts the next range of the unfinished batch into chunk. */
void read_batch_next(struct copy_read *c, struct read_chunk *chunk);

/* Would a pump find nothing to begin? */
bool copy_read_all_begun(const struct copy_read *c);

/* Records a failure of a read at a file offset, whose sentence is set. */
void copy_read_failed(struct copy_read *c, uint64_t at, int error);
