/* SPDX-License-Identifier: MIT */
/*
 * Publishing: one message, one answer, all names at once.
 *
 * The idea: everything that the daemon needs to know is in the message, and
 * what it is given it has not to trust; so a publication that fails, or whose
 * publisher dies, leaves nothing behind.
 */
#include <tarn/publish.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "lib/store/body.h"
#include "lib/store/publish_plan.h"

#define PATIENCE_MS 5000 /* then the daemon is asked whether it lives */
#define NAP_MAX_MS 160   /* picked: between two tries, while others' end */
#define NS 1e9

/* ---- the message ----------------------------------------------------- */

static int set_options(
	struct msg_publish *head, const struct tarn_publish_options *o)
{
	if (!o)
		return 0;
	if (o->replace) {
		head->prefix_size = (uint32_t)MIN(
			strlen(o->replace), (size_t)TARN_NAME_MAX + 1);
		head->flags |= PUBLISH_REPLACE;
	}
	if (o->exclusive)
		head->flags |= PUBLISH_NEW;
	/* A century is for good, near enough; more would not fit. */
	if (!(o->life >= 0) || o->life * NS > 0x1p62)
		return tarn_fail(EINVAL,
			"a life of %g seconds; 0 is for good, 4e9 about the "
			"longest",
			o->life);
	head->life_ns = (uint64_t)ceil(o->life * NS);
	return 0;
}

static void put_sources(struct body *b, const struct plan *plan)
{
	for (uint32_t i = 0; i < plan->n_sources; i++) {
		const struct plan_source *s = &plan->sources[i];
		struct msg_source message = {
			.kind = s->kind,
			.index = s->index,
			.generation = s->generation,
			.size = s->size,
		};

		body_put(b, &message, sizeof(message));
	}
}

static int put_names(struct body *b, const struct plan *plan,
	const struct tarn_publish_item *items, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i++) {
		const struct plan_place *p = &plan->places[i];

		r = body_put_name(b, items[i].name,
			MIN(strlen(items[i].name), (size_t)TARN_NAME_MAX + 1),
			p->source, p->base, &p->layout);
	}
	return r;
}

uint64_t publish_since(struct tarn_store *store)
{
	/* A region that was left says nothing of what came after it. If the
	 * next one cannot be had, more is in doubt than need be, no less; and
	 * the call itself tells what is wrong with the daemon. */
	if (table_is_left(&store->table))
		store_moved_within(store, 0, store->connection.timeout_ms);
	/* Relaxed: whatever it is, this is not published yet. */
	return atomic_load_explicit(
		       &store->table.header->committed, memory_order_relaxed) +
	       1;
}

static int write_message(struct tarn_store *store, struct body *b,
	const struct plan *plan, const struct tarn_publish_item *items,
	size_t n, const struct tarn_publish_options *options)
{
	struct msg_publish head = {
		.n_sources = plan->n_sources,
		.n_names = (uint32_t)n,
		.since = publish_since(store),
	};
	int r = set_options(&head, options);

	if (r < 0)
		return r;
	body_put(b, &head, sizeof(head));
	put_sources(b, plan);
	r = put_names(b, plan, items, n);
	if (r < 0)
		return r;
	if (head.prefix_size)
		body_put(b, options->replace, head.prefix_size);
	body_pad(b);
	for (uint32_t i = 0; i < plan->n_sources; i++) {
		const struct plan_source *s = &plan->sources[i];

		if (s->kind == SOURCE_BYTES)
			body_put(b, s->bytes, s->size);
		body_pad(b);
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

/* Memory for it may take the daemon seconds to make. */
static int await(
	struct tarn_store *store, struct call *call, struct wire_message *ret)
{
	struct tarn_store_status status;
	int r;

	do {
		r = call_next(&store->connection, call, PATIENCE_MS, ret);
		if (r == 0)
			r = tarn_store_get_status(store, &status);
		else if (r > 0)
			return 0;
	} while (r >= 0);
	return r;
}

static int send_once(struct tarn_store *store, const struct body *b,
	const int *fds, int n_fds, struct wire_message *ret)
{
	struct call call;
	int r = call_begin(&store->connection, &call, WIRE_PUBLISH, b->p,
		b->size, fds, n_fds);

	if (r < 0)
		return r;
	r = await(store, &call, ret);
	call_end(&store->connection, &call);
	return r;
}

/* Nothing of it was begun with: only others' are in its way. */
static bool is_for_now(const struct wire_message *reply)
{
	struct msg_error error;

	if (reply->type != WIRE_ERROR || reply->size < sizeof(error))
		return false;
	memcpy(&error, reply->body, sizeof(error));
	return error.flags & ERROR_FOR_NOW;
}

int publish_send(struct tarn_store *store, const struct body *b, const int *fds,
	int n_fds, struct wire_message *ret)
{
	int64_t now = clock_ms(), end = now + store->connection.timeout_ms;
	int64_t begun = now, nap_ms = CONNECTION_NAP_MS;
	int r;

	while ((r = send_once(store, b, fds, n_fds, ret)) >= 0 &&
		is_for_now(ret) && (now = clock_ms()) < end) {
		uint64_t since;

		wire_message_clear(ret);
		/* Half of the time at most goes into trying: all of a long one
		 * is sent each time. */
		nap_ms = MIN(MAX(nap_ms, now - begun), end - now);
		usleep((useconds_t)nap_ms * 1000);
		nap_ms = MIN(nap_ms * 2, NAP_MAX_MS);
		begun = clock_ms();
		/* It is another request, and nothing of the last one is. */
		since = publish_since(store);
		memcpy(b->p + offsetof(struct msg_publish, since), &since,
			sizeof(since));
	}
	return r;
}

static int send(struct tarn_store *store, const struct body *b,
	const struct plan *plan, struct wire_message *ret)
{
	int fds[PUBLISH_SOURCES_MAX], n_fds = 0;

	for (uint32_t i = 0; i < plan->n_sources; i++)
		if (plan_fd(&plan->sources[i]) >= 0)
			fds[n_fds++] = plan_fd(&plan->sources[i]);
	return publish_send(store, b, fds, n_fds, ret);
}

/* Checked, and aligned as the body of a message is. */
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
	struct body body = {0};
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

	if (r >= 0 && store->version < 2)
		r = tarn_fail(ENOTSUP,
			"publish: the daemon at %s is older than this library "
			"and "
			"cannot; stop it, and the next open starts a new one",
			store->socket);
	if (r >= 0 && n > LOAD_NAMES_MAX)
		r = tarn_fail(E2BIG,
			"publish: %zu names, %u are the most that can be "
			"published at "
			"once",
			n, LOAD_NAMES_MAX);
	if (r >= 0)
		r = publish(store, items, n, options, ret_versions);
	return r;
}
