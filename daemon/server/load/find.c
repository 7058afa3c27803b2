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
 * A load that is under way may have read bytes that changed since. So it is
 * joined where equal stamps prove equal bytes, as for a file that is kept. Where
 * they do not, a load of the same user is joined in two cases, for as long as it
 * is under way: both have the file open all that time, the server included, so
 * equal identities are one file (base/identity.h).
 * - It has read nothing: it waits for memory. All that it reads is read after
 *   the other load was asked for, as if that read by itself: what any writer has
 *   written before that is in it, and what comes later may be, in both cases.
 *   The loader compares the header that it reads with the one that both clients
 *   have parsed.
 * - The file lies in an image, and has no writer while it is open.
 * Beyond that a writer may come between the first read of the one load and the
 * request of the other, whose client may know that it did: it reads the file by
 * itself.
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
	       cache_find(load->domain, &like, ret) &&
	       lane_fits(&load->domain->pool, load->place,
		       load->domain->table.storages[*ret].alloc_offset);
}

static bool is_proved(const struct load *load)
{
	return load->identity.not_kept == NOT_KEPT_KEPT;
}

/* The file is the same. */
static bool may_share(const struct load *load, const struct load *with)
{
	const struct file_identity *file = &load->identity.file;

	if (is_proved(load) && is_proved(with))
		return !load->share.apart || with->user == load->user;
	return with->user == load->user && identity_is_one_file(file) &&
	       (with->state == LOAD_WAITING || identity_is_fixed(file));
}

struct load *load_find_running(const struct load *load)
{
	struct load *l;

	if (load->fresh)
		return NULL;
	for (l = load->domain->loading.loads; l; l = l->next)
		if (l != load && l->state != LOAD_DROPPING && !l->copy.is &&
			(l->bytes.size || l->state == LOAD_WAITING) &&
			(!(load->place & PLACE_TOLD) ||
				l->place == load->place) &&
			same_ranges(l, load) && same_header(l, load) &&
			load_same_file(&l->identity, &load->identity) &&
			may_share(load, l))
			return l;
	return NULL;
}
