/* SPDX-License-Identifier: MIT */
/*
 * The names of a load, published when its bytes are there. The completion of
 * the load is written with them, so a load that is sent again after its server
 * died is either answered from there, or was not done and is loaded again.
 */
#include "base/checked.h"
#include "base/fail.h"
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

/* ---- names that move ---------------------------------------------------- */

/* Of those that lead where they led, calls fn for each; how many, or its
 * error. */
static int64_t each_standing(const struct load *load,
	int (*fn)(const struct load *load, const struct named *named,
		const struct table_standing *is, uint32_t index,
		uint64_t generation),
	uint32_t index, uint64_t generation)
{
	const struct table *table = &load->domain->table;
	const unsigned char *at = load->names.at;
	int64_t n = 0;
	int r = 0;

	for (uint32_t i = 0; i < load->names.n && r == 0; i++) {
		struct table_standing is;
		struct named named;

		r = name_next(&load->names, &at, &named);
		if (r < 0 ||
			table_standing(
				table, named.name, named.name_size, &is) < 0 ||
			is.descriptor.storage != load->copy.index ||
			is.descriptor.generation != load->copy.generation)
			continue;
		r = fn(load, &named, &is, index, generation);
		n++;
	}
	return r < 0 ? r : n;
}

/* As it stands, whatever the request says of it, but for the place; with the
 * time at which it ends, and with its publisher. */
static int put_moved(const struct load *load, const struct named *named,
	const struct table_standing *is, uint32_t index, uint64_t generation)
{
	const struct table_storage *entries = load->domain->table.storages;
	struct table_writer *writer = load->domain->writer;
	struct tarn_descriptor d = is->descriptor;

	d.pool = entries[index].pool;
	d.storage = index;
	d.generation = generation;
	d.base = entries[index].base +
		 (is->descriptor.base - entries[load->copy.index].base);
	table_stamp(writer, is->expires, is->uid);
	return table_put(writer, named->name, named->name_size, &d, NULL);
}

static int count_moved(const struct load *load, const struct named *named,
	const struct table_standing *is, uint32_t index, uint64_t generation)
{
	(void)named;
	(void)generation;
	storage_name(load->domain, index, 1, is->uid);
	return 0;
}

static int move_names(struct load *load, uint32_t index, uint64_t generation)
{
	struct table_writer *writer = load->domain->writer;
	int64_t n = table_begin(writer);

	if (n == 0)
		n = each_standing(load, put_moved, index, generation);
	if (n == 0)
		n = tarn_fail(ESTALE,
			"copy: all names of the tensor were removed or "
			"replaced meanwhile");
	if (n > 0)
		n = MIN(write_completion(load, index, generation), 0);
	if (n < 0) {
		table_abort(writer);
		return (int)n;
	}
	/* They stand until the commit. */
	each_standing(load, count_moved, index, generation);
	storage_commit(load->client);
	return 0;
}

/* ---- the names of a file ------------------------------------------------- */

/* All names of the load, at once or not at all. */
int load_publish(struct load *load, uint32_t index, uint64_t generation)
{
	struct domain *domain = load->domain;
	uint32_t uid = load->user->spec.uid;
	const unsigned char *at = load->names.at;
	int r;

	if (load->names.n == 0)
		return 0;
	if (load->copy.moves)
		return move_names(load, index, generation);
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
