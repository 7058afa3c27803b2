/* SPDX-License-Identifier: MIT */
/*
 * The answer to a publication: by the server that has done it, or by one after
 * it, from the completion (send/completion.c) and from what the names keep
 * of its commit.
 */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "daemon/server/publish/internal.h"

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
	client_reply(p->client, WIRE_OUT(WIRE_PUBLISHED, p->serial,
					answer->head, answer->size));
}

/* ---- done before ----------------------------------------------------- */

/* From a descriptor: the entry may have been reused by now. */
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

/* Of names that others have published or removed twice since nothing is known:
 * zeros. */
static void fill_from_names(
	const struct publish *p, const struct publish_answer *answer)
{
	const unsigned char *at = p->names.at;

	for (uint32_t i = 0; i < p->names.n; i++) {
		struct tarn_descriptor d;
		struct named named;

		if (name_next(&p->names, &at, &named) < 0 ||
			table_find_written(&p->domain->table, named.name,
				named.name_size, answer->head->commit, &d,
				&answer->versions[i]) < 0)
			continue;
		answer->stored[named.source] = stored_of(&d, named.base);
	}
}

int publish_answer_again(struct publish *p)
{
	uint64_t commit = completion_take(p->client, p->serial, NULL);
	struct publish_answer answer;
	int r;

	if (!commit)
		return 0;
	r = publish_answer_new(p, &answer);
	if (r < 0)
		return tarn_fail_prefix(r, "it was published; its answer: ");
	answer.head->commit = commit;
	fill_from_names(p, &answer);
	publish_send_answer(p, &answer);
	free(answer.head);
	return 1;
}
