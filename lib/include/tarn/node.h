/* SPDX-License-Identifier: MIT */
/*
 * NUMA nodes: where memory lies on a machine that has several.
 *
 *	tarn_tensor *t = NULL;
 *	int node;
 *
 *	if (tarn_store_set_node(store, 1) >= 0 &&
 *		tarn_store_get(store, "m.safetensors:wte", NULL, &t) >= 0 &&
 *		tarn_tensor_node(t, &node) >= 0)
 *		printf("on node %d\n", node);
 *
 * By default memory lies on the node of the CPU on which the client runs that
 * needs it first: a program that is bound to a node need call nothing of this.
 * What a pool does is its administrator's choice; see tarn-numa(7).
 */
#pragma once

#include <tarn/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The node of memory that lies on several. */
#define TARN_NODE_SEVERAL (-1)

/*
 * The node on which a tensor's memory lies, or TARN_NODE_SEVERAL. For memory of
 * a pool it is what the daemon found when it looked up every page; of other
 * memory a hundred pages, evenly spread, are looked up now, and touched for
 * that. -ENOTSUP: the tensor is in a file or on a device; -ENODATA: it is not
 * known, as in a container that forbids the question, or of a daemon that is
 * older than this function. Any thread.
 */
TARN_PUBLIC int tarn_tensor_node(const tarn_tensor *tensor, int *ret_node)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/*
 * From now on memory for what is loaded, created and published through this
 * store, by any thread, lies on that node, or the call that needs it fails; -1:
 * by the pool's policy, as in the beginning. A file that is loaded already is
 * loaded once more unless it lies there; a tensor that is in shared memory
 * already, and is published under one more name, stays where it is. Calls then
 * fail with -ENODEV: that node has no memory; -EINVAL: the pool is bound to
 * another; -ENOSPC: the node is full. -EINVAL: there can be no such node. Any
 * thread.
 */
TARN_PUBLIC int tarn_store_set_node(tarn_store *store, int node)
	TARN_NONNULL(1) TARN_MUST_CHECK;

/* What tarn_store_set_node set last; -1: it has not, or that. */
TARN_PUBLIC int tarn_store_node(const tarn_store *store)
	TARN_NONNULL(1) TARN_MUST_CHECK;

#ifdef __cplusplus
}
#endif
