/* SPDX-License-Identifier: MIT */
/*
 * What a publication is answered, by the server that has done it or by one
 * after it: the token that each version carries tells that one that this
 * request was done. So does what stands, if it came since and is the same.
 */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "daemon/server_publish_impl.h"

int publish_answer_new(const struct publish *p, struct publish_answer *ret)
{
	size_t size = sizeof(*ret->head) + p->n_sources * sizeof(*ret->stored) +
		      p->names.n * sizeof(*ret->versions);

	ret->head = calloc(1, size);
	if (!ret->head)
		return tarn_fail(ENOMEM, "out of memory");
	ret->head->n_sources = p->n_sources;
	ret->head->n_names = p->names.n;
	ret->stored = (struct msg_stored *)(ret->head + 1);
	ret->versions = (uint64_t *)(ret->stored + p->n_sources);
	ret->size = size;
	return 0;
}

void publish_send_answer(struct publish *p, const struct publish_answer *answer)
{
	const struct table *table = &p->rule->table;

	answer->head->commit = atomic_load_explicit(
		&table->header->committed, memory_order_relaxed);
	client_reply(p->client, WIRE_PUBLISHED, p->serial, answer->head,
		answer->size, NULL, 0);
}

/* ---- done before ----------------------------------------------------- */

/* From a descriptor: the entry may be another's by now. */
static struct msg_stored stored_of(
	const struct tarn_descriptor *d, uint64_t base)
{
	return (struct msg_stored) {
		.index = d->storage,
		.pool = d->pool,
		.generation = d->generation,
		.base = d->base - base,
		.size = d->size,
	};
}

static bool find_tokens(
	const struct publish *p, const struct publish_answer *answer)
{
	const unsigned char *at = p->names.at;
	bool done = false;

	for (uint32_t i = 0; i < p->names.n; i++) {
		struct tarn_descriptor d;
		struct named named;

		if (name_next(&p->names, &at, &named) < 0 ||
			table_find_token(&p->rule->table, named.name,
				named.name_size, p->token, &d,
				&answer->versions[i]) < 0)
			continue;
		done = true;
		answer->stored[named.source] = stored_of(&d, named.base);
	}
	return done;
}

/* Has it been published since, and is it what would be published now? */
static bool is_same(const struct publish *p, const struct named *named,
	struct tarn_descriptor *ret, uint64_t *ret_version)
{
	const struct table *table = &p->rule->table;
	const struct source *s = &p->sources[named->source];
	struct tarn_descriptor ours;

	if (s->kind != SOURCE_EXISTING ||
		table_lookup(table, named->name, named->name_size, ret,
			ret_version) < 0 ||
		!table_written_since(
			table, named->name, named->name_size, p->since) ||
		ret->storage != s->index || ret->generation != s->generation)
		return false;
	name_describe(p->rule, s->index, s->generation, named, &ours);
	return !memcmp(&ours, ret, sizeof(ours));
}

/* Many publish the same storages under the same names: those who load all
 * shards of an index. Whether it was done before others or not, it is as if it
 * had been. Not if it would have removed something, or had to be new. */
static bool find_same(
	const struct publish *p, const struct publish_answer *answer)
{
	const unsigned char *at = p->names.at;
	bool same = p->since && !p->flags;

	for (uint32_t i = 0; i < p->names.n && same; i++) {
		struct tarn_descriptor d;
		struct named named;

		same = name_next(&p->names, &at, &named) == 0 &&
		       is_same(p, &named, &d, &answer->versions[i]);
		if (same)
			answer->stored[named.source] =
				stored_of(&d, named.base);
	}
	return same;
}

bool publish_was_done(struct publish *p)
{
	struct publish_answer answer;
	bool done;

	if (publish_answer_new(p, &answer) < 0)
		return false;
	done = find_tokens(p, &answer) || find_same(p, &answer);
	if (done)
		publish_send_answer(p, &answer);
	free(answer.head);
	return done;
}
