/* SPDX-License-Identifier: MIT */
/* Which ranks are a node. */
#pragma once

#include "mpi/agree.h"

#include <tarn/store.h>

struct nodes {
	MPI_Comm firsts; /* of the nodes, in the order of their first ranks, as
			  * ranks; MPI_COMM_NULL where this is none */
	int n, me;       /* nodes, and this rank's */
};

/* Ranks of one machine whose stores are the same are a node. All ranks of comm call
 * it, and have just answered each other. The caller frees firsts. */
int nodes_find(
	tarn_store *store, MPI_Comm comm, struct nodes *ret) _must_check_;
