/* SPDX-License-Identifier: MIT */
/*
 * A file for all nodes of an MPI job: each reads a part of it, and gets the rest
 * from the others. tarn/mpi.h has the call for a communicator; this header alone
 * needs no mpi.h, for programs that know MPI by this library only, as tarn(1) does:
 *
 *	struct tarn_mpi_load_info info;
 *
 *	r = tarn_mpi_load_world(NULL, "m.safetensors", NULL, &info);
 *	if (r >= 0)
 *		r = tarn_store_lookup(store, "m.safetensors/wte", &t);
 *
 * Ranks of one machine that use the same daemon, as the same user, with the same
 * pool, are a node, and the first of them reads, sends and publishes for it. So
 * several daemons on one machine (TARN_SOCKET) are several nodes.
 *
 * Each node has the whole set or none of it: the sets are published when all nodes
 * have all bytes, and have compared a digest of them. If a node fails at publishing
 * itself, for lack of memory or because it ends just then, others may have published
 * already.
 */
#pragma once

#include <tarn/store.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tarn_mpi_load_options {
	/* The set: each tensor is published as NAME/TENSOR. NULL: the file's
	 * absolute path without its first slash. The same on all ranks. */
	const char *name;
	/* What errors call this rank's node; NULL: the machine's name. */
	const char *node;
	/* From the call on; 0: 300,000. Ranks that have not come by then, or a
	 * disk that has not read, are -ETIMEDOUT. Once all are there the one whose
	 * time ends first ends the load of all. */
	int timeout_ms;
	bool fresh; /* read the file even if the set is there already; one rank
		     * that says so is enough */
	/* Where store is NULL: for tarn_store_open. */
	const char *socket;
	const char *pool;
	/* Called on each rank with its store, before anything is looked at; NULL:
	 * there is nothing to be done. An error that it returns, -errno with
	 * tarn_error_set, is told to all ranks. */
	int (*prepare)(void *arg, tarn_store *store);
	void *arg;
	uint64_t reserved[8]; /* 0 */
};

struct tarn_mpi_load_info {
	uint64_t bytes; /* of the file's tensors */
	uint64_t read;	/* by this rank from the file */
	double seconds; /* from call to return */
	size_t tensors;
	int nodes, node; /* how many there are; which this is, from 0 on */
	int rank;	 /* this process's, of those that load together */
	bool cached;	 /* all nodes had the set already: nothing was read */
	uint64_t reserved[8]; /* 0 */
};

/*
 * As tarn_mpi_load (tarn/mpi.h), with all processes that mpirun has started.
 * MPI is initialised, and finalised when the process exits, if the program has
 * not done so; after an error the other processes may wait for this one until it
 * exits. store may be NULL: then one is opened, and an error of that is told to all
 * ranks, too. options and ret_info may be NULL. One thread of the process. -EINVAL
 * after MPI_Finalize.
 */
TARN_PUBLIC int tarn_mpi_load_world(tarn_store *store, const char *path,
	const struct tarn_mpi_load_options *options,
	struct tarn_mpi_load_info *ret_info)
	TARN_NONNULL(2) TARN_MUST_CHECK;

#ifdef __cplusplus
}
#endif
