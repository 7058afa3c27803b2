/* SPDX-License-Identifier: MIT */
/* A load as one rank sees it. */
#pragma once

#include <limits.h>

#include <tarn/mpi_load.h>
#include <tarn/set.h>

#include "mpi/nodes.h"
#include "mpi/source.h"

#define NODE_MAX 64 /* bytes of a node's name in errors */

struct load {
	const char *path;
	struct tarn_mpi_load_options options;
	tarn_store *store;
	MPI_Comm comm; /* of our own */
	int rank;
	struct mpi_post *post;
	struct nodes_post *nodes_post;
	struct mpi_deadline deadline;
	struct source source;
	struct nodes_rank says;
	struct nodes nodes;
	char node[NODE_MAX];
	char prefix[PATH_MAX];
	char version[2 * 16 + 1]; /* of the file: the value of its field */
	uint64_t read;
	bool adrift; /* MPI and the kernel may still write to memory */
	bool lost;   /* MPI may still use the communicator, and the posts */
};

/* What this rank has: its store, its file, what the set is called. */
int load_describe(struct load *load) _must_check_;

/* Notes a difference between this rank's file and that of rank 0. -EIO, -ETIMEDOUT:
 * they could not be compared. */
int load_compare(struct load *load, struct said *said) _must_check_;

/* Is the set there, of this version of the file? With a sentence that says what is
 * missing: 0, or -errno. */
int load_has(const struct load *load) _must_check_;

int load_publish(struct load *load, tarn_tensor *memory) _must_check_;
