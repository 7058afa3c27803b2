/* SPDX-License-Identifier: MIT */
/*
 * What a publication is answered, by the server that has done it or by one
 * after it: the token that each version carries tells that one that this
 * request was done.
 */
#include <stdlib.h>

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

bool publish_was_done(struct publish *p)
{
	const unsigned char *at = p->names.at;
	struct publish_answer answer;
	bool done = false;

	if (publish_answer_new(p, &answer) < 0)
		return false;
	for (uint32_t i = 0; i < p->names.n; i++) {
		struct tarn_descriptor d;
		struct named named;

		if (name_next(&p->names, &at, &named) < 0 ||
			table_find_token(&p->rule->table, named.name,
				named.name_size, p->token, &d,
				&answer.versions[i]) < 0)
			continue;
		done = true;
		answer.stored[named.source] = stored_of(&d, named.base);
	}
	if (done)
		publish_send_answer(p, &answer);
	free(answer.head);
	return done;
}
