/* SPDX-License-Identifier: MIT */
/*
 * Memory to file: shared by copy_write.c, which runs it, write_cut.c, which
 * decides which bytes come next and where they are, and write_mode.c, which
 * decides how they are written.
 *
 * The elements of dst, in the order of their bytes in the file, form runs:
 * ranges without a gap. Runs are cut into chunks, one request each. A chunk is
 * written directly from the tensor's memory, when it lies there in the same
 * form; otherwise from a window, a bounce buffer into which a range of elements
 * was packed.
 */
#pragma once

#include <assert.h>

#include "lib/copy/copy_op.h"
#include "lib/copy/pack.h"

enum {
	/* Bytes of a request from a window, at most. */
	WRITE_REQUEST = TARN_IO_REQUEST,
	/* The largest request straight from memory. With larger requests a disk
	 * has less work for each, and so has the file system, which marks its
	 * reserved blocks as written. */
	STRAIGHT_REQUEST = 2 << 20,
};

struct window {
	struct bounce_buffer buffer;
	int64_t first, end; /* elements that it holds, by their number */
	char *addr;         /* of first */
	unsigned users;     /* chunks not yet written */
};

struct write_chunk {
	struct tarn_io_request req; /* first: done() gets a pointer to it */
	struct copy_write *write;
	struct window *window; /* NULL: straight from the tensor's memory */
	const char *addr;      /* of pos */
	uint64_t pos, end;     /* in the file; written up to pos */
	bool direct;
	unsigned retries;
};

/* One for each chunk, and the current one. */
enum { WINDOWS = TARN_IO_DEPTH + 1 };

struct copy_write {
	struct copy_op head;
	struct pack pack;
	const char *src; /* the address that src's layout counts from */
	const struct storage_file *file;
	uint64_t origin; /* the byte of the file that dst's counts from */
	int bits;        /* of an element in the file */

	int outer;                  /* number of loops outside a run */
	int64_t dst[TARN_NDIM_MAX]; /* their strides in the file */
	int64_t run;                /* elements of a run */
	uint64_t run_bytes;         /* the same in the file */
	int64_t line; /* elements that lie in memory as in the file: the
			       innermost loop's; 0: none */

	bool begun, direct;
	struct file_slot slot;
	uint32_t memory_align; /* of addresses of direct chunks */
	uint64_t granule; /* the unit of pages and of direct I/O: chunks of both
			 * kinds never share one */

	/* The position of the cutting. */
	int64_t index[TARN_NDIM_MAX]; /* of the outer loops */
	int64_t run_first;            /* element number; count: all is cut */
	int64_t run_dst;              /* element of dst, from its origin */
	uint64_t next;                /* byte within the run */

	struct window *current; /* from which chunks can still be cut, or
				 * NULL */
	uint64_t free_windows;  /* one bit for each */
	uint32_t free_chunks;
	struct window windows[WINDOWS];
	struct write_chunk chunks[TARN_IO_DEPTH];
};

static_assert(TARN_IO_DEPTH == 32, "free_chunks has 32 bits");

/* write_mode.c: at the first pump. 1; 0: not now, there is no slot for the
 * file; -errno. */
int write_begin(struct copy_write *w);
void write_end(struct copy_write *w);

/* write_cut.c */
int write_plan(struct copy_write *w);
static inline bool write_all_cut(const struct copy_write *w)
{
	return w->run_first == w->pack.count;
}
/* The next chunk: sets pos, end, addr, direct and window, of which it is a
 * user. 1; 0: no bounce buffer is free; -errno. */
int write_cut(struct copy_write *w, struct write_chunk *p);
/* Closes the current window: one without users is returned. */
void write_close_window(struct copy_write *w);
void write_leave_window(struct copy_write *w, struct window *window);
