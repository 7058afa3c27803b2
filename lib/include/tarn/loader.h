/* SPDX-License-Identifier: MIT */
/*
 * Loaders: the batches of a dataset, read ahead, once for all processes of a
 * node.
 *
 *	struct tarn_loader_options options = {.name = "train",
 *		.global_batch = 512, .rank = 3, .world = 8, .from = g};
 *	tarn_loader *loader = NULL;
 *	tarn_batch *batch = NULL;
 *	tarn_tensor *tokens = NULL;
 *
 *	r = tarn_loader_open(store, data, &options, &loader);
 *	while (r >= 0 && tarn_loader_next(loader, -1, &batch) >= 0) {
 *		r = tarn_batch_tensor(batch, TARN_LOADER_TOKENS, &tokens);
 *		... train on tokens, [n, seq_len + 1] ...
 *		tokens = tarn_tensor_unref(tokens);
 *		batch = tarn_batch_unref(batch);
 *		... save tarn_loader_position(loader) now and then ...
 *	}
 *	loader = tarn_loader_unref(loader);
 *
 * Processes of a node that open a loader by the same name have one feed: one
 * of them reads the node's part of each global batch into the slots of a
 * channel (channel.h), and each process gets its rank's rows of it as views,
 * without a copy. Ranks that need the same batch, as those of tensor
 * parallelism do, share its memory. If the process that reads ends or dies,
 * another goes on.
 *
 * What comes at a position depends on the dataset and the position alone, so a
 * feed saves reads and never decides what a rank gets. A process that joins
 * late, or whose feed has a gap because its reader has died, reads what it
 * missed itself; one that is far from the feed's position, such as a second
 * job on the same data, reads for itself until the two meet.
 *
 * Memory and reading ahead are bounded by the slots. A feed goes at the pace
 * of its slowest process: a job that others shall not wait for takes a name of
 * its own, or none.
 *
 * Threads: one at a time may call tarn_loader_next of a loader, which -EBUSY
 * tells the others; batches and their tensors are any thread's. Fork: a loader
 * belongs to the process that opened it; a child opens its own.
 */
#pragma once

#include <tarn/data.h>
#include <tarn/store.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarn_loader tarn_loader;
typedef struct tarn_batch tarn_batch;

/* The parts of a batch; all but the tokens are on request (ored). */
enum tarn_loader_part {
	/* [n, seq_len + 1] of the dataset's dtype, or rows: [n, ...]. */
	TARN_LOADER_TOKENS = 0,
	/* I32 [n, seq_len + 1]: as in tarn_data_request. */
	TARN_LOADER_POSITIONS = 1,
	TARN_LOADER_SEGMENTS = 2,
	/* I32 [boundaries]: where pieces begin among the n * seq_len tokens that
	 * are read, from 0 to n * seq_len, across all samples of the batch. */
	TARN_LOADER_CU_SEQLENS = 4,
	/* U64 [n]: the document of each sample's first token, in its source;
	 * TARN_DATA_NONE for rows. */
	TARN_LOADER_DOCUMENTS = 8,
};

/* Picked: more than any drive needs. */
#define TARN_LOADER_AHEAD_MAX 1024u

struct tarn_loader_options {
	/* Of the feed, for all processes of the node that share it; up to 900
	 * bytes. NULL: this process reads for itself, and needs no store. */
	const char *name;
	uint64_t global_batch; /* samples of a step, of all ranks: 1 at least */
	/* Of data parallelism: this process's part is tarn_data_rank_part's.
	 * Processes that need the same batch say the same rank. world 0 is 1. */
	uint32_t rank, world;
	/* The ranks that the feed is for, as a rule the node's: the first,
	 * and how many; node_ranks 0: all. Only where there is a name. */
	uint32_t node_rank, node_ranks;
	/* That share it, as a rule at the same time: the first batch waits for
	 * them, for 10 s at most, or until the process that reads asks for
	 * it. What comes later reads for itself at first. 0: node_ranks. */
	uint32_t processes;
	uint32_t ahead; /* batches that are read ahead; 0: 4 */
	unsigned parts; /* TARN_LOADER_*, ored, that batches have beside tokens */
	/* The global position of the first batch, whatever world and global_batch
	 * the samples before it were read with: what tarn_loader_position
	 * said. */
	uint64_t from;
	/* The first position that is not delivered any more; 0: none. If it is
	 * in the midst of a global batch, that one is smaller, and all ranks
	 * have their part of it, which may be no samples. */
	uint64_t until;
	/* The caller may keep batches: those that it has in more than half of the
	 * slots are copied, in memory of their own. Without it a caller that
	 * keeps as many as there are slots waits until it drops one. */
	bool keeps;
	uint64_t reserved[8]; /* 0 */
};

/*
 * Opens a loader and begins to read ahead, in the background. data is borrowed
 * and must outlive the loader; a reference to the store is kept. store is NULL,
 * or anything, where options have no name.
 *
 * -EINVAL: an option is wrong, and the sentence says which; -EMEDIUMTYPE: the
 * name is in use by processes with another dataset, global batch, part of it,
 * dtype or other parts; -EOVERFLOW: a batch is too large; -ENOTSUP: samples are
 * records, each of its own size; -ENOMEM, and the errors of
 * tarn_channel_open. The caller gives *ret to tarn_loader_unref.
 */
TARN_PUBLIC int tarn_loader_open(tarn_store *store, tarn_data *data,
	const struct tarn_loader_options *options, tarn_loader **ret)
	TARN_NONNULL(2, 3, 4) TARN_MUST_CHECK;

/* Ends reading and leaves the feed; if this process reads for it, another
 * takes over. Batches stay valid until they are dropped. Not while another
 * thread is in tarn_loader_next. Takes NULL and returns NULL. */
TARN_PUBLIC tarn_loader *tarn_loader_unref(tarn_loader *loader);

/*
 * The next batch of this rank. timeout_ms: 0 only tries, a negative value waits
 * for ever. Batches that were not dropped are memory that nothing can be read
 * into: a caller may keep one, or two, while it asks for the next.
 *
 * -EPIPE: until is reached; -ETIMEDOUT; -EINTR: a signal was handled meanwhile;
 * -EBUSY: another thread is in this call; -ECHILD: the loader is a parent
 * process's. Errors of reading are those of tarn_data_get, name file and byte,
 * and leave the position as it is: the next call tries the same batch again. A
 * feed that ends or breaks is no error: the process reads for itself then.
 */
TARN_PUBLIC int tarn_loader_next(tarn_loader *loader, int timeout_ms,
	tarn_batch **ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* The position after the global batch that tarn_loader_next gave last: the
 * number to save. It is the same on all ranks that have made as many steps. */
TARN_PUBLIC uint64_t tarn_loader_position(const tarn_loader *loader)
	TARN_NONNULL(1) TARN_PURE;

struct tarn_loader_info {
	/* How files are read: "io_uring" or "threads"; "": nothing was read
	 * yet. Static. */
	const char *engine;
	bool reads; /* this process reads for the feed, or for itself */
	uint32_t slots;
	/* Of batches that this loader gave: from the feed, and read by this
	 * process for itself. */
	uint64_t n_shared, n_alone;
	/* Items of the feed that came twice and were dropped. */
	uint64_t n_dropped;
	/* What this process has read of tokens and rows, for the feed and
	 * itself: batches (or parts of them), requests to the engine, bytes of
	 * files, in requests and not, and bytes of memory. */
	uint64_t batches_read, requests, file_bytes, memory_bytes;
	uint64_t reserved[8]; /* 0 */
};

/* Any thread, at any time; each number was true at some time. */
TARN_PUBLIC void tarn_loader_info(
	const tarn_loader *loader, struct tarn_loader_info *ret)
	TARN_NONNULL(1, 2);

/* The samples of a batch, and the global position of the first of them; the
 * others follow it. */
TARN_PUBLIC uint64_t tarn_batch_samples(const tarn_batch *batch)
	TARN_NONNULL(1) TARN_PURE;
TARN_PUBLIC uint64_t tarn_batch_position(const tarn_batch *batch)
	TARN_NONNULL(1) TARN_PURE;

/* A part of a batch, as a reference of the caller's that keeps the memory.
 * Tensors are read-only where processes share them, and the reader's own else.
 * -ENOENT: it is not among options.parts; -EINVAL: there is no such part. */
TARN_PUBLIC int tarn_batch_tensor(tarn_batch *batch, enum tarn_loader_part part,
	tarn_tensor **ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* Drops a batch. Its memory is used again once its tensors are dropped, too.
 * Takes NULL and returns NULL. */
TARN_PUBLIC tarn_batch *tarn_batch_unref(tarn_batch *batch);

#ifdef __cplusplus
}
#endif
