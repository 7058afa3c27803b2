/* SPDX-License-Identifier: MIT */
/*
 * The names of a load, published when its bytes are there; and only once.
 *
 * A client whose server died asks again for what was not answered. Each name
 * carries the token of the load that published it, so one that was done is
 * found in the table and answered from there. Where others have published all
 * of its names twice since, nobody can tell: it is refused as a publication
 * is, unless what stands is what it would publish, as when many load the same
 * file under the same names. What others have removed since is published
 * again: a load takes so long that something is removed meanwhile, and unlike
 * a publication's, its bytes are the file's and can be had again. But it is in
 * doubt then, too: others may come while they are read.
 */
#include "daemon/server_load_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"

/* ---- asked again ------------------------------------------------------- */

/* Was it published or removed after it was first asked? */
static bool touched_since(const struct load *load, const struct named *named)
{
	return load->since &&
	       table_written_since(&load->rule->table, named->name,
		       named->name_size, load->since);
}

/* Does something stand there that came after it was first asked? */
static bool came_since(const struct load *load, const struct named *named,
	struct tarn_descriptor *ret)
{
	uint64_t version;

	return table_lookup(&load->rule->table, named->name, named->name_size,
		       ret, &version) == 0 &&
	       touched_since(load, named);
}

/* Of a file, and laid out as it would be: all that one can say before one knows
 * which file it is. */
static bool may_be_ours(const struct load *load, const struct named *named,
	const struct tarn_descriptor *d)
{
	const struct tarn_layout *l = &named->layout;
	struct table_storage entry;

	return table_storage_get(&load->rule->table, d->storage, d->generation,
		       &entry) == 0 &&
	       !(entry.flags & STORAGE_CREATED) &&
	       d->pool == load->rule->number && d->size == load->size &&
	       d->dtype == l->dtype && d->ndim == l->ndim &&
	       d->offset == l->offset &&
	       !memcmp(d->shape, l->shape, sizeof(d->shape)) &&
	       !memcmp(d->stride, l->stride, sizeof(d->stride));
}

/* Where there are no bytes it is the same wherever it lies. */
static bool is_ours(const struct load *load, uint32_t index,
	uint64_t generation, const struct named *named,
	const struct tarn_descriptor *d)
{
	struct tarn_descriptor ours;

	if (load->size == 0)
		return may_be_ours(load, named, d);
	name_describe(load->rule, index, generation, named, &ours);
	return !memcmp(&ours, d, sizeof(ours));
}

static int fail_doubt(const struct named *named, const char *but)
{
	return tarn_fail(EIO,
		"\"%.*s\" was published by others while the daemon's server "
		"was replaced: nobody can tell whether this load was done%s; "
		"look at it, and load again if not",
		(int)named->name_size, named->name, but);
}

int load_check_doubt(struct load *load)
{
	const unsigned char *at = load->names.at;
	struct tarn_descriptor d;
	struct named named;
	int r = 0;

	for (uint32_t i = 0; i < load->names.n && r == 0; i++) {
		r = name_next(&load->names, &at, &named);
		if (r < 0 || !touched_since(load, &named))
			continue;
		load->doubt = true;
		if (came_since(load, &named, &d) &&
			!may_be_ours(load, &named, &d))
			r = fail_doubt(&named, "");
	}
	return r;
}

int load_fail_in_doubt(const struct load *load, int error)
{
	const unsigned char *at = load->names.at;
	struct tarn_descriptor d;
	struct named named;
	char but[512];

	if (!load->doubt || error == EIO || error == -EIO)
		return error;
	for (uint32_t i = 0; i < load->names.n; i++) {
		if (name_next(&load->names, &at, &named) < 0 ||
			!came_since(load, &named, &d))
			continue;
		snprintf(but, sizeof(but),
			", nor can what stands be compared with its file now: "
			"%s",
			tarn_fail_message());
		return fail_doubt(&named, but);
	}
	return error;
}

/* Now that it is known what it would publish. */
static int settle_doubt(
	const struct load *load, uint32_t index, uint64_t generation)
{
	const unsigned char *at = load->names.at;
	struct tarn_descriptor d;
	struct named named;

	for (uint32_t i = 0; i < load->names.n; i++)
		if (name_next(&load->names, &at, &named) == 0 &&
			came_since(load, &named, &d) &&
			!is_ours(load, index, generation, &named, &d))
			return fail_doubt(&named, "");
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

/* ---- the names ---------------------------------------------------------- */

/* All names of the load, at once or not at all. */
int load_publish(struct load *load, uint32_t index, uint64_t generation)
{
	struct rule *rule = load->rule;
	uint32_t uid = load->home->spec.uid;
	const unsigned char *at = load->names.at;
	int r = 0;

	if (load->names.n == 0)
		return 0;
	if (load->doubt)
		r = settle_doubt(load, index, generation);
	if (r == 0)
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
