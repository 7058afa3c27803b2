/* SPDX-License-Identifier: MIT */
/*
 * The names of a load, published when its bytes are there; and only once.
 *
 * A client whose server died asks again for what was not answered. Each name
 * carries the token of the load that published it, so one that was done is
 * found in the table and answered from there. Where others have published all
 * of its names twice since, or removed them, it is done again: unlike a
 * publication's, its bytes are the file's and can be had again.
 */
#include "daemon/server_load_impl.h"

#include "base/fail.h"

/* All names of the load, at once or not at all. */
int load_publish(struct load *load, uint32_t index, uint64_t generation)
{
	struct rule *rule = load->rule;
	uint32_t uid = load->home->spec.uid;
	const unsigned char *at = load->names.at;
	int r = 0;

	if (load->names.n == 0)
		return 0;
	r = names_check_channels(rule, &load->names);
	if (r == 0)
		r = quota_check_names(rule, uid, &load->names);
	if (r < 0)
		return r;
	r = table_begin(rule->writer);
	if (r == 0)
		table_stamp(rule->writer, load->token, 0, uid);
	for (uint32_t i = 0; i < load->names.n && r == 0; i++) {
		struct tarn_descriptor d;
		struct named named;

		r = name_next(&load->names, &at, &named);
		if (r == 0) {
			name_describe(rule, index, generation, &named, &d);
			r = table_put(rule->writer, named.name, named.name_size,
				&d, NULL);
		}
	}
	if (r < 0) {
		table_abort(rule->writer);
		return r;
	}
	/* Counted first: what is displaced may be this very storage. */
	storage_name(rule, index, load->names.n, uid);
	table_commit(rule->writer, storage_displaced, rule);
	return 0;
}

bool load_was_done(const struct load *load, struct msg_loaded *ret)
{
	const unsigned char *at = load->names.at;

	for (uint32_t i = 0; i < load->names.n; i++) {
		struct tarn_descriptor d;
		struct named named;
		uint64_t version;

		if (name_next(&load->names, &at, &named) < 0)
			break;
		if (table_find_token(&load->rule->table, named.name,
			    named.name_size, load->token, &d, &version) < 0)
			continue;
		*ret = (struct msg_loaded) {
			.index = d.storage,
			.pool = d.pool,
			.generation = d.generation,
			.base = d.base - named.base,
			.size = d.size,
			.flags = LOADED_CACHED,
		};
		return true;
	}
	return false;
}
