/* SPDX-License-Identifier: MIT */
/*
 * Reading ahead: a thread that reads the parts of one batch after another into
 * memory that it is lent, in order, several at once.
 *
 * What it gets is a place: slots of a channel, or buffers of this process's. It
 * knows neither, and its errors are only marks: a part that could not be read is
 * given back as failed, and the rank that needs it reads it by tarn_data_get,
 * which says what is wrong, with file and byte.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "lib/data/dataset.h"
#include "lib/io/io.h"

/* What samples look like in memory. */
struct batch_form {
	unsigned parts;   /* TARN_LOADER_*, ored */
	uint32_t seq_len; /* 0: rows */
	uint64_t sample_bytes;
	/* Of the tokens of n samples; the first extent is set for n. */
	struct tarn_layout tokens;
};

/* Where boundaries begin, sample by sample, counted from the sample's first
 * token. at has n + 1 elements: sample i has those from at[i] on. */
struct boundaries {
	int32_t *at, *starts;
	size_t n_starts, room;
};

/* Memory for samples, in C order. Parts that are not asked for are NULL. */
struct batch_memory {
	void *owner; /* the place's */
	unsigned char *tokens;
	int32_t *positions, *segments;
	uint64_t *documents;
};

/* A part of a batch that is read, or was. */
struct ahead_part {
	struct ahead_part *next;
	uint64_t position; /* of the global batch */
	struct batch_memory memory;
	struct boundaries boundaries;
	bool failed;
	/* Private to the reader. */
	struct read_extent *extents;
	size_t n, room;
	size_t begun;
	unsigned in_flight;
};

struct ahead_place {
	/* 1: *ret is memory for n samples; 0: there was none within timeout_ms;
	 * -errno: there will be none any more. */
	int (*take)(void *arg, int timeout_ms, struct batch_memory *ret);
	/* May parts be given yet? */
	bool (*ready)(void *arg);
	/* Ends the memory of a part, in order of positions. < 0: it is the last
	 * one that was wanted. */
	int (*give)(void *arg, struct ahead_part *part);
	void (*drop)(void *arg, struct batch_memory *memory);
	void *arg;
};

/* Counts, for any thread to look at. */
struct ahead_counts {
	atomic_uint_least64_t parts, requests, file_bytes, memory_bytes;
	const char *_Atomic engine;
};

struct ahead_job {
	tarn_data *data;
	const struct batch_form *form;
	const struct ahead_place *place;
	struct ahead_counts *counts;
	atomic_bool *stop; /* makes it end, within some 50 ms */
	uint64_t position; /* of the first global batch */
	uint64_t batch;    /* samples of it */
	uint64_t first, n; /* of each, the samples to read */
	uint64_t end;      /* batches that reach further are not begun */
	unsigned most;     /* parts at once */
};

/* Reads in this thread until stop is set, the place ends, or end is reached. */
void ahead_run(const struct ahead_job *job);

/* Samples position .. position + n - 1 of a dataset. */
struct batch_plan {
	tarn_data *data;
	const struct batch_form *form;
	uint64_t position, n;
	const struct batch_memory *memory;
	struct boundaries *boundaries;
	const struct data_read *read; /* at once, or later */
	void (*between)(void *arg);   /* called now and then; NULL */
	void *arg;
};

/* Fills in what is known, and reads, or has read later, what is not. Errors of
 * tarn_data_get. */
int batch_plan(const struct batch_plan *plan);

void boundaries_end(struct boundaries *boundaries);

/* ---- requests (read_ahead.c) --------------------------------------------- */

/* Bytes of a file that are tokens, or a part of a row. */
struct read_extent {
	unsigned char *to;
	uint64_t at; /* in the file */
	uint32_t file, size;
};

struct reader;

/* Starts what reads files. *ret is never NULL on success; without an engine,
 * all is read at once. -ENOMEM. */
int reader_new(
	tarn_data *data, struct ahead_counts *counts, struct reader **ret);
/* Waits for requests under way. Takes NULL and returns NULL. */
struct reader *reader_free(struct reader *reader);

/* What reads samples through the reader: bytes in memory until reader_planned,
 * those of files as extents of part. */
const struct data_read *reader_into(
	struct reader *reader, struct ahead_part *part);
/* All extents of part are there: sorts them. */
void reader_planned(struct reader *reader, struct ahead_part *part);
/* Begins requests of a part: false if the engine takes no more now. */
bool reader_begin(struct reader *reader, struct ahead_part *part);
/* Calls back what is done, after waiting for some, unless timeout_ms is 0. */
void reader_wait(struct reader *reader, int timeout_ms);
/* Copies some of what has come to where it belongs: true, there is more. Begin
 * other requests before, and between. */
bool reader_settle(struct reader *reader);
bool reader_busy(const struct reader *reader);
/* Are all bytes of a part there, and of the files' versions that were opened?
 * Otherwise it is marked as failed. */
bool reader_finished(struct reader *reader, struct ahead_part *part);
