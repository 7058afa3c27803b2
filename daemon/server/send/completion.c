/* SPDX-License-Identifier: MIT */
/*
 * When a completion is not needed any more.
 *
 * It is needed as long as its client may send the request again, which it does
 * if it learns of another server before it has the answer.
 *
 * - This server has answered. The socket belongs to the keeper, too, so what
 *   lies in it outlives this server, and it delivers in order: an answer that
 *   is in the socket reaches the client before the news of another server does.
 *   So once this server's own queue for that client is empty, all its answers
 *   are as good as received.
 * - A server before this one has written it. That one may have died before its
 *   answer was in the socket. The client sends its unanswered requests again,
 *   and then WIRE_RESENT; a request that it has not sent again by then is never
 *   sent again. If this server dies first, the next one finds the same
 *   completions, and the client begins anew.
 *
 * A later request says nothing about the earlier ones: threads of one process
 * share a connection. tests/models/resume.pml models all of this.
 */
#include "daemon/server/server.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"

static struct table_completion *at(const struct client *client, uint32_t i)
{
	return &client->domain->table.completions[client->completions.slots[i]];
}

/* Only this thread writes it. */
static uint64_t commit_of(const struct table_completion *completion)
{
	return atomic_load_explicit(&completion->commit, memory_order_relaxed);
}

/* ---- freeing ----------------------------------------------------------- */

static void free_some(struct client *client, uint32_t from, uint32_t to)
{
	struct completions *c = &client->completions;

	for (uint32_t i = from; i < to; i++)
		table_completion_free(client->domain->writer, c->slots[i]);
	for (uint32_t i = to; i < c->n; i++)
		c->slots[from + i - to] = c->slots[i];
	c->n -= to - from;
}

void completions_answered(struct client *client)
{
	free_some(client, client->completions.n_found, client->completions.n);
}

void completions_resent(struct client *client)
{
	free_some(client, 0, client->completions.n_found);
	client->completions.n_found = 0;
}

void completions_free(struct client *client)
{
	free_some(client, 0, client->completions.n);
	free(client->completions.slots);
	client->completions = (struct completions) {0};
}

/* ---- writing ----------------------------------------------------------- */

static int add(struct completions *c, uint32_t slot)
{
	if (c->n == c->room) {
		uint32_t room = MAX(c->room * 2, 4u);
		uint32_t *slots = reallocarray(c->slots, room, sizeof(*slots));

		if (!slots)
			return tarn_fail(ENOMEM, "out of memory");
		c->slots = slots;
		c->room = room;
	}
	c->slots[c->n] = slot;
	return 0;
}

int completion_write(
	struct client *client, uint32_t serial, const struct completed *storage)
{
	struct completions *c = &client->completions;
	struct completed request = storage ? *storage : (struct completed) {0};
	int r;

	request.client = client->number;
	request.serial = serial;
	r = add(c, 0);
	return r < 0 ? r
		     : table_complete(client->domain->writer, &request,
			       &c->slots[c->n]);
}

void completion_committed(struct client *client)
{
	client->completions.n++;
}

/* ---- finding ----------------------------------------------------------- */

/* The last one: a client that uses a serial twice means the later request. */
static uint32_t find(const struct client *client, uint32_t serial)
{
	uint32_t i = client->completions.n;

	while (i > 0 && at(client, i - 1)->request.serial != serial)
		i--;
	return i;
}

uint64_t completion_find(
	const struct client *client, uint32_t serial, struct completed *ret)
{
	uint32_t i = find(client, serial);

	if (!i)
		return 0;
	if (ret)
		*ret = at(client, i - 1)->request;
	return commit_of(at(client, i - 1));
}

/* It becomes one of those whose answers this server queues. */
uint64_t completion_take(
	struct client *client, uint32_t serial, struct completed *ret)
{
	struct completions *c = &client->completions;
	uint32_t i = find(client, serial), slot;

	if (i && i <= c->n_found) {
		slot = c->slots[i - 1];
		c->slots[i - 1] = c->slots[--c->n_found];
		c->slots[c->n_found] = slot;
	}
	return completion_find(client, serial, ret);
}

/* ---- taking over -------------------------------------------------------- */

/* To its client; of one that is gone it is free. Few were between a commit and
 * the socket when the server died, so a list of clients will do. */
static int hand_out(struct domain *domain, uint32_t slot)
{
	uint64_t number = domain->table.completions[slot].request.client;
	struct client *client = domain->clients;
	int r;

	while (client && client->number != number)
		client = client->next;
	if (!client) {
		table_completion_free(domain->writer, slot);
		return 0;
	}
	r = add(&client->completions, slot);
	if (r == 0)
		client->completions.n_found = ++client->completions.n;
	return r;
}

int completions_rebuild(struct domain *domain)
{
	int r = 0;

	for (uint32_t i = 0; i < domain->table.header->n_completions && r == 0;
		i++)
		if (commit_of(&domain->table.completions[i]))
			r = hand_out(domain, i);
	return r;
}
