/* SPDX-License-Identifier: MIT */
/* Which ranks are a node. */
#pragma once

#include "mpi/agree.h"

#include <tarn/store.h>

#include "base/digest.h"

/* What a rank says of itself. */
struct nodes_rank {
	struct digest key;  /* ranks of one node have the same */
	struct digest name; /* of what they load */
};

/* What rank 0 tells each rank. */
struct nodes {
	int32_t n, me;         /* nodes, in the order of their first ranks; this
				* rank's */
	int32_t first;         /* the first rank of this rank's node */
	int32_t before, after; /* the first ranks of the nodes beside it, in a
				* ring */
	int32_t other_name;    /* bool: this one's differs from that of first */
};

/* Memory for nodes_find. */
struct nodes_post;

/* What tells one node from another: ranks of one machine whose stores are the same
 * have the same key. */
int nodes_key(tarn_store *store, const char *name,
	struct nodes_rank *ret) _must_check_;

int nodes_begin(MPI_Comm comm, struct nodes_post **ret) _must_check_;
/* Takes NULL. */
void nodes_end(struct nodes_post *post);

/* All ranks of comm call it, and have just told each other that they have a key,
 * and a post. After an error MPI may still use the post, and it is not freed. */
int nodes_find(const struct nodes_rank *mine, MPI_Comm comm,
	const struct mpi_deadline *deadline, struct nodes_post *post,
	struct nodes *ret) _must_check_;
