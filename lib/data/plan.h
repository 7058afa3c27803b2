/* SPDX-License-Identifier: MIT */
/*
 * The plan of a group of documents: which samples they make. Samples that are of
 * one document alone come first, in order; then, where documents are packed, the
 * sequences that several share.
 */
#pragma once

#include <tarn/data.h>

struct data_shape {
	enum tarn_data_windows windows;
	uint32_t seq_len; /* samples have one token more */
};

/* Memory for plans of one group after another. Zeroes at the begin. */
struct data_plan {
	/* The plan. */
	size_t n;               /* documents */
	uint64_t n_whole;       /* samples of one document */
	uint64_t n_packed;      /* sequences that are shared */
	uint64_t *lengths;      /* of documents */
	uint64_t *whole_before; /* n + 1: samples of earlier documents */
	uint32_t *rests;        /* tokens of each document that are packed */
	uint32_t *first;        /* n_packed + 1: of each sequence in members */
	uint32_t *members;      /* documents, whose ends are packed */
	/* Memory that planning uses, kept for the next group. */
	size_t room;
	uint32_t *order, *other, *place; /* documents by length; sequences */
	uint32_t seq_len;                /* that these are for: */
	uint32_t *heads, *next; /* sequences by the room they have left */
	uint64_t *bits[4];      /* which rooms there are, in levels */
};

void data_plan_end(struct data_plan *plan);

/* Makes room for n documents, whose lengths the caller then sets. -ENOMEM. */
int data_plan_room(
	struct data_plan *plan, const struct data_shape *shape, size_t n);

/* Plans n documents of plan->lengths. Which of several documents of one length
 * comes in which sequence depends on key, and their number does not. */
void data_plan_make(struct data_plan *plan, const struct data_shape *shape,
	size_t n, uint64_t key);

/* A stretch of a document in a sample. */
struct data_piece {
	uint32_t document; /* of the group */
	uint32_t n;        /* tokens */
	uint64_t start;
};

/* The pieces of sample i of the group: calls fn for each. */
int data_plan_pieces(const struct data_plan *plan,
	const struct data_shape *shape, uint64_t i,
	int (*fn)(void *arg, const struct data_piece *piece), void *arg);
