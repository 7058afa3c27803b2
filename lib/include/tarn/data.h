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
 * same time and memory for any n: below 150 ns, and in blocks three times that. */
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
	/* Of tar shards, which need an index each: keep it beside the shard, as
	 * x.tar.tarn-index, and use the one that is there, if the shard has not
	 * changed since. */
	bool side_car;
	int threads; /* that read shards; 0: as many as there are processors */
	/* For each path NULL, or its index as tarn_data_source_index gives it;
	 * NULL: there are none. */
	tarn_tensor *const *indexes;
	/* Called at the beginning and now and then, in the calling thread, with the
	 * bytes of shards that have been looked through; non-zero cancels:
	 * -ECANCELED. */
	int (*progress)(void *arg, uint64_t done, uint64_t total);
	void *arg;
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
 *   x.tar               a shard of records, see below: then all paths are
 *   another file        tokens alone, one document
 *
 * and all have tokens of one dtype. options may be NULL. -EINVAL: they have not,
 * or a file is raw and options do not say what its tokens are; -EBADMSG: an index is wrong, and the
 * sentence names file and byte; -ENOTSUP: elements are no integers, or a member of a
 * shard has holes; -EMEDIUMTYPE: an index that is given is another shard's;
 * -ECANCELED; -ENOENT, and the errors of open(2) and read(2). The caller gives *ret to
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
	 * "rows"; "tar", "columns", "chain". Static. */
	const char *format;
	enum tarn_dtype dtype; /* NONE where a token has 3 bytes */
	unsigned token_bytes;  /* 0: there are no tokens */
	size_t n_files;
	uint64_t n_tokens, n_documents, n_rows;
	bool has_documents; /* an index tells them apart */
	uint64_t n_records;
	uint64_t reserved[7]; /* 0 */
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

/* ---- records ------------------------------------------------------------- */

/*
 * A record is named fields, each a range of bytes or elements of a tensor.
 *
 * Tar shards, as WebDataset has them, are records of their members: a member
 * a/b.seg.png is the field seg.png of the record with the key a/b, and members of
 * one key that follow each other are one record. (Field names are in small
 * letters. Members without a dot, with names like __this__, and those that are no
 * files are left out.) The formats are ustar, pax and GNU's, without holes.
 *
 * Columns are records, too: field c of record i is sample i of column c.
 *
 *	const char *shard = "images-0000.tar";
 *	tarn_data_source *images = NULL;
 *	tarn_data_record *record = NULL;
 *
 *	r = tarn_data_source_open(&shard, 1, NULL, &images);
 *	if (r >= 0)
 *		r = tarn_data_source_record(images, 17, &record);
 *	for (size_t i = 0; r >= 0 && i < tarn_data_record_count(record); i++)
 *		puts(tarn_data_record_field(record, i)->name);
 *	record = tarn_data_record_free(record);
 *	images = tarn_data_source_unref(images);
 *
 * The index of a shard says where each member is. A member's head is read again
 * when its bytes are, so an index that is wrong leads to an error, or leaves records
 * out, and never leads to other bytes.
 */

/* Picked: beyond what records have; a tar file without dots in its names would
 * be one record. */
#define TARN_DATA_FIELDS_MAX 4096

/* A column: a source of rows, of tokens, whose documents are the samples, or of
 * records. The fields of a record are fields here: "NAME.FIELD". */
struct tarn_data_column {
	const char *name;
	tarn_data_source *source;
	uint64_t reserved[2]; /* 0 */
};

/*
 * A source of n columns, all of which have the same number of samples. Names are
 * copied, and the source has references to all sources. -EINVAL: the numbers
 * differ, or a name comes twice; -E2BIG: more than TARN_DATA_FIELDS_MAX.
 */
TARN_PUBLIC int tarn_data_source_columns(const struct tarn_data_column *columns,
	size_t n, tarn_data_source **ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* A source of the records of n others, those of one after those of the one before
 * it: of tables that come in batches. Their fields may differ. It has references to
 * all. -EINVAL: one has no records; -EOVERFLOW: there are more than 2^63. */
TARN_PUBLIC int tarn_data_source_chain(tarn_data_source *const *sources,
	size_t n, tarn_data_source **ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* A source of ragged rows, of any dtype: sample i is
 * values[offsets[i] : offsets[i + 1]]. values is [n, ...], contiguous; offsets as of
 * tarn_data_source_tokens. It can be a column. Errors as there. */
TARN_PUBLIC int tarn_data_source_ragged(tarn_tensor *values,
	tarn_tensor *offsets, tarn_data_source **ret)
	TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

/* The index of a shard, U8 [n]: to be published for other processes of the node,
 * or saved. *ret is the caller's reference. -ENOENT: file i is no shard; -ERANGE. */
TARN_PUBLIC int tarn_data_source_index(const tarn_data_source *source, size_t i,
	tarn_tensor **ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* One record's key, fields and places. Read-only: any thread. */
typedef struct tarn_data_record tarn_data_record;

struct tarn_data_field {
	const char *name;
	enum tarn_dtype dtype; /* U8 for bytes of a file */
	int ndim;
	int64_t shape[TARN_NDIM_MAX];
	uint64_t size;    /* bytes */
	const char *path; /* of the shard; NULL: it is of a tensor */
	uint64_t offset;  /* of its first byte in the shard */
	uint64_t reserved[4]; /* 0 */
};

/* Finds record i. -ERANGE; -EBADMSG: the index is wrong, and the sentence names
 * the file; -ESTALE, -ENODATA, -EIO, -ENOMEM. The caller gives *ret to
 * tarn_data_record_free; it has a reference to the source. */
TARN_PUBLIC int tarn_data_source_record(const tarn_data_source *source,
	uint64_t i, tarn_data_record **ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* Takes NULL and returns NULL. */
TARN_PUBLIC tarn_data_record *tarn_data_record_free(tarn_data_record *record);

/* What its members' names have in common; "" where it has no name. It lives as
 * long as the record. */
TARN_PUBLIC const char *tarn_data_record_key(const tarn_data_record *record)
	TARN_NONNULL(1);

TARN_PUBLIC size_t tarn_data_record_count(const tarn_data_record *record)
	TARN_NONNULL(1);

/* Field i, as long as the record lives; NULL: there are not so many. */
TARN_PUBLIC const struct tarn_data_field *tarn_data_record_field(
	const tarn_data_record *record, size_t i) TARN_NONNULL(1);

/* The number of the field with that name. -ENOENT: the sentence lists those that
 * there are. */
TARN_PUBLIC int tarn_data_record_find(const tarn_data_record *record,
	const char *name, size_t *ret) TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

/* Reads all bytes of field i. size is the room, at least the field's: -ENOBUFS.
 * -ESTALE: the shard has changed since it was opened; -ENODATA: it has shrunk;
 * -EBADMSG: its index is wrong; -ERANGE, -EIO. The sentence names file and byte. */
TARN_PUBLIC int tarn_data_record_read(const tarn_data_record *record, size_t i,
	void *ret, size_t size) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* Field i as a tensor: a view of the column's where that has an address or a file,
 * else in new memory. *ret is the caller's reference. Errors as of
 * tarn_data_record_read, and -ENOMEM. */
TARN_PUBLIC int tarn_data_record_tensor(const tarn_data_record *record,
	size_t i, tarn_tensor **ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* ---- datasets ------------------------------------------------------------ */

/*
 * A dataset is sources, cut into samples, in an order that goes on for ever, from
 * epoch to epoch:
 *
 *	const char *path = "corpus_text_document";
 *	struct tarn_data_options options = {.seed = 42, .seq_len = 4096};
 *	struct tarn_data_request request = {.size = 0};
 *	struct tarn_data_sample sample;
 *	static int32_t tokens[4097];
 *	tarn_data_source *source = NULL;
 *	tarn_data *data = NULL;
 *
 *	r = tarn_data_source_open(&path, 1, NULL, &source);
 *	if (r >= 0)
 *		r = tarn_data_open(&source, 1, &options, &data);
 *	request.tokens = tokens;
 *	request.size = sizeof(tokens);
 *	for (uint64_t g = 0; r >= 0 && g < 1000; g++)
 *		r = tarn_data_get(data, g, &request, &sample);
 *	data = tarn_data_free(data);
 *	source = tarn_data_source_unref(source);
 *
 * What comes at position g of the global order depends on the configuration and
 * g alone. Rank r of a world takes its part of each global batch
 * (tarn_data_rank_part), so a job goes on with another world at the same g.
 */
typedef struct tarn_data tarn_data;

/* A sample has seq_len + 1 tokens: seq_len to read, and as many to predict, each
 * the next one. */
enum tarn_data_windows {
	/* Windows of the source's tokens at each seq_len, across documents, as
	 * Megatron's GPT datasets have them. What is left at the end is not
	 * used. */
	TARN_WINDOWS_STREAM = 0,
	/* Windows that begin at each seq_len of a document and end with it; the
	 * last one is padded, or, if it is not full, dropped. Documents of one
	 * token have none. */
	TARN_WINDOWS_PADDED = 1,
	TARN_WINDOWS_DROPPED = 2,
	/* The same full windows. What is left of documents, which is all of
	 * those that are shorter, is packed into sequences by best fit, and the
	 * rest of a sequence is padded. Documents are packed within groups of
	 * consecutive ones. */
	TARN_WINDOWS_PACKED = 3,
	/* A sample is a row of a tensor, as its bytes are. */
	TARN_WINDOWS_ROWS = 4,
	/* A sample is a record: tarn_data_get says which one of its source, for
	 * tarn_data_source_record, and delivers no bytes. */
	TARN_WINDOWS_RECORDS = 5,
};

/* 64^4 - 2: what packs sequences numbers their rooms in four levels. */
#define TARN_DATA_SEQ_MAX 16777214

struct tarn_data_options {
	uint64_t seed;
	uint32_t seq_len; /* tokens; 0 for rows and records */
	enum tarn_data_windows windows;
	enum tarn_data_shuffle shuffle;
	uint64_t block; /* samples, for TARN_SHUFFLE_BLOCKS */
	/* Documents that are packed together, and whose lengths are read at once;
	 * 0: 1,024, or where documents are packed as many as make some 256
	 * sequences, 65,536 at most. */
	uint32_t group;
	enum tarn_dtype dtype; /* of delivered tokens: integers; 0: I32 */
	int64_t pad;           /* the token that fills up */
	/* The mixture of the sources: each then has epochs of its own. NULL: the
	 * samples of all are shuffled as one. */
	const struct tarn_data_weights *periods;
	size_t n_periods;
	/* For each source NULL, or its table as tarn_data_table gives it; NULL:
	 * there are none, and they are computed, which reads all lengths. */
	tarn_tensor *const *tables;
	int threads; /* that compute them; 0: as many as there are processors */
	/* Keep the tables beside the first file of each source, as
	 * FILE.HASH.tarn-table.npy, and use the ones that are there, if no file has
	 * changed since. A folder that cannot be written is no error. */
	bool side_car;
	/* Called for each table that is computed, at the beginning and now and then,
	 * in the calling thread, with the documents whose lengths have been read;
	 * non-zero cancels: -ECANCELED. */
	int (*progress)(void *arg, uint64_t done, uint64_t total);
	void *arg;
	uint64_t reserved[6]; /* 0 */
};

/*
 * Opens a dataset of n sources, of which it keeps references, in milliseconds, or
 * as long as it takes to read the lengths of all documents where windows need
 * them. options are copied. All calls of a dataset may be made by any number of
 * threads at once, and in forked children.
 *
 * -EINVAL: an option is wrong, a source has no tokens, or none of a sample's size;
 * -E2BIG: too many sources; -EMEDIUMTYPE: a table is not the source's; -EBADMSG:
 * an index or a table is wrong; -ECANCELED; -ENOMEM, and the errors of reading. The
 * caller gives *ret to tarn_data_free.
 */
TARN_PUBLIC int tarn_data_open(tarn_data_source *const *sources, size_t n,
	const struct tarn_data_options *options, tarn_data **ret)
	TARN_NONNULL(1, 3, 4) TARN_MUST_CHECK;

/* Takes NULL and returns NULL. */
TARN_PUBLIC tarn_data *tarn_data_free(tarn_data *data);

struct tarn_data_info {
	uint64_t n_samples;     /* of an epoch; of a mixture, of all sources */
	uint64_t sample_bytes;  /* that tarn_data_request.tokens needs */
	uint32_t sample_tokens; /* seq_len + 1; 0 for rows and records */
	enum tarn_dtype dtype;  /* of what is delivered */
	uint32_t n_sources;
	uint64_t reserved[8]; /* 0 */
};

TARN_PUBLIC void tarn_data_info(const tarn_data *data,
	struct tarn_data_info *ret) TARN_NONNULL(1, 2);

/* The samples of an epoch of source i. -ERANGE: there are not so many sources. */
TARN_PUBLIC int tarn_data_source_samples(const tarn_data *data, uint32_t i,
	uint64_t *ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/*
 * The table of source i: U64 [n], 8 bytes for a group of documents. One process
 * of a node may publish it (publish.h), or save it beside the files (save.h), and
 * others give it to tarn_data_open. *ret is the caller's reference. -ENOENT: windows of
 * a stream and rows need no table; -ERANGE.
 */
TARN_PUBLIC int tarn_data_table(const tarn_data *data, uint32_t i,
	tarn_tensor **ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* What a sample is written to. All pointers may be NULL. */
struct tarn_data_request {
	void *tokens; /* seq_len + 1 of the dtype, or the bytes of a row */
	size_t size;  /* of tokens, in bytes: sample_bytes at least */
	/* Of seq_len + 1: places in the document's piece; and numbers of pieces
	 * from 1 on. Both are 0 for padding. */
	int32_t *positions;
	int32_t *segments;
	/* Room for seq_len + 1: where the pieces begin among the seq_len tokens
	 * that are read, and seq_len at the end, as FlashAttention and Megatron
	 * want them. Padding is one more piece. */
	int32_t *cu_seqlens;
	bool document; /* find the document, also of windows across them */
	uint64_t reserved[8]; /* 0 */
};

struct tarn_data_sample {
	uint64_t epoch;    /* of the source, or, where there is no mixture, of all */
	uint64_t sample;   /* of the source */
	uint64_t document; /* of the first token, in the source; TARN_DATA_NONE: it
			    * was not asked for */
	uint32_t source;
	uint32_t n_tokens; /* without padding */
	uint32_t n_pieces;
	uint32_t n_cu_seqlens;
	uint64_t reserved[8]; /* 0 */
};

/*
 * Reads the sample at position g. -ENOBUFS: size is too small; -ERANGE: a token
 * does not fit into the dtype; -EBADMSG: an index is wrong; -ESTALE, -ENODATA,
 * -EIO: a file has changed, has shrunk or cannot be read, and the sentence names
 * file and byte; -ENOMEM. After an error the buffers hold anything.
 */
TARN_PUBLIC int tarn_data_get(tarn_data *data, uint64_t g,
	const struct tarn_data_request *request, struct tarn_data_sample *ret)
	TARN_NONNULL(1, 3, 4) TARN_MUST_CHECK;

/*
 * The part of each global batch that a rank takes: positions step * global_batch +
 * first to + n - 1. All parts are as large as each other, or one larger. Together,
 * in the order of ranks, they are the batch, whatever world is. -EINVAL: rank is
 * not below world.
 */
TARN_PUBLIC int tarn_data_rank_part(uint64_t global_batch, uint32_t rank,
	uint32_t world, uint64_t *ret_first, uint64_t *ret_n)
	TARN_NONNULL(4, 5) TARN_MUST_CHECK;

/* ---- state --------------------------------------------------------------- */

/* 128 bits of the configuration: what decides which sample comes where. Not of
 * paths, ranks, threads and dtypes that are delivered. */
TARN_PUBLIC void tarn_data_hash(const tarn_data *data, uint64_t ret[2])
	TARN_NONNULL(1, 2);

/* The state of a job that has been given the first g samples: a text of some
 * hundred bytes, and a line or two for each source. *ret is the caller's, for
 * free(3). -ENOMEM. */
TARN_PUBLIC int tarn_data_state(const tarn_data *data, uint64_t g, char **ret)
	TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/*
 * The position from which a job with this state goes on. -EMEDIUMTYPE: it is of
 * another configuration, and the sentence lists what differs: "seed is 42, not
 * 43; source.1.tokens is 100, not 120"; -EBADMSG: it is no state.
 */
TARN_PUBLIC int tarn_data_resume(const tarn_data *data, const char *state,
	uint64_t *ret_g) TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

#ifdef __cplusplus
}
#endif
