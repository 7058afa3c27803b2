/* SPDX-License-Identifier: MIT */
/* A copy from a file to memory, between copy_read.c, which decides what is read
 * next, and read_piece.c, which reads it. */
#pragma once

#include "lib/copy/mover.h"
#include "lib/copy/read_plan.h"
#include "lib/io/road.h"

struct copy_read;

/* A buffer, and what is to come to it: the ranges of a box, or a piece of a
 * run whose place is not fit for direct reads. */
struct read_batch {
	struct bounce_buffer buffer;
	struct read_part part;
	uint64_t range; /* the next to be begun, and */
	uint64_t done;  /* so many bytes of it are */
	bool more;      /* there is something to be begun */
	unsigned in_flight;
	struct read_batch *next; /* of those that wait to be used again */
};

/* A request, and what is left of it when it came short. It stays in its slot
 * until all is there. */
struct read_piece {
	struct tarn_io_request req; /* first: what done() is given */
	struct copy_read *copy;
	struct read_batch *batch; /* NULL: straight to dst */
	uintptr_t place;	  /* where the file's byte 0 would be */
	uint64_t pos;		  /* read up to here, a file offset as these: */
	uint64_t need;		  /* complete when pos is here */
	uint64_t end;		  /* a direct read goes on to here, >= need */
	unsigned retries;
	enum road_way way;
};

struct copy_read {
	struct mover head;
	const struct storage_file *file;
	struct road road;
	struct tarn_direct align; /* of the road at first: it may be refused */
	uint32_t block;		  /* what ranges in a window are rounded to */
	struct file_slot slot;
	bool begun;
	struct read_plan plan;
	bool has_part; /* one that is not begun, or not to its end */
	struct read_part part;
	uint64_t pos;		     /* in a straight part: begun up to here */
	struct read_batch *batch;    /* with ranges that are not begun */
	struct read_batch *batches;  /* unused */
	struct move move;	     /* for boxes */
	uint64_t error_at;	     /* the file offset of head.error */
	uint32_t free_pieces;	     /* a bit each */
	struct read_piece pieces[];
};

/* Queues what is left of a piece that was filled in but for req; there is
 * always room for it. */
void read_piece_queue(struct read_piece *piece);

/* The next piece of the batch that has more, into piece. */
void read_batch_next(struct copy_read *c, struct read_piece *piece);

/* There is nothing that a pump would find to begin. */
bool copy_read_all_begun(const struct copy_read *c);

/* The failure that was told, of a read at a file offset. */
void copy_read_failed(struct copy_read *c, uint64_t at, int error);
