/* SPDX-License-Identifier: MIT */
/*
 * Segments of before an upgrade: read, never written, given back when empty.
 *
 * A process that has a sealed segment mapped writable keeps the mapping as long
 * as it lives, and no process can make such a mapping again. So a keeper that
 * was replaced by exec() has lost the right to write, and with it all processes
 * forked from now on. The contents stay valid; nothing new is put there. A
 * separate allocator counts what is left, so that an empty segment can be given
 * back.
 */
#include "base/checked.h"
#include "base/fail.h"
#include "daemon/loop/log.h"
#include "daemon/server/server.h"

bool segment_is_old(const struct segment *segment)
{
	return !segment->mapped.addr && segment->mapped.size;
}

uint64_t memory_total(const struct pool *pool)
{
	return lanes_total(pool) + alloc_total(pool->old_alloc);
}

uint64_t memory_used(const struct pool *pool)
{
	return lanes_used(pool) + alloc_used(pool->old_alloc);
}

/* It lies in segments of one kind: new ones came after what is old was
 * full of what it has. */
int memory_retake(struct domain *domain, uint32_t index)
{
	const struct table_storage *entry = &domain->table.storages[index];
	struct alloc *alloc;

	if (!entry->alloc_size)
		return 0;
	if (alloc_total(domain->pool.old_alloc) &&
		alloc_take_at(domain->pool.old_alloc, entry->alloc_offset,
			entry->alloc_size) == 0) {
		domain->storages.infos[index].in_old_segment = true;
		return 0;
	}
	alloc = lane_alloc_at(&domain->pool, entry->alloc_offset);
	if (!alloc)
		return tarn_fail(EBUSY,
			"storage %u is at byte %llu of a pool without memory "
			"there",
			index, (unsigned long long)entry->alloc_offset);
	return alloc_take_at(alloc, entry->alloc_offset, entry->alloc_size);
}

void memory_give(struct domain *domain, uint32_t index)
{
	const struct table_storage *entry = &domain->table.storages[index];

	alloc_give(domain->storages.infos[index].in_old_segment
			   ? domain->pool.old_alloc
			   : lane_alloc_at(&domain->pool, entry->alloc_offset),
		entry->alloc_offset, entry->alloc_size);
	domain->storages.infos[index].in_old_segment = false;
}

static bool is_empty(const struct domain *domain, const struct segment *segment)
{
	return segment->state == SEGMENT_HERE && segment_is_old(segment) &&
	       alloc_is_free(domain->pool.old_alloc, segment->mapped.offset,
		       segment->mapped.size);
}

uint64_t old_segments_trim(struct domain *domain)
{
	uint64_t used = alloc_used(domain->pool.old_alloc), given = 0;
	bool stays = false;

	if (!domain->server->serving || !alloc_total(domain->pool.old_alloc) ||
		used == domain->pool.old_used)
		return 0;
	for (uint32_t i = 0; i < domain->pool.n_segments; i++) {
		struct segment *segment = &domain->pool.segments[i];

		if (!is_empty(domain, segment))
			continue;
		if (segment_leave(domain, segment))
			given += segment->mapped.size;
		else
			stays = true; /* a loader hangs: once more */
	}
	domain->pool.old_used = stays ? UINT64_MAX : used;
	if (given) {
		log_info("trim_old_segments", log_u64("domain", domain->number),
			log_u64("bytes", given), log_u64("used", used));
		segments_finish(domain);
	}
	return given;
}
