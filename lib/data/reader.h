/* SPDX-License-Identifier: MIT */
/*
 * How the bytes of parts are got: shared by reader.c, which plans them, and
 * reader_request.c, which reads those of files.
 */
#pragma once

#include <assert.h>

#include "lib/data/ahead.h"
#include "lib/io/io_mode.h"
#include "lib/tensor/tensor.h"

enum {
	/* Bytes of a request, and of an extent half as many. Picked: larger ones
	 * gain little, and this much for each request is the reader's memory. */
	READER_REQUEST = 64 << 10,
	READER_EXTENT = READER_REQUEST / 2,
	/* A direct read is rounded to blocks of at most so many bytes. */
	READER_BLOCK = 4096,
	READER_BUFFER = READER_REQUEST + 2 * READER_BLOCK,
	/* Bytes between two extents that are rather read than skipped. Picked: a
	 * drive reads them in less time than it takes for one more request. */
	READER_GAP = 16 << 10,
	/* Buffers: of requests under way, and of as many that are done and not
	 * copied yet, so that the next ones need not wait for that. */
	READER_REQUESTS = 2 * TARN_IO_DEPTH,
	/* So many requests are begun at once, and settled before the next are
	 * begun. Picked: a call for each costs more than it gains. */
	READER_STARTED = TARN_IO_DEPTH / 8,
	/* Copies that wait for their bytes, and lines of each that are fetched;
	 * its own prefetcher knows the rest. Picked. */
	READER_COPIES = 4,
	READER_LINES = 8,
	READER_LINE = 64,
	/* EAGAIN and EINTR in a row before a read counts as failed. */
	READER_RETRIES = 64,
};

/* A file, or what else has bytes, of the sources. */
struct read_file {
	tarn_storage *storage;           /* the dataset's */
	const struct storage_file *file; /* NULL: it is none */
	bool begun;                      /* io_mode is set */
	struct io_mode io_mode;
	int buffered, direct; /* slots of the engine; -1 */
	unsigned in_flight;
	enum tarn_dtype dtype; /* of tokens */
	unsigned width;        /* 0: bytes are copied as they are */
};

struct read_request {
	struct tarn_io_request req; /* first: done() gets a pointer to it */
	struct reader *reader;
	struct ahead_part *part;
	struct read_request *next; /* that has landed */
	size_t first, n;           /* extents */
	struct read_file *file;
	uint64_t base; /* the byte of the file at buffer */
	uint64_t pos;  /* read up to here; need: complete when it gets there */
	uint64_t need;
	unsigned retries;
	enum io_kind kind;
	uint32_t block; /* of a direct read */
	unsigned char *buffer;
};

/* Bytes in memory that are copied a little later: the CPU fetches their beginning
 * meanwhile. */
struct read_copy {
	const struct read_file *file;
	const char *from;
	size_t size;
	unsigned char *to;
};

struct reader {
	tarn_data *data;
	struct ahead_counts *counts;
	struct tarn_io *io; /* NULL: all is read at once */
	unsigned char *buffers;
	bool registered;
	bool broken;     /* the engine failed: nothing comes any more */
	uint64_t unused; /* requests, a bit for each */
	struct read_request requests[READER_REQUESTS];
	struct read_request *landed; /* done, and not copied yet */
	struct data_read read;
	struct ahead_part *part;                /* that is being planned */
	struct read_copy copies[READER_COPIES]; /* a ring, of that part */
	unsigned n_copies, next_copy;
	uint32_t *first_file; /* of each stream */
	size_t n_files;
	struct read_file files[];
};

static_assert(READER_REQUESTS <= 64, "a bit for each request");

static inline void reader_count(atomic_uint_least64_t *counter, uint64_t n)
{
	/* Relaxed: others look at one number. */
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* Tokens or bytes of a file as they are delivered; false: a token does not
 * fit. */
bool reader_deliver(const struct reader *reader, const struct read_file *file,
	const void *from, size_t size, unsigned char *to);
