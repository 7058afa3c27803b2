/* SPDX-License-Identifier: MIT */
/*
 * Memory to file, between its files: copy_write.c runs it, write_cut.c says
 * which bytes come next and where they are, write_road.c how they travel.
 *
 * The elements of dst, in the order of their bytes in the file, are runs: what
 * lies there without a gap. Runs are cut into pieces, one request each. A
 * piece is written from where it is in memory, when it lies there just so; or
 * from a window, a bounce buffer into which a range of elements was packed.
 */
#pragma once

#include <assert.h>

#include "lib/copy/mover.h"
#include "lib/copy/pack.h"

enum {
	/* Bytes of a request from a window, at most. */
	WRITE_REQUEST = TARN_IO_REQUEST,
	/* Of one straight from memory. A disk that is told more at once has
	 * less to do for each, and so has the file system, which marks as
	 * written what it had reserved. */
	STRAIGHT_REQUEST = 2 << 20,
};

struct window {
	struct bounce_buffer buffer;
	int64_t first, end; /* elements that it holds, by their number */
	char *addr;	    /* of first */
	unsigned users;	    /* pieces not yet written */
};

struct piece {
	struct tarn_io_request req; /* first: what done() is given */
	struct copy_write *write;
	struct window *window; /* NULL: straight from the tensor's memory */
	const char *addr;      /* of pos */
	uint64_t pos, end;     /* in the file; written up to pos */
	bool direct;
	unsigned retries;
};

enum { WINDOWS = TARN_IO_DEPTH + 1 }; /* each piece's, and the current one */

struct copy_write {
	struct mover head;
	struct pack pack;
	const char *src; /* the address that src's layout counts from */
	const struct storage_file *file;
	uint64_t origin; /* the byte of the file that dst's counts from */
	int bits;	 /* of an element in the file */

	int outer;		    /* loops outside a run */
	int64_t dst[TARN_MAX_NDIM]; /* their strides in the file */
	int64_t run;	    /* elements of one */
	uint64_t run_bytes; /* the same in the file */
	int64_t line;	    /* elements that lie in memory as in the file: the
			       innermost loop's; 0: none */

	bool begun, direct;
	struct file_slot slot;
	uint32_t memory_align; /* of addresses of direct pieces */
	uint64_t grain; /* pages, and what direct I/O asks for: pieces of both
			   kinds never share one */

	/* Where cutting stands. */
	int64_t index[TARN_MAX_NDIM]; /* of the outer loops */
	int64_t run_first;	      /* element number; count: all is cut */
	int64_t run_dst;	      /* element of dst, from its origin */
	uint64_t next;		      /* byte within the run */

	struct window *current; /* still to be cut from, or NULL */
	uint64_t free_windows;	/* a bit each */
	uint32_t free_pieces;
	struct window windows[WINDOWS];
	struct piece pieces[TARN_IO_DEPTH];
};

static_assert(TARN_IO_DEPTH == 32, "free_pieces has 32 bits");

/* write_road.c: at the first pump. 1; 0: not now, there is no slot for the
 * file; -errno. */
int write_begin(struct copy_write *w);
void write_end(struct copy_write *w);

/* write_cut.c */
int write_plan(struct copy_write *w);
static inline bool write_all_cut(const struct copy_write *w)
{
	return w->run_first == w->pack.count;
}
/* The next piece: pos, end, addr, direct and window, of which it is a user. 1;
 * 0: no bounce buffer is free; -errno. */
int write_cut(struct copy_write *w, struct piece *p);
/* The current window is closed: what has no users goes back. */
void write_close_window(struct copy_write *w);
void write_leave_window(struct copy_write *w, struct window *window);
