/* SPDX-License-Identifier: MIT */
/*
 * The server's time, shared out among users.
 *
 * A message may cost a millisecond, and one user may have a thousand
 * connections that send such a message each, over and over; all of them would
 * be served between two messages of another user. So time is measured by user,
 * and a user that has spent its part of a round is skipped until the next one.
 * A round is over when every client could have been served once, so a single
 * user is not held back, and others hardly when there is nothing else to do.
 *
 * Whose time it is does not depend on what the server works for: a message, an
 * answer that is sent on, a request whose turn has come or for which there is
 * memory, what a worker or a loader has finished.
 */
#include "daemon/server/server.h"

/* Picked: ten times what passing over a thousand connections costs. */
#define QUANTUM_NS 2000000ull
#define TURN_EVENTS 64u /* that a loop hands over in a turn */

void quantum_join(struct client *client)
{
	client->user->reported_empty = false;
	if (!client->user->account.n_connected++)
		client->domain->server->turns.n_users++;
}

void quantum_leave(struct client *client)
{
	if (!--client->user->account.n_connected)
		client->domain->server->turns.n_users--;
}

void quantum_turn(struct server *server)
{
	server->turns.events += TURN_EVENTS;
	if (server->turns.events < server->n_clients)
		return;
	server->turns.events = 0;
	server->turns.round++;
}

bool quantum_is_spent(const struct client *client)
{
	const struct server *server = client->domain->server;
	const struct domain *user = client->user;

	return server->turns.n_users > 1 &&
	       user->account.round == server->turns.round &&
	       user->account.spent > QUANTUM_NS;
}

void quantum_spend(struct domain *user, uint64_t began)
{
	if (user->account.round != user->server->turns.round) {
		user->account.round = user->server->turns.round;
		user->account.spent = 0;
	}
	user->account.spent += loop_now() - began;
}
