/* SPDX-License-Identifier: MIT */
/*
 * Whose is what stands, and was a request done? Each version carries the token
 * of the request that wrote it, so a server that took over can tell, as long as
 * the version is one of the two that a name keeps. Where it is not, whoever has
 * written the name since may have displaced it.
 */
#include <string.h>

#include "base/fail.h"
#include "shm/table_writer.h"

int table_find_token(const struct table *table, const char *name,
	size_t name_size, uint64_t token, struct tarn_descriptor *ret,
	uint64_t *ret_version)
{
	uint64_t hash = name_hash(name, name_size, table->hash_seed);
	uint64_t committed = committed_of(table);
	const struct name_record *record;
	uint64_t offset;
	uint32_t hops;

	offset = token ? chain_find(table, name, name_size, hash, &hops) : 0;
	for (int i = 0; i < 2 && offset; i++) {
		const struct name_version *v;
		uint64_t commit;

		record = record_of(table, offset);
		v = &record->versions[i];
		commit = commit_of(record, i);
		if (!commit || commit > committed || v->token != token ||
			v->flags & NAME_REMOVED)
			continue;
		*ret = v->descriptor;
		*ret_version = v->version;
		return 0;
	}
	return -ENOENT;
}

int table_publisher(const struct table *table, const char *name,
	size_t name_size, struct tarn_descriptor *ret, uint32_t *ret_uid)
{
	uint64_t hash = name_hash(name, name_size, table->hash_seed), commit;
	const struct name_record *record;
	uint64_t offset;
	uint32_t hops;
	int i;

	offset = chain_find(table, name, name_size, hash, &hops);
	if (!offset)
		return -ENOENT;
	record = record_of(table, offset);
	i = version_pick(record, committed_of(table), &commit);
	if (i < 0 || record->versions[i].flags & NAME_REMOVED)
		return -ENOENT;
	*ret = record->versions[i].descriptor;
	*ret_uid = publisher_of(&record->versions[i]);
	return 0;
}

bool table_written_since(const struct table *table, const char *name,
	size_t name_size, uint64_t since)
{
	uint64_t hash = name_hash(name, name_size, table->hash_seed), commit;
	const struct name_record *record;
	uint64_t offset;
	uint32_t hops;

	offset = chain_find(table, name, name_size, hash, &hops);
	if (!offset)
		return atomic_load_explicit(&table->header->removed,
			       memory_order_relaxed) >= since;
	record = record_of(table, offset);
	version_pick(record, committed_of(table), &commit);
	return commit >= since;
}
