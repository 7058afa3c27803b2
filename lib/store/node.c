/* SPDX-License-Identifier: MIT */
/*
 * The node of a tensor's memory.
 *
 * The daemon has looked up every page of its segments, and the table says what
 * it found, so a pool's memory costs no system call. The kernel is asked for
 * memory that one storage alone has.
 */
#include <tarn/node.h>

#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/memory_policy.h"
#include "base/pci_node.h"
#include "lib/store/node.h"
#include "lib/store/own_place.h"
#include "lib/store/store.h"
#include "lib/tensor/tensor.h"

/* Evenly spread over the tensor; a second one follows each, since pages that
 * are dealt out in turn differ from their neighbours. */
#define SAMPLES 64u

static int not_known(const char *why)
{
	return tarn_fail(ENODATA, "node: it is not known: %s", why);
}

/* ---- in a pool --------------------------------------------------------- */

/* The segments that it lies in agree, or it lies on several nodes. */
static uint32_t place_in_pool(
	const struct table *table, uint32_t pool, uint64_t base, uint64_t size)
{
	/* Pairs with the release store of n_segments in table_add_segment. */
	uint32_t n = atomic_load_explicit(
		&table->header->n_segments, memory_order_acquire);
	uint32_t place = PLACE_UNKNOWN;
	struct segment_shown s;
	bool any = false;

	for (uint32_t i = 0; i < MIN(n, TABLE_SEGMENTS_MAX); i++) {
		if (!table_segment_get(table, i, &s) || s.pool != pool ||
			s.offset >= base + size || base >= s.offset + s.size)
			continue;
		if (any && s.place != place)
			return place && s.place ? PLACE_SPREAD : PLACE_UNKNOWN;
		place = s.place;
		any = true;
	}
	return place;
}

int store_place_node(const struct table *table, uint32_t pool, uint64_t base,
	uint64_t size, int *ret_node)
{
	uint32_t place = place_in_pool(table, pool, base, size);

	if (place == PLACE_UNKNOWN)
		return -ENODATA;
	*ret_node = place == PLACE_SPREAD ? TARN_NODE_SEVERAL
					  : (int)(place - PLACE_NODES);
	return 0;
}

static int node_in_pool(const struct shared_storage *shared, uint64_t offset,
	uint64_t size, int *ret)
{
	int r = store_place_node(&shared->store->table, shared->pool,
		shared->base + offset, size, ret);

	return r < 0 ? not_known("the daemon did not look its memory up") : 0;
}

/* ---- elsewhere --------------------------------------------------------- */

static int look_up(const unsigned char *at, int *node)
{
	int r = memory_node(at);

	if (r < 0)
		return not_known(tarn_errno_text(-r));
	if (*node != r)
		*node = *node == -2 ? r : TARN_NODE_SEVERAL;
	return 0;
}

static int node_of_memory(const unsigned char *data, uint64_t size, int *ret)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), pages;
	int node = -2, r = 0; /* -2: none was looked up */

	size += (uintptr_t)data % page;
	data -= (uintptr_t)data % page;
	pages = (size + page - 1) / page;
	for (uint64_t i = 0; i < SAMPLES && r >= 0; i++) {
		uint64_t n = i * pages / SAMPLES;

		if (node == TARN_NODE_SEVERAL ||
			(i && n == (i - 1) * pages / SAMPLES))
			continue;
		r = look_up(data + n * page, &node);
		if (r >= 0 && n + 1 < pages)
			r = look_up(data + (n + 1) * page, &node);
	}
	if (r >= 0)
		*ret = node;
	return r;
}

/* ---- the face ---------------------------------------------------------- */

int tarn_tensor_node(const tarn_tensor *tensor, int *ret_node)
{
	const tarn_storage *storage = tensor->storage;
	const struct shared_storage *shared = store_storage_of(storage);
	void *at;
	uint64_t n;

	if (!storage_by_address(storage))
		return tarn_fail(ENOTSUP,
			"node: the tensor is not in memory that this process "
			"has mapped");
	tensor_reach(tensor, &at, &n);
	if (!n)
		return not_known("it has no bytes");
	if (shared && !shared->own)
		return node_in_pool(shared,
			(uint64_t)((char *)at - (char *)storage->data), n,
			ret_node);
	return node_of_memory(at, n, ret_node);
}

int tarn_store_set_node(tarn_store *store, int node)
{
	if (node < -1 || node >= (int)NODES_MAX)
		return tarn_fail(EINVAL, "node: %d is none; -1 or 0 to %u are",
			node, NODES_MAX - 1);
	/* Relaxed: a number by itself. */
	atomic_store_explicit(&store->node, node + 1, memory_order_relaxed);
	return 0;
}

int tarn_store_node(const tarn_store *store)
{
	/* Relaxed: a number by itself. */
	return atomic_load_explicit(&store->node, memory_order_relaxed) - 1;
}

int tarn_node_of_pci(const char *address, int *ret_node)
{
	return pci_node("", address, ret_node);
}
