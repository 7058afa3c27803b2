/* SPDX-License-Identifier: MIT */
/*
 * Long messages of clients, read in steps.
 *
 * Reading the longest message takes tens of milliseconds, in which the server
 * would answer no other client. So one step of it is read in the event that
 * brought it, and the others in later turns of the loop, each by a deadline
 * that is due at once, and within its user's share of the server's time.
 *
 * Meanwhile no other message of this connection is received, so that its
 * requests are done in their order, and no other long message of this user. So
 * of each user there is one long message at most, as if there were no steps: its
 * memory and its descriptors need no account of their own. Short messages of the
 * user's other connections pass. The loop does not wait as long as there is a
 * step to do, so it costs nothing that those sockets report what lies in them.
 *
 * The loop may report the sockets in the same order in every turn. So that one
 * connection with many long messages does not keep back those of the others, it
 * lets an event pass after a long message for which another one had to wait.
 */
#include <stdlib.h>

#include "base/fail.h"
#include "daemon/server/server.h"

/* Picked: a third of a millisecond, with the pages that it takes. */
#define STEP (1u << 20)

struct arrival {
	struct client *client;
	struct wire_message message;
	struct deadline next;
};

static void go_on(void *arg);

/* In the next turn. */
static void set(struct arrival *arrival)
{
	struct loop *loop = arrival->client->domain->server->loop;

	deadline_call(loop_deadlines(loop), &arrival->next, loop_now() + 1,
		go_on, arrival);
}

/* Its message is the caller's. */
static struct wire_message end(struct arrival *arrival)
{
	struct wire_message m = arrival->message;
	struct client *client = arrival->client;

	deadline_set(loop_deadlines(client->domain->server->loop),
		&arrival->next, 0);
	client->user->arrival = NULL;
	free(arrival);
	return m;
}

static void go_on(void *arg)
{
	struct arrival *arrival = arg;
	struct client *client = arrival->client;
	uint64_t began = loop_now();
	struct wire_message m;
	int r;

	if (quantum_is_spent(client))
		return set(arrival);
	r = wire_read_on(&arrival->message, STEP);
	if (r == 0) {
		quantum_spend(client->user, began);
		return set(arrival);
	}
	m = end(arrival);
	client_received(client, began, client_receive(client, &m, r));
}

int arrival_begin(struct client *client, struct wire_message *m)
{
	int r = wire_read_on(m, STEP);
	struct arrival *arrival;

	if (r != 0)
		return r;
	arrival = calloc(1, sizeof(*arrival));
	if (!arrival)
		return tarn_fail(ENOMEM, "out of memory");
	arrival->client = client;
	arrival->message = *m;
	*m = (struct wire_message) {0};
	client->user->arrival = arrival;
	client->user->last_arrival = client->number;
	client->user->arrival_waits = false;
	set(arrival);
	return 0;
}

static bool next_is_long(const struct client *client)
{
	return wire_next_header(client->sock).flags & WIRE_LONG;
}

bool arrival_holds(const struct client *client)
{
	struct domain *user = client->user;
	bool last = user->last_arrival == client->number;

	if (user->arrival) {
		if (last)
			return true;
		if (!next_is_long(client))
			return false;
		user->arrival_waits = true;
		return true;
	}
	if (!user->arrival_waits || !last || !next_is_long(client))
		return false;
	user->arrival_waits = false;
	return true;
}

void arrival_orphan(struct client *client)
{
	struct arrival *arrival = client->user->arrival;
	struct wire_message m;

	if (!arrival || arrival->client != client)
		return;
	m = end(arrival);
	wire_message_close(&client->reader, &m);
}
