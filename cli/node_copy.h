/* SPDX-License-Identifier: MIT */
/* What tarn replicate and tarn migrate share: they have the daemon copy
 * published tensors to a NUMA node. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>
#include <tarn/node.h>
#include <tarn/store.h>

struct node_copy {
	const char *done; /* "copied" */
	int (*fn)(tarn_store *store, const char *name, int node,
		const struct tarn_replicate_options *options,
		uint64_t *ret_bytes);
	tarn_store *store;
	const char *name; /* one ending with '/' stands for all below it */
	size_t tensors;   /* that it stands for */
	/* The last copy. */
	int node;
	uint64_t bytes; /* 0: they were there already */
	double seconds;
};

/* Counts the tensors of the name, which must not be a channel's. EXIT_DONE, or
 * EXIT_FAILED after an error message. */
int node_copy_begin(struct node_copy *copy);

/* Copies them to a node, with a bar on a terminal. The same results. */
int node_copy_to(struct node_copy *copy, int node);

/* An error of the library, and a hint what may have been meant. Returns
 * EXIT_FAILED. */
int node_copy_failed(const struct node_copy *copy, int error);

/* The last copy: as a line for people, and as node, bytes and seconds. */
void node_copy_print(const struct node_copy *copy);
void node_copy_json(const struct node_copy *copy, json_t *object);

/* "table/: 3 tensors". */
void node_copy_print_name(const struct node_copy *copy);
