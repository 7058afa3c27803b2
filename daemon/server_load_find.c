/* SPDX-License-Identifier: MIT */
/*
 * Whose bytes a load can have: those of a file that is kept, or of a load
 * that is under way. A file is the same when all its stamps are; one so young
 * that it may change under the same stamps is never anybody else's.
 */
#include "daemon/server_load_impl.h"

#include <string.h>

bool load_same_file(const struct msg_identity *a, const struct msg_identity *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       a->mtime == b->mtime && a->ctime == b->ctime;
}

static bool same_ranges(const struct load *a, const struct load *b)
{
	return a->n_ranges == b->n_ranges &&
	       !memcmp(a->ranges, b->ranges, a->n_ranges * sizeof(*a->ranges));
}

/* The cache is of loads of one range, which is what files have. */
bool load_find_cached(const struct load *load, uint32_t *ret)
{
	return load->n_ranges == 1 &&
	       cache_find(load->rule, &load->identity,
		       load->ranges[0].file_offset, load->size, ret);
}

struct load *load_find_running(const struct load *load)
{
	struct load *l;

	for (l = load->rule->loads; l; l = l->next)
		if (l != load && l->state != LOAD_DROPPING &&
			(l->alloc_size || l->state == LOAD_WAITING) &&
			!l->identity.young && same_ranges(l, load) &&
			load_same_file(&l->identity, &load->identity))
			return l;
	return NULL;
}
