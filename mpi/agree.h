/* SPDX-License-Identifier: MIT */
/*
 * What ranks agree about before they send: an error of one, or a disagreement,
 * becomes the same error on all of them.
 */
#pragma once

#include "mpi/wait.h"

#define SAID_TEXT 1024 /* as long as a sentence of tarn's may be */

/* What a rank says of itself. All ranks have one version of tarn and one byte
 * order: it travels as bytes. */
struct said {
	int32_t error; /* 0; else an errno value, and text is the sentence */
	int32_t good;  /* a figure from 0 on, of which all learn the least */
	char text[SAID_TEXT];
};

/*
 * What MPI reads and writes while ranks agree. After a deadline it may still do so:
 * then it is left behind, not freed. Without one it is on the stack.
 */
struct mpi_post {
	struct {
		int value, rank;
	} mine, least;
	char bytes[sizeof(struct said)]; /* as many as one rank may tell */
};

/* Notes an error of this rank, r < 0, with tarn_error_message(). The first one
 * stays. */
void said_failed(struct said *said, int r);

/*
 * All ranks say what they have to say. 0, and *ret_least, if it is not NULL, is
 * the least good; or, on all ranks, the error of the first rank that has one, with
 * the verb and that rank in front. deadline may be NULL.
 */
int said_by_all(const char *verb, const struct said *mine, MPI_Comm comm,
	const struct mpi_deadline *deadline, int *ret_least) _must_check_;

/* One rank, which others call what, tells all of comm size bytes, not more than a
 * post has: they get them in bytes. deadline may be NULL. */
int told_by(int rank, const char *what, void *bytes, size_t size, MPI_Comm comm,
	const struct mpi_deadline *deadline) _must_check_;

/* What a call is given that must be the same on all ranks. */
struct form {
	char verb[24];
	int32_t root;
	uint8_t dtype, ndim;
	uint8_t first; /* the dimension from which on shapes are compared */
	uint8_t zero;
	int64_t shape[TARN_NDIM_MAX];
};

/* first: see there. */
struct form form_of(
	const char *verb, int root, const tarn_tensor *tensor, int first);

/* Compares with rank 0: a difference is noted as an error of this rank. */
int form_compare(
	const struct form *mine, MPI_Comm comm, struct said *said) _must_check_;
