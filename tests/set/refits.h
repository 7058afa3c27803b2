/* SPDX-License-Identifier: MIT */
/*
 * What a refit does, for a set in memory and for one on a device alike: each is
 * a daemon of its own, a set, and its next version.
 */
#pragma once

#include <tarn/tarn.h>

#include "tests/kit/daemon_helper.h"

/* A daemon, and a store of it; device NULL: sets are in memory. budget: of the
 * daemon, or NULL. */
void refits_begin(const struct tarn_cuda_device *device, const char *budget);
/* Nothing is left there. */
void refits_end(void);

extern tarn_store *refits_store;
extern struct daemon refits_daemon;
/* Sets are published with digests, which each commit is held to. */
extern bool refits_digests;
extern const struct tarn_cuda_device *refits_where; /* NULL: in memory */

/* Of most tensors. So large that the store shares them (TARN_ADOPT_MIN). */
enum { ROWS = 1000, COLUMNS = 600, BYTES = ROWS * COLUMNS * 4 };

/* The behaviours. */
void refits_versions(void);
void refits_fields(void);
void refits_buckets(void);
void refits_parts(void);
void refits_sparse(void);
void refits_sparse_refused(void);
void refits_ties(void);
void refits_ties_apart(void);
void refits_ties_late(void);
void refits_overlaps(void);
void refits_small(void);
void refits_packs(void);
void refits_sharing(void);
void refits_refused(void);
void refits_added(void);
void refits_overtaken(void);
void refits_aborted(void);
void refits_file(void);
void refits_file_shrinks(void);
void refits_killed(void);
/* "case victim SOCKET here|there", which refits_killed runs. */
void refits_victim(const char *socket, bool there);

/* A tensor of those numbers, of no store: seed, seed + 1, ... modulo 101. */
tarn_tensor *refits_numbers(
	enum tarn_dtype dtype, int64_t rows, int64_t columns, int seed);
/* Are these the numbers under a name of the set "w"? */
void refits_check(const char *name, enum tarn_dtype dtype, int64_t rows,
	int64_t columns, int seed, const char *what);
/* A set of "a", "b" and "c", F32, with seeds 1, 2 and 3. */
void refits_publish(int64_t rows, int64_t columns);
tarn_refit *refits_refit(const struct tarn_refit_options *options);
/* Bytes of tensors that the daemon keeps become as many as that. */
void refits_check_kept(uint64_t bytes, const char *what);
uint64_t refits_kept(void);

/* ---- between the files --------------------------------------------------- */

/* The tensor where sets are; it is taken over. */
tarn_tensor *refits_placed(tarn_tensor *t);
tarn_tensor *refits_view(tarn_tensor *t, const char *expr);
/* Of the set "w". */
tarn_tensor *refits_found(const char *name);
bool refits_equal(const tarn_tensor *t, const tarn_tensor *wanted);
/* As refits_numbers, to be published without a copy. */
tarn_tensor *refits_created(int64_t rows, int64_t columns, int seed);
/* Takes the tensors over; a name may be a view of another's tensor. */
void refits_publish_all(const char *const *names, tarn_tensor **tensors,
	size_t n, const struct tarn_set_options *options);
/* Takes the tensor over. */
void refits_put(tarn_refit *refit, const char *name, tarn_tensor *t);
/* And frees it. */
void refits_commit(tarn_refit *refit);
/* Those rows of refits_numbers(ROWS, columns, 40). */
int refits_put_rows(tarn_refit *refit, const char *name, int64_t start,
	int64_t rows, int64_t columns);
