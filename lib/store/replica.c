/* SPDX-License-Identifier: MIT */
/*
 * The nearest replica. A storage without replicas costs one load of a word that
 * is in the cache already; with them, some tens of nanoseconds more.
 */
#include "lib/store/replica.h"

#include <errno.h>
#include <pthread.h>

#include <tarn/node.h>

#include "base/nodes.h"
#include "lib/store/node.h"

/* Distances do not change while the machine runs. */
static struct nodes machine;
static pthread_once_t machine_once = PTHREAD_ONCE_INIT;

static void read_machine(void)
{
	nodes_read("", &machine);
}

/* Of two nodes; -1: it is not known. */
static int distance(int from, int to)
{
	if (from < 0 || to < 0 || from >= (int)NODES_MAX ||
		to >= (int)NODES_MAX)
		return -1;
	pthread_once(&machine_once, read_machine);
	return machine.distance[from][to] ? machine.distance[from][to] : -1;
}

static bool is_nearer(int here, int node, int than)
{
	int a = distance(here, node), b = distance(here, than);

	if (node == here || than == here)
		return than != here;
	return a > 0 && b > 0 && a < b;
}

/* -1: it is not known. */
static int node_of(const tarn_store *store, const struct table_storage *entry)
{
	int node = -1;

	if (entry->flags & STORAGE_OWN ||
		store_place_node(&store->table, entry->pool, entry->base,
			entry->size, &node) < 0)
		return -1;
	return node;
}

/* The nearest of n; -1: the storage itself is no farther. */
static int choose(
	int here, int home, const struct table_replica *replicas, uint32_t n)
{
	int best = -1, at = home;

	for (uint32_t i = 0; i < n; i++)
		if (is_nearer(here, (int)replicas[i].node, at)) {
			best = (int)i;
			at = (int)replicas[i].node;
		}
	return best;
}

static int take(tarn_store *store, const struct table_replica *replica,
	uint32_t of, uint64_t generation, uint64_t size, tarn_storage **ret)
{
	struct table_storage entry;
	tarn_storage *storage;
	int r = store_storage(
		store, replica->index, replica->generation, &entry, &storage);

	if (r < 0)
		return r;
	/* The lease is held: this cannot change any more. */
	if (!table_is_replica(&entry, of, generation) || entry.size != size) {
		tarn_storage_unref(storage);
		return -ESTALE;
	}
	*ret = storage;
	return 0;
}

void replica_prefer(tarn_store *store, uint32_t index, uint64_t generation,
	const struct table_storage *entry, tarn_storage **storage)
{
	struct table_replica replicas[TABLE_REPLICAS_MAX];
	int here = tarn_store_node(store), best;
	tarn_storage *nearer;
	uint32_t n;

	/* A name may lead to a replica: then to its like, too. Relaxed: a hint;
	 * table_replicas reads it again. */
	if (entry->flags & STORAGE_REPLICA) {
		index = entry->of;
		generation = entry->of_generation;
	} else if (!atomic_load_explicit(
			   &entry->replica, memory_order_relaxed)) {
		return;
	}
	if (here < 0)
		here = node_here();
	n = here < 0 ? 0
		     : table_replicas(
			       &store->table, index, generation, replicas);
	best = n ? choose(here, node_of(store, entry), replicas, n) : -1;
	/* One that cannot be had is as good as none. */
	if (best < 0 || take(store, &replicas[best], index, generation,
				entry->size, &nearer) < 0)
		return;
	tarn_storage_unref(*storage);
	*storage = nearer;
}
