/* SPDX-License-Identifier: MIT */
/*
 * The names of a load, published when its bytes are there. The completion of
 * the load is written with them, so a load that is sent again after its server
 * died is either answered from there, or was not done and is loaded again.
 */
#include "daemon/server/load/internal.h"

bool load_was_done(const struct load *load, struct msg_loaded *ret)
{
	struct completed storage;

	if (!completion_take(load->client, load->serial, &storage))
		return false;
	*ret = (struct msg_loaded) {
		.index = storage.index,
		.pool = storage.pool,
		.generation = storage.generation,
		.base = storage.base,
		.size = storage.size,
		.flags = LOADED_CACHED,
	};
	return true;
}

static int write_completion(
	const struct load *load, uint32_t index, uint64_t generation)
{
	const struct table_storage *entry =
		&load->domain->table.storages[index];
	struct completed storage = {
		.index = index,
		.pool = entry->pool,
		.generation = generation,
		.base = entry->base,
		.size = entry->size,
	};

	return completion_write(load->client, load->serial, &storage);
}

/* All names of the load, at once or not at all. */
int load_publish(struct load *load, uint32_t index, uint64_t generation)
{
	struct domain *domain = load->domain;
	uint32_t uid = load->user->spec.uid;
	const unsigned char *at = load->names.at;
	int r;

	if (load->names.n == 0)
		return 0;
	r = names_check_channels(domain, &load->names);
	if (r == 0)
		r = names_check_quota(domain, &load->names, uid);
	if (r < 0)
		return r;
	r = table_begin(domain->writer);
	if (r == 0)
		table_stamp(domain->writer, 0, uid);
	for (uint32_t i = 0; i < load->names.n && r == 0; i++) {
		struct tarn_descriptor d;
		struct named named;

		r = name_next(&load->names, &at, &named);
		if (r == 0) {
			name_describe(domain, index, generation, &named, &d);
			r = table_put(domain->writer, named.name,
				named.name_size, &d, NULL);
		}
	}
	if (r == 0)
		r = write_completion(load, index, generation);
	if (r < 0) {
		table_abort(domain->writer);
		return r;
	}
	/* Counted first: what is displaced may be this very storage. */
	storage_name(domain, index, load->names.n, uid);
	storage_commit(load->client);
	return 0;
}
