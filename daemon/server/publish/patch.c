/* SPDX-License-Identifier: MIT */
/*
 * Sources that are patches: a sealed memfd with some pages of a storage that is
 * there already.
 *
 * What the memfd says of its pages is not read here: readers check it, for whom
 * it can be wrong only about the bytes of the tensor that its publisher makes.
 * What the server makes sure of is that the storage below stays, and that a
 * reader has not to go through more patches than it is told to expect.
 */
#include <sys/stat.h>

#include "base/fail.h"
#include "base/page.h"
#include "daemon/server/publish/internal.h"

int publish_check_patch(struct source *s, uint32_t i)
{
	struct stat st;

	/* A client that knows no patches takes none for the whole. */
	if (fstat(s->fd, &st) < 0 || !S_ISREG(st.st_mode) || !st.st_size ||
		(uint64_t)st.st_size % PAGE ||
		(uint64_t)st.st_size >= s->size ||
		(uint64_t)st.st_size / PAGE > UINT32_MAX)
		return tarn_fail(EINVAL,
			"publish: source %u is a patch of %lld bytes over "
			"%llu; whole pages are wanted, of fewer bytes",
			i, (long long)st.st_size, (unsigned long long)s->size);
	s->own_size = (uint64_t)st.st_size;
	s->of = s->index;
	s->of_generation = s->generation;
	return 0;
}

void publish_describe_patch(const struct source *s, struct table_storage *entry)
{
	entry->flags |= STORAGE_PATCH;
	entry->of = s->of;
	entry->of_generation = s->of_generation;
	entry->own_pages = (uint32_t)(s->own_size / PAGE);
}

int publish_check_base(const struct publish *p, const struct source *s)
{
	const uint32_t bad = STORAGE_MUTABLE | STORAGE_DEVICE | STORAGE_REPLICA;
	const struct domain *domain = p->domain;
	bool held = false;
	int r;

	client_find_held(p->client, &s->of, &s->of_generation, 1, &held);
	r = publish_check_existing(p, s->of, s->of_generation, s->size, held);
	if (r < 0)
		return r;
	if (domain->table.storages[s->of].flags & bad)
		return tarn_fail(EINVAL,
			"publish: storage %u cannot have a patch: it is mutable, "
			"or a device's, or a replica (flags %#x)",
			s->of, domain->table.storages[s->of].flags);
	if (patches_below(domain, s->of) >= TABLE_PATCHES_MAX)
		return tarn_fail(E2BIG,
			"publish: storage %u is the %uth patch over another; "
			"publish the tensor whole",
			s->of, TABLE_PATCHES_MAX);
	return 0;
}
