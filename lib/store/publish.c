/* SPDX-License-Identifier: MIT */
/*
 * Publishing: one message, one answer, all names at once.
 *
 * The message contains everything that the daemon needs, and the daemon trusts
 * none of it; so a publication that fails, or whose publisher dies, leaves
 * nothing behind.
 */
#include <tarn/publish.h>

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "lib/reserved.h"
#include "lib/store/message_body.h"
#include "lib/store/publish_plan.h"

#define NS_PER_MS 1000000u
#define TTL_MAX_MS 4000000000000ll /* 126 years; in ns it still fits */

/* ---- the message ----------------------------------------------------- */

static int set_options(
	struct msg_publish *head, const struct tarn_publish_options *o)
{
	int r = RESERVED_CHECK("tarn_publish_options", o);

	if (r < 0 || !o)
		return r;
	if (o->replace) {
		head->prefix_size = (uint32_t)MIN(
			strlen(o->replace), (size_t)TARN_NAME_MAX + 1);
		head->flags |= PUBLISH_REPLACE;
	}
	if (o->exclusive)
		head->flags |= PUBLISH_NEW;
	if (o->ttl_ms < 0 || o->ttl_ms > TTL_MAX_MS)
		return tarn_fail(EINVAL,
			"publish: ttl_ms is %lld; 0 is for good, %lld the "
			"longest",
			(long long)o->ttl_ms, TTL_MAX_MS);
	head->ttl_ns = (uint64_t)o->ttl_ms * NS_PER_MS;
	return 0;
}

static void put_sources(struct message_body *b, const struct plan *plan)
{
	for (uint32_t i = 0; i < plan->n_sources; i++) {
		const struct plan_source *s = &plan->sources[i];
		struct msg_source message = {
			.kind = s->kind,
			.index = s->index,
			.generation = s->generation,
			.size = s->size,
		};

		message_body_put(b, &message, sizeof(message));
	}
}

static void put_device(struct message_body *b, const struct plan_source *s)
{
	struct msg_device message = {.flags = 0};

	memcpy(message.uuid, s->uuid, sizeof(message.uuid));
	message_body_put(b, &message, sizeof(message));
}

static int put_names(struct message_body *b, const struct plan *plan,
	const struct tarn_publish_item *items, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i++) {
		const struct plan_place *p = &plan->places[i];

		r = message_body_put_name(b, items[i].name,
			MIN(strlen(items[i].name), (size_t)TARN_NAME_MAX + 1),
			p->source, p->base, &p->layout);
	}
	return r;
}

static int write_message(struct tarn_store *store, struct message_body *b,
	const struct plan *plan, const struct tarn_publish_item *items,
	size_t n, const struct tarn_publish_options *options)
{
	struct msg_publish head = {
		.n_sources = plan->n_sources,
		.n_names = (uint32_t)n,
		.flags = n ? own_place_wish(store) : 0,
	};
	int r = set_options(&head, options);

	if (r < 0)
		return r;
	message_body_put(b, &head, sizeof(head));
	put_sources(b, plan);
	r = put_names(b, plan, items, n);
	if (r < 0)
		return r;
	if (head.prefix_size)
		message_body_put(b, options->replace, head.prefix_size);
	message_body_pad(b);
	for (uint32_t i = 0; i < plan->n_sources; i++) {
		const struct plan_source *s = &plan->sources[i];

		if (s->kind == SOURCE_BYTES)
			message_body_put(b, s->bytes, s->size);
		if (s->kind == SOURCE_DEVICE)
			put_device(b, s);
		message_body_pad(b);
	}
	if (b->failed)
		return tarn_fail(ENOMEM, "no memory for %zu names", n);
	if (b->size > WIRE_MESSAGE_MAX)
		return tarn_fail(E2BIG,
			"its %zu names fill a message of %zu bytes, %u are the "
			"most",
			n, b->size, WIRE_MESSAGE_MAX);
	return 0;
}

/* ---- the call -------------------------------------------------------- */

static int send_once(struct tarn_store *store, const struct message_body *b,
	const int *fds, int n_fds, struct wire_message *ret)
{
	struct call call;
	int r = call_begin(&store->connection, &call,
		WIRE_OUT_FDS(WIRE_PUBLISH, 0, b->p, b->size, fds, n_fds));

	if (r < 0)
		return r;
	/* The daemon may need seconds to allocate memory for it. */
	r = store_await(store, &call, ret);
	call_end(&store->connection, &call);
	if (r < 0)
		return r;
	r = call_expect(&store->connection, ret, WIRE_PUBLISHED, 0);
	if (r < 0)
		wire_message_clear(ret);
	return r;
}

int publish_send(struct tarn_store *store, const struct message_body *b,
	const int *fds, int n_fds, struct wire_message *ret)
{
	int64_t until = clock_ms() + CONNECTION_AGAIN_MS;
	int r;

	do
		r = send_once(store, b, fds, n_fds, ret);
	while (call_asks_again(r, until));
	return r;
}

static int send(struct tarn_store *store, const struct message_body *b,
	const struct plan *plan, struct wire_message *ret)
{
	int fds[PUBLISH_SOURCES_MAX], n_fds = 0;

	for (uint32_t i = 0; i < plan->n_sources; i++)
		if (plan_fd(&plan->sources[i]) >= 0)
			fds[n_fds++] = plan_fd(&plan->sources[i]);
	return publish_send(store, b, fds, n_fds, ret);
}

/* Checks the answer, and copies it to an aligned place. */
static int read_answer(struct tarn_store *store, struct wire_message *reply,
	const struct plan *plan, size_t n, uint64_t *ret_versions,
	const struct msg_stored **ret_stored)
{
	struct msg_published head;
	size_t sources = plan->n_sources * sizeof(struct msg_stored);
	int r;

	r = call_expect(&store->connection, reply, WIRE_PUBLISHED,
		(uint32_t)(sizeof(head) + sources + n * sizeof(uint64_t)));
	if (r < 0)
		return r;
	memcpy(&head, reply->body, sizeof(head));
	if (head.n_sources != plan->n_sources || head.n_names != n)
		return tarn_fail(EPROTO,
			"daemon at %s: it has published %u names of %u "
			"sources, not %zu of %u",
			store->socket, head.n_names, head.n_sources, n,
			plan->n_sources);
	*ret_stored = (const struct msg_stored *)(reply->body + sizeof(head));
	if (ret_versions)
		memcpy(ret_versions, reply->body + sizeof(head) + sources,
			n * sizeof(*ret_versions));
	return 0;
}

static int publish(struct tarn_store *store,
	const struct tarn_publish_item *items, size_t n,
	const struct tarn_publish_options *options, uint64_t *ret_versions)
{
	const struct msg_stored *stored = NULL;
	struct wire_message reply = {0};
	struct message_body body = {0};
	struct plan plan;
	int r;

	created_claim(items, n);
	r = plan_make(store, items, n, &plan);
	if (r >= 0)
		r = write_message(store, &body, &plan, items, n, options);
	if (r < 0)
		tarn_fail_prefix(r, "publish: ");
	else
		r = send(store, &body, &plan, &reply);
	if (r >= 0)
		r = read_answer(store, &reply, &plan, n, ret_versions, &stored);
	plan_done(&plan, store, stored);
	created_unclaim(items, n);
	wire_message_clear(&reply);
	free(body.p);
	return r < 0 ? r : 0;
}

int tarn_store_publish(tarn_store *store, const struct tarn_publish_item *items,
	size_t n, const struct tarn_publish_options *options,
	uint64_t *ret_versions)
{
	int r = connection_ready(&store->connection);

	if (r >= 0 && n > LOAD_NAMES_MAX)
		r = tarn_fail(E2BIG,
			"publish: %zu names, %u are the most that can be "
			"published at "
			"once",
			n, LOAD_NAMES_MAX);
	for (size_t i = 0; i < n && r >= 0; i++)
		r = RESERVED_CHECK("tarn_publish_item", &items[i]);
	if (r >= 0)
		r = publish(store, items, n, options, ret_versions);
	return r;
}

int tarn_store_publish_one(tarn_store *store, const char *name,
	tarn_tensor *tensor, const struct tarn_publish_options *options,
	uint64_t *ret_version)
{
	const struct tarn_publish_item item = {.name = name, .tensor = tensor};

	return tarn_store_publish(store, &item, 1, options, ret_version);
}
