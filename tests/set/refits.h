/* SPDX-License-Identifier: MIT */
/*
 * What a refit does, for a set in memory and for one on a device alike: each is
 * a daemon of its own, a set, and its next version.
 */
#pragma once

#include <tarn/tarn.h>

/* A daemon, and a store of it; device NULL: sets are in memory. budget: of the
 * daemon, or NULL. */
void refits_begin(const struct tarn_cuda_device *device, const char *budget);
/* Nothing is left there. */
void refits_end(void);

extern tarn_store *refits_store;

/* The behaviours. */
void refits_versions(void);
void refits_fields(void);
void refits_buckets(void);
void refits_parts(void);
void refits_sparse(void);
void refits_sparse_refused(void);
void refits_ties(void);
void refits_overlaps(void);
void refits_equal(void);
void refits_refused(void);
void refits_added(void);
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
