/* SPDX-License-Identifier: MIT */
/* A fill: shared by lib/io/fill_new.c, which makes one, and lib/io/fill.c,
 * which runs it. */
#pragma once

#include <assert.h>

#include "lib/io/fill.h"
#include "lib/io/io_mode.h"

/*
 * A part of the range, at most TARN_IO_STRAIGHT long and inside one segment. It
 * stays in its slot, request after request, until all of it is there.
 */
struct fill_chunk {
	struct tarn_io_request req; /* first: done() gets a pointer to it */
	struct tarn_fill *fill;
	uint64_t pos;  /* read up to here, a file offset as the next two */
	uint64_t need; /* complete when pos reaches this */
	uint64_t end;  /* a direct read extends to here, >= need */
	unsigned retries;
	bool direct;
};

struct tarn_fill {
	struct tarn_io *io;
	int direct_file, buffered_file; /* slots of the engine, or -1 */
	bool direct, registered, cancelled;
	bool prompt;        /* as in the job */
	bool went_buffered; /* some bytes were read buffered, though direct
			     * reads were possible */
	struct io_mode io_mode;
	uint32_t align;      /* of direct reads */
	uint64_t begin, end; /* the wanted range of the file */
	uint64_t next;       /* chunks are cut up to here */
	uint64_t landed;
	uint64_t to_pool; /* file offset + this = pool offset, modulo 2^64 */
	unsigned in_flight;
	uint32_t free_chunks; /* one bit for each */
	int error;            /* at the lowest offset that failed */
	uint64_t error_at;
	char error_text[256];
	struct fill_chunk chunks[TARN_IO_DEPTH];
	size_t n_segments;
	struct tarn_fill_segment segments[];
};

static_assert(TARN_IO_DEPTH == 32, "free_chunks has 32 bits");
