/* SPDX-License-Identifier: MIT */
/*
 * The server's time, shared out among users.
 *
 * The idea: a message may cost a millisecond, and one user may have a thousand
 * connections that send such a message each, over and over; between two of
 * another user's he would have them all. So time is measured by user, and who
 * has spent his part of a round is passed over until the next one. A round is
 * over when every client could have been heard once, so nothing is held back
 * from who is alone, nor much when there is nothing else to do.
 */
#include "daemon/server.h"

/* Picked: ten times what passing over a thousand connections costs. */
#define SHARE_NS 2000000ull
#define TURN_EVENTS 64u /* that a loop hands over in a turn */

void share_join(struct client *client)
{
	if (!client->home->n_connected++)
		client->rule->server->n_users++;
}

void share_leave(struct client *client)
{
	if (!--client->home->n_connected)
		client->rule->server->n_users--;
}

void share_turn(struct server *server)
{
	server->round_events += TURN_EVENTS;
	if (server->round_events < server->n_clients)
		return;
	server->round_events = 0;
	server->round++;
}

bool share_is_spent(const struct client *client)
{
	const struct server *server = client->rule->server;
	const struct rule *home = client->home;

	return server->n_users > 1 && home->round == server->round &&
	       home->spent > SHARE_NS;
}

void share_spend(struct client *client, uint64_t began)
{
	struct rule *home = client->home;

	if (home->round != client->rule->server->round) {
		home->round = client->rule->server->round;
		home->spent = 0;
	}
	home->spent += loop_now() - began;
}
