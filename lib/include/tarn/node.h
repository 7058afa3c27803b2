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

/* ---- replicas ------------------------------------------------------ */

struct tarn_replicate_options {
	/* Called now and then, in the calling thread, with bytes of the tensors
	 * that are done and of all; non-zero cancels: -ECANCELED. Tensors that
	 * were copied by then stay copied. */
	int (*progress)(void *arg, uint64_t done, uint64_t total);
	void *arg;
	uint64_t reserved[8]; /* 0 */
};

/*
 * Keeps the bytes of a published tensor once more, on another node, for as long
 * as its name leads to them; with a name that ends with '/', or is empty, those
 * of all tensors below it. From then on a reader that opens the name gets the
 * copy that is nearest: to the node of tarn_store_set_node, or else to the CPU
 * on which the calling thread runs. What was opened before stays what it is, and
 * a new version of the name has no replicas until they are made.
 *
 * The daemon copies; tensors that share memory share the copy. Nothing is done
 * for what lies on that node already, or has a replica there, nor for what is
 * mutable, or a patch (tarn_refit_sparse), and lies below that name. options may be
 * NULL; *ret_bytes, which may be NULL, is what was copied, also after an error.
 *
 * -ENOENT: there is no such name; -EINVAL: there can be no such node, the pool
 * is bound to others, or the tensor is mutable; -ENODEV: the node has no memory;
 * -ENOSPC: it is full, or the daemon's budget is; -ESTALE: the name was removed
 * or replaced meanwhile (of several names, all were); -ENOTSUP: memory cannot be
 * placed, or the tensor lies in memory of before an upgrade of the daemon, or is
 * a patch. Any
 * thread.
 */
TARN_PUBLIC int tarn_store_replicate(tarn_store *store, const char *name,
	int node, const struct tarn_replicate_options *options,
	uint64_t *ret_bytes) TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/*
 * Moves published tensors to another node: their bytes are copied there, and the
 * names lead to the copy as a new version. Names, errors and the rest are as for
 * tarn_store_replicate. A name that was published anew meanwhile keeps what was
 * published; the time at which a name ends does not change. Of several tensors
 * those that share memory move together, at one moment.
 */
TARN_PUBLIC int tarn_store_migrate(tarn_store *store, const char *name,
	int node, const struct tarn_replicate_options *options,
	uint64_t *ret_bytes) TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* Drops the replicas on that node, or on all of them (-1), of what
 * tarn_store_replicate would replicate; a process that has one open keeps it. 0
 * also if there are none. -ENOENT. Any thread. */
TARN_PUBLIC int tarn_store_drop_replicas(tarn_store *store, const char *name,
	int node) TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* The nodes on which the tensor that a name leads to has all its bytes, a bit
 * each: its own, unless it lies on several or that is not known, and those of
 * its replicas. -ENOENT. Any thread. */
TARN_PUBLIC int tarn_store_nodes(tarn_store *store, const char *name,
	uint64_t *ret_nodes) TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

/* ---- which node ---------------------------------------------------- */

/* What tarn_store_set_node set last; -1: it has not, or that. */
TARN_PUBLIC int tarn_store_node(const tarn_store *store)
	TARN_NONNULL(1) TARN_MUST_CHECK;

/* ---- devices ------------------------------------------------------- */

/*
 * The node to which a PCI device, a GPU for instance, is attached. Its address
 * is written as lspci -D, nvidia-smi and CUDA write it, "0000:65:00.0": in
 * digits of either case, the domain of up to eight of them, or left out, which
 * is domain 0. A store whose node is this one loads and creates tensors near the
 * device, and opens the replicas that are nearest to it.
 *
 * -EINVAL: that is no such address; -ENOENT: there is no such device, or none
 * that this process may see; -ENODATA: the kernel does not know its node, as on
 * most machines that have one. Any thread.
 */
TARN_PUBLIC int tarn_node_of_pci(const char *address, int *ret_node)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

#ifdef __cplusplus
}
#endif
