/* SPDX-License-Identifier: MIT */
/*
 * Segments of before an upgrade: read, never written, given back when empty.
 *
 * The idea: whoever has a sealed segment mapped writable keeps that as long as
 * he lives, and nobody can map it so again. So a keeper that was replaced by
 * exec() has lost the right to write, and with it all who are forked from now
 * on. What lies there is as good as ever; nothing is put there any more. An
 * allocator of its own counts what is left, so that a segment in which nothing
 * is left can go.
 *
 * A client of protocol 1 cannot follow to the next control region, so the last
 * release of what it holds goes unheard; now and then somebody has to look.
 */
#include "base/checked.h"
#include "base/fail.h"
#include "daemon/log.h"
#include "daemon/server.h"

#define SWEEP_NS 1000000000ull /* picked: a pass over lease pages a second */

bool segment_is_frozen(const struct segment *segment)
{
	return !segment->mapped.addr && segment->mapped.size;
}

uint64_t memory_total(const struct rule *rule)
{
	return alloc_total(rule->alloc) + alloc_total(rule->frozen);
}

uint64_t memory_used(const struct rule *rule)
{
	return alloc_used(rule->alloc) + alloc_used(rule->frozen);
}

/* It lies in segments of one kind: new ones came after what is frozen was
 * full of what it has. */
int memory_retake(struct rule *rule, uint32_t index)
{
	const struct table_storage *entry = &rule->table.storages[index];

	if (!entry->alloc_size)
		return 0;
	if (alloc_total(rule->frozen) &&
		alloc_take_at(rule->frozen, entry->alloc_offset,
			entry->alloc_size) == 0) {
		rule->infos[index].frozen = true;
		return 0;
	}
	return alloc_take_at(
		rule->alloc, entry->alloc_offset, entry->alloc_size);
}

void memory_give(struct rule *rule, uint32_t index)
{
	const struct table_storage *entry = &rule->table.storages[index];

	alloc_give(rule->infos[index].frozen ? rule->frozen : rule->alloc,
		entry->alloc_offset, entry->alloc_size);
	rule->infos[index].frozen = false;
}

static bool is_empty(const struct rule *rule, const struct segment *segment)
{
	return segment->state == SEGMENT_HERE && segment_is_frozen(segment) &&
	       alloc_is_free(rule->frozen, segment->mapped.offset,
		       segment->mapped.size);
}

uint64_t frozen_trim(struct rule *rule)
{
	uint64_t used = alloc_used(rule->frozen), given = 0;
	bool stays = false;

	if (!rule->server->serving || !alloc_total(rule->frozen) ||
		used == rule->frozen_seen)
		return 0;
	for (uint32_t i = 0; i < rule->n_segments; i++) {
		struct segment *segment = &rule->segments[i];

		if (!is_empty(rule, segment))
			continue;
		if (segment_leave(rule, segment))
			given += segment->mapped.size;
		else
			stays = true; /* a loader hangs: once more */
	}
	rule->frozen_seen = stays ? UINT64_MAX : used;
	if (given) {
		log_info("trim_frozen", log_u64("rule", rule->number),
			log_u64("bytes", given), log_u64("used", used));
		segments_settle(rule);
	}
	return given;
}

/* ---- who cannot ring --------------------------------------------------- */

uint64_t frozen_look(struct server *server, uint64_t now)
{
	bool waits = false;

	if (!server->n_left_behind)
		return 0;
	for (struct rule *rule = server->rules; rule; rule = rule->next) {
		if (now >= server->sweep_at)
			reap_unnamed(rule);
		waits |= rule->counts.kinds[KIND_UNNAMED].n ||
			 rule->counts.kinds[KIND_LET_GO].n;
	}
	if (now >= server->sweep_at)
		server->sweep_at = now + SWEEP_NS;
	return waits ? server->sweep_at : 0;
}
