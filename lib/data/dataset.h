/* SPDX-License-Identifier: MIT */
/* A dataset: sources, how their samples are cut, in which order they come. */
#pragma once

#include "lib/data/fork_lock.h"
#include "lib/data/plan.h"
#include "lib/data/source.h"

/* The samples that groups of documents make, summed up: 8 bytes a group. */
struct data_table {
	uint32_t
		group; /* documents of each but the last; 0: there is no table */
	uint64_t n_groups;
	const uint64_t *before; /* n_groups + 1: samples of earlier ones */
	tarn_tensor *tensor;    /* whose memory this is */
};

struct data_stream {
	tarn_data_source *source;
	uint64_t n;       /* samples of an epoch */
	uint64_t first;   /* where sources are not mixed: in the epoch of all */
	uint64_t mark[2]; /* of the source's bytes and sizes */
	struct data_table table;
};

/* Plans that were used last. Picked: packed sequences in blocks need one or two
 * for each thread. */
#define DATA_PLANS 16

struct data_plan_entry {
	struct data_plan plan;
	uint32_t stream;
	uint64_t group, epoch;
	uint64_t used; /* 0: it has none */
};

struct tarn_data {
	struct tarn_data_options options;
	struct data_shape shape;
	size_t n_streams;
	struct data_stream *streams;
	tarn_data_mixture *mixture; /* NULL: one after another, shuffled */
	uint64_t n;                 /* samples of an epoch of all */
	unsigned out_width;         /* bytes of a token that is delivered */
	uint64_t row_bytes;         /* where samples are rows */
	char *text; /* the configuration, a line for each thing */
	uint64_t hash[2];
	struct fork_lock lock; /* of the plans */
	struct data_plan_entry plans[DATA_PLANS];
	uint64_t uses;
};

/* How many documents make a group. */
uint32_t data_table_group(const struct tarn_data_options *options,
	const tarn_data_source *source);

/* Computes a table by several threads, or takes the one that is given, if it is
 * that of the same source and shape: -EMEDIUMTYPE. options: threads and
 * progress. */
int data_table_make(struct data_table *table, const struct data_stream *stream,
	const struct data_shape *shape, uint32_t group, tarn_tensor *given,
	const struct tarn_data_options *options);
/* The same with the one that is kept beside the source's first file, or will be
 * from then on. */
int data_table_make_beside(struct data_table *table,
	const struct data_stream *stream, const struct data_shape *shape,
	uint32_t group, const struct tarn_data_options *options);
void data_table_end(struct data_table *table);
/* The group that has a sample. */
uint64_t data_table_find(const struct data_table *table, uint64_t sample);

/* A mark of a source's sizes and some of its bytes. */
int data_source_mark(const tarn_data_source *source, uint64_t ret[2]);
void data_hash(const void *bytes, size_t size, uint64_t hash[2]);

/* Makes text and hash of an otherwise complete dataset. */
int data_text_make(struct tarn_data *data,
	const struct tarn_data_weights *periods, size_t n_periods);

/* ---- get.c ---------------------------------------------------------------- */

/* An order that was made for an epoch, which takes longer than to ask it. */
struct data_last_order {
	bool made;
	uint64_t epoch;
	struct tarn_data_order order;
};

/* How the bytes of samples are got, at once or later: n tokens of a stream's
 * source as they are delivered, and a row. */
struct data_read {
	int (*tokens)(void *arg, const tarn_data *data, uint32_t stream,
		uint64_t token, size_t n, unsigned char *to);
	int (*row)(void *arg, const tarn_data *data, uint32_t stream,
		uint64_t number, unsigned char *to);
	void *arg;
	/* One for each stream, of the caller's alone; NULL: they are not
	 * kept. */
	struct data_last_order *orders;
};

/* Reads them at once. */
extern const struct data_read data_read_now;

/* tarn_data_get, of a request that was checked. */
int data_get(tarn_data *data, uint64_t g,
	const struct tarn_data_request *request, const struct data_read *read,
	struct tarn_data_sample *ret);
