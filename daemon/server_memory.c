/* SPDX-License-Identifier: MIT */
/*
 * Memory of a pool, for whoever fills it: taken where it is free, else asked
 * for, else made by evicting what nobody holds.
 */
#include "base/checked.h"
#include "base/fail.h"
#include "daemon/server.h"

#define PAGE 4096ull

int memory_ask(struct rule *rule, uint64_t size)
{
	int r;

	/* New memory joins what is free at the pool's end. */
	rule->asked = (struct msg_grow) {
		.rule = rule->number,
		.whole = size,
		.own = own_memory(rule->server),
		.bytes = size - MIN(size - PAGE, alloc_tail(rule->alloc)),
	};
	r = server_tell_keeper(rule->server, D_GROW, &rule->asked,
		sizeof(rule->asked), NULL, 0);
	rule->growing = r == 0;
	return r;
}

int memory_take(struct rule *rule, uint64_t size, bool may_grow,
	bool *ret_asked, uint64_t *ret_offset)
{
	int r;

	while (alloc_take(rule->alloc, size, ret_offset) < 0) {
		/* What this turn let go of, before more is asked for. */
		if (reap(rule))
			continue;
		if (may_grow && rule->growing)
			return 0;
		if (may_grow) {
			r = memory_ask(rule, size);
			*ret_asked = r == 0;
			return r;
		}
		/* What cannot fit shall not cost others their cache. */
		if (size > alloc_total(rule->alloc) || !cache_evict_one(rule))
			return -ENOSPC;
	}
	return 1;
}
