/* SPDX-License-Identifier: MIT */
/*
 * Finds bytes that a load can share: those of a file that is kept, or of a load
 * that is under way.
 *
 * No claim of a client decides which bytes another client gets. The loader has
 * found which version of which file it is, and in it the header that the client
 * named; with these, and with the one range of the file that was read as it is
 * there, all bytes that another load would read are known. Several ranges are
 * shared only by loads of the same ranges, while they are under way, and are
 * not kept.
 *
 * A load that is under way is joined only where equal stamps prove equal bytes,
 * as for a file that is kept: it may have read bytes that changed since.
 */
#include "daemon/server/load/internal.h"

#include <string.h>

bool load_same_file(const struct msg_identity *a, const struct msg_identity *b)
{
	return identity_same(&a->file, &b->file);
}

static bool same_ranges(const struct load *a, const struct load *b)
{
	return a->n_ranges == b->n_ranges &&
	       !memcmp(a->ranges, b->ranges, a->n_ranges * sizeof(*a->ranges));
}

static bool same_header(const struct load *a, const struct load *b)
{
	return a->seen.header_size == b->seen.header_size &&
	       digest_same(&a->seen.header, &b->seen.header);
}

enum not_kept load_not_kept(const struct load *load)
{
	enum not_kept why = load->identity.not_kept;

	return why == NOT_KEPT_KEPT && load->n_ranges > 1 ? NOT_KEPT_RANGES
							  : why;
}

bool load_find_cached(const struct load *load, uint32_t *ret)
{
	struct table_storage like = {
		.size = load->size,
		.file = load->identity.file,
		.file_offset = load->ranges[0].file_offset,
		.header_size = load->seen.header_size,
		.header = load->seen.header,
	};

	return !load->fresh && load_not_kept(load) == NOT_KEPT_KEPT &&
	       cache_find(load->domain, &like, ret);
}

struct load *load_find_running(const struct load *load)
{
	struct load *l;

	if (load->fresh || load->identity.not_kept != NOT_KEPT_KEPT)
		return NULL;
	for (l = load->domain->loading.loads; l; l = l->next)
		if (l != load && l->state != LOAD_DROPPING &&
			(l->alloc_size || l->state == LOAD_WAITING) &&
			l->identity.not_kept == NOT_KEPT_KEPT &&
			(!load->apart || l->user == load->user) &&
			same_ranges(l, load) && same_header(l, load) &&
			load_same_file(&l->identity, &load->identity))
			return l;
	return NULL;
}
