/* SPDX-License-Identifier: MIT */
/* Lists the mapped segments, for libraries that register memory. */
#include <tarn/segments.h>

#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/store/node.h"
#include "lib/store/store.h"

static struct tarn_segment segment_of(
	const struct table *table, const struct segment_mapping *m)
{
	struct tarn_segment s = {.address = m->pool->addr + m->offset,
		.size = m->end - m->offset,
		.page_size = m->pool->page_size,
		.number = m->number,
		.serial = m->serial};
	int node;

	s.node = store_place_node(
			 table, m->pool->id, m->offset, s.size, &node) < 0
			 ? TARN_NODE_UNKNOWN
			 : node;
	return s;
}

/* A copy, since fn may take its time, and look tensors up. */
static int copy_segments(
	struct pool_map *map, struct tarn_segment **ret, uint32_t *ret_n)
{
	struct tarn_segment *all;

	pthread_mutex_lock(&map->lock);
	all = calloc(MAX(map->n_mappings, 1u), sizeof(*all));
	*ret_n = all ? map->n_mappings : 0;
	for (uint32_t i = 0; i < *ret_n; i++)
		all[i] = segment_of(map->table, &map->mappings[i]);
	pthread_mutex_unlock(&map->lock);
	*ret = all;
	return all ? 0
		   : tarn_fail(ENOMEM, "segments: no memory for their list");
}

int tarn_store_segments(tarn_store *store,
	int (*fn)(void *arg, const struct tarn_segment *segment), void *arg)
{
	struct tarn_segment *all = NULL;
	uint32_t n;
	int r = connection_ready(&store->connection);

	if (r >= 0)
		r = pool_map_update(&store->pools);
	if (r >= 0)
		r = copy_segments(&store->pools, &all, &n);
	for (uint32_t i = 0; r == 0 && i < n; i++)
		r = fn(arg, &all[i]);
	free(all);
	return r;
}
