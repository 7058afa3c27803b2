/* SPDX-License-Identifier: MIT */
/*
 * Data: the samples that a training job is fed with, in an order that needs no
 * memory.
 *
 * The order of an epoch is a pure function. A sample is found by its position
 * alone, without a list of all of them, so the whole state of a job is one
 * number, and any number of ranks and workers agrees on what comes at each
 * position:
 *
 *	struct tarn_data_order order;
 *
 *	r = tarn_data_order_init(
 *		&order, TARN_SHUFFLE_ALL, 1000000000000, 0, 42, 0);
 *	if (r >= 0)
 *		printf("%llu comes first\n",
 *			(unsigned long long)tarn_data_order_at(&order, 0));
 */
#pragma once

#include <tarn/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- order --------------------------------------------------------------- */

enum tarn_data_shuffle {
	TARN_SHUFFLE_ALL = 0, /* any sample may come at any position */
	/* The order of blocks of consecutive samples is shuffled, and then that
	 * of the samples within each: for disks that want locality. */
	TARN_SHUFFLE_BLOCKS = 1,
	TARN_SHUFFLE_NONE = 2,
};

/* No sample, and no position. */
#define TARN_DATA_NONE UINT64_MAX

/* A keyed permutation of 0 .. n - 1; tarn_data_order_init fills it. */
struct tarn_data_permutation {
	uint64_t n, rows, columns, key, turn_in, turn_out;
	uint32_t rounds, pad;
};

/* The order of one epoch: a value, which may be copied, and read by any number
 * of threads. */
struct tarn_data_order {
	uint64_t n;
	uint64_t block; /* samples; the last one may have fewer */
	enum tarn_data_shuffle shuffle;
	uint64_t last_at; /* how many blocks come before the last one */
	struct tarn_data_permutation all, inner, last;
	uint64_t reserved[8]; /* 0 */
};

/*
 * Makes the order of n samples (0 to 2^63) in an epoch. Orders of other epochs
 * and other seeds are unrelated. block matters for TARN_SHUFFLE_BLOCKS alone, and
 * is at least 1 there. The same arguments give the same order on any machine and
 * in any later version. Takes some hundred nanoseconds.
 *
 * -EINVAL: an unknown shuffle, or block is 0; -EOVERFLOW: n is more than 2^63.
 */
TARN_PUBLIC int tarn_data_order_init(struct tarn_data_order *order,
	enum tarn_data_shuffle shuffle, uint64_t n, uint64_t block,
	uint64_t seed, uint64_t epoch) TARN_NONNULL(1) TARN_MUST_CHECK;

/* The sample at a position; TARN_DATA_NONE if there are not so many. Takes the
 * same time and memory for any n: below 150 ns. */
TARN_PUBLIC uint64_t tarn_data_order_at(const struct tarn_data_order *order,
	uint64_t position) TARN_NONNULL(1) TARN_PURE;

/* The position of a sample; TARN_DATA_NONE if there are not so many. */
TARN_PUBLIC uint64_t tarn_data_order_find(const struct tarn_data_order *order,
	uint64_t sample) TARN_NONNULL(1) TARN_PURE;

/* The sample at position g of an order that shuffles all: for callers that need
 * one. TARN_DATA_NONE: g is not below n, or n is more than 2^63. */
TARN_PUBLIC uint64_t tarn_data_order(uint64_t seed, uint64_t epoch, uint64_t n,
	uint64_t g) TARN_CONST;

/* ---- mixing -------------------------------------------------------------- */

/* Picked: beyond what mixtures of corpora have. */
#define TARN_DATA_SOURCES_MAX 4096
/* Picked: a schedule of weights is a dozen of lines. */
#define TARN_DATA_PERIODS_MAX 1024

/* Weights of sources from a position on, until those of the next period. */
struct tarn_data_weights {
	uint64_t from;
	/* One for each source: finite, not negative, and one of them above 0.
	 * Only their ratios matter. A source of weight 0 is not used. */
	const double *weights;
	uint64_t reserved[2]; /* 0 */
};

/* Which source comes at a position. Read-only: any thread. */
typedef struct tarn_data_mixture tarn_data_mixture;

/*
 * Makes a mixture of n sources. The first of n_periods has from 0, and each
 * later one more than the one before it. Weights are copied.
 *
 * At every position g of the first period the number of positions before g that
 * a source has differs from its share of g by less than 2, and so for any stretch
 * of a period that begins with it. Shares are exact to 2^-50 of the largest one.
 * The same weights give the same mixture on any machine and in any later version.
 *
 * -EINVAL: a weight or a position is not valid, and the sentence has it; -E2BIG:
 * a limit above; -ENOMEM. The caller gives *ret to tarn_data_mixture_free.
 */
TARN_PUBLIC int tarn_data_mixture_new(size_t n,
	const struct tarn_data_weights *periods, size_t n_periods,
	tarn_data_mixture **ret) TARN_NONNULL(2, 4) TARN_MUST_CHECK;

/* Takes NULL and returns NULL. */
TARN_PUBLIC tarn_data_mixture *tarn_data_mixture_free(
	tarn_data_mixture *mixture);

/* The source at position g, and how many positions before g it has. Takes a few
 * nanoseconds for each time that the weights can be halved down to the
 * source's. */
TARN_PUBLIC void tarn_data_mixture_at(const tarn_data_mixture *mixture,
	uint64_t g, uint32_t *ret_source, uint64_t *ret_ordinal)
	TARN_NONNULL(1, 3, 4);

/* How many positions before g each source has; ret_counts has room for n. */
TARN_PUBLIC void tarn_data_mixture_counts(const tarn_data_mixture *mixture,
	uint64_t g, uint64_t *ret_counts) TARN_NONNULL(1, 3);

/* ---- sources ------------------------------------------------------------- */

/*
 * Tokens, in files or tensors that are read where they are, and the documents
 * that they are of. All parts of a source are one sequence of tokens, and one of
 * documents, in the order in which they were given.
 *
 * A source opens in the same time whatever its size: what an index says of a
 * document is read, and checked, when it is asked for. Files are read with
 * pread: one that was written or has shrunk since it was opened is an error,
 * -ESTALE or -ENODATA, and never other tokens. All functions may be called by any
 * number of threads at once.
 */
typedef struct tarn_data_source tarn_data_source;

struct tarn_data_source_options {
	/* Of files with tokens alone: their dtype, or how many bytes one has, 1 to
	 * 4, without a sign. Other formats say it themselves. */
	enum tarn_dtype dtype;
	unsigned token_bytes;
	uint64_t reserved[4]; /* 0 */
};

/*
 * Opens n files as one source. Each path is
 *
 *   x.bin, x.idx or x   Megatron's two files. A document is what Megatron calls a
 *                       sequence, which its GPT datasets take for one, too.
 *   x.ds                datatrove's, with x.ds.index. Their token size follows
 *                       from both.
 *   x.npy, FILE:TENSOR  an array of integers of one dimension, one document
 *   another file        tokens alone, one document
 *
 * and all have tokens of one dtype. -EINVAL: they have not, or a file is raw and
 * options do not say what its tokens are; -EBADMSG: an index is wrong, and the
 * sentence names file and byte; -ENOTSUP: elements are no integers; -ENOENT,
 * and the errors of open(2) and read(2). The caller gives *ret to
 * tarn_data_source_unref.
 */
TARN_PUBLIC int tarn_data_source_open(const char *const *paths, size_t n,
	const struct tarn_data_source_options *options, tarn_data_source **ret)
	TARN_NONNULL(1, 4) TARN_MUST_CHECK;

/*
 * A source of a tensor's elements: values is [n], contiguous, of integers, in
 * memory, a file, or the store. With offsets, ragged rows: document i is
 * values[offsets[i] : offsets[i + 1]]; offsets is [documents + 1], of 4 or 8 bytes.
 * NULL: all of it is one document. The source has references to both. -EINVAL: a
 * tensor is another; -EBADMSG: offsets lead outside of values.
 */
TARN_PUBLIC int tarn_data_source_tokens(tarn_tensor *values,
	tarn_tensor *offsets, tarn_data_source **ret)
	TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* A source whose samples are the rows of a tensor, of any dtype and one dimension
 * at least: it has no tokens. It has a reference to the tensor. */
TARN_PUBLIC int tarn_data_source_rows(tarn_tensor *tensor,
	tarn_data_source **ret) TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* One more reference, for the caller. Takes NULL, returns its argument. */
TARN_PUBLIC tarn_data_source *tarn_data_source_ref(tarn_data_source *source);
/* Drops a reference. Takes NULL and returns NULL. */
TARN_PUBLIC tarn_data_source *tarn_data_source_unref(
	tarn_data_source *source);

struct tarn_data_source_info {
	/* "megatron", "datatrove", "tensor", "raw", "mixed" of these; "ragged",
	 * "rows". Static. */
	const char *format;
	enum tarn_dtype dtype; /* NONE where a token has 3 bytes */
	unsigned token_bytes;  /* 0: there are no tokens */
	size_t n_files;
	uint64_t n_tokens, n_documents, n_rows;
	bool has_documents; /* an index tells them apart */
	uint64_t reserved[8]; /* 0 */
};

TARN_PUBLIC void tarn_data_source_info(const tarn_data_source *source,
	struct tarn_data_source_info *ret) TARN_NONNULL(1, 2);

/* How many tokens n documents from the first on have. -ERANGE; -EBADMSG: the
 * index is wrong, and the sentence names its file and byte. */
TARN_PUBLIC int tarn_data_source_lengths(const tarn_data_source *source,
	uint64_t first, size_t n, uint64_t *ret)
	TARN_NONNULL(1, 4) TARN_MUST_CHECK;

/* The first token of a document, counted from the source's first, and how many it
 * has. Errors as of tarn_data_source_lengths. */
TARN_PUBLIC int tarn_data_source_document(const tarn_data_source *source,
	uint64_t document, uint64_t *ret_token, uint64_t *ret_length)
	TARN_NONNULL(1, 3, 4) TARN_MUST_CHECK;

/* The document of a token: some dozen reads of an index. -EBADMSG also where
 * documents do not follow each other. */
TARN_PUBLIC int tarn_data_source_find(const tarn_data_source *source,
	uint64_t token, uint64_t *ret_document)
	TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* Reads n tokens as they are in the files, of token_bytes each. -ERANGE;
 * -ESTALE: a file has changed since it was opened; -ENODATA: it has shrunk; -EIO.
 * The sentence names file and byte. */
TARN_PUBLIC int tarn_data_source_read(const tarn_data_source *source,
	uint64_t first, size_t n, void *ret)
	TARN_NONNULL(1, 4) TARN_MUST_CHECK;

#ifdef __cplusplus
}
#endif
