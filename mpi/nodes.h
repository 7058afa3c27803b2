/* SPDX-License-Identifier: MIT */
/* Which ranks are a node. */
#pragma once

#include "mpi/agree.h"

#include <tarn/store.h>

#include "base/digest.h"

struct nodes {
	MPI_Comm firsts; /* of the nodes, in the order of their first ranks, as
			  * ranks; MPI_COMM_NULL where this is none */
	int n, me;       /* nodes, and this rank's */
};

/* What tells one node from another: ranks of one machine whose stores are the same
 * have the same key. */
int nodes_key(tarn_store *store, struct digest *ret) _must_check_;

/* All ranks of comm call it, and have just told each other that they have a key. The
 * caller frees firsts. */
int nodes_find(const struct digest *key, MPI_Comm comm,
	struct nodes *ret) _must_check_;
