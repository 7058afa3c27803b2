/* SPDX-License-Identifier: MIT */
/*
 * The server's queries about a name's versions: which user has published it,
 * and what a commit has written there.
 */
#include "base/fail.h"
#include "shm/table_writer_internal.h"

/* NULL: there is no such name. */
static const struct name_record *record_find(
	const struct table *table, const char *name, size_t name_size)
{
	uint64_t hash = name_hash(name, name_size, table->hash_seed), offset;
	uint32_t hops;

	offset = chain_find(table, name, name_size, hash, &hops);
	return offset ? record_of(table, offset) : NULL;
}

int table_find_written(const struct table *table, const char *name,
	size_t name_size, uint64_t commit, struct tarn_descriptor *ret,
	uint64_t *ret_version)
{
	const struct name_record *record = record_find(table, name, name_size);

	for (int i = 0; i < 2 && record; i++) {
		const struct name_version *v = &record->versions[i];

		if (commit_of(record, i) != commit || v->flags & NAME_REMOVED)
			continue;
		*ret = v->descriptor;
		*ret_version = v->version;
		return 0;
	}
	return -ENOENT;
}

int table_standing(const struct table *table, const char *name,
	size_t name_size, struct table_standing *ret)
{
	const struct name_record *record = record_find(table, name, name_size);
	uint64_t commit;
	int i;

	if (!record)
		return -ENOENT;
	i = version_pick(record, committed_of(table), &commit);
	if (i < 0 || record->versions[i].flags & NAME_REMOVED)
		return -ENOENT;
	*ret = (struct table_standing) {
		.descriptor = record->versions[i].descriptor,
		.uid = publisher_of(&record->versions[i]),
		.expires = record->versions[i].expires,
	};
	return 0;
}
