/* SPDX-License-Identifier: MIT */
/*
 * A client's lease pages: the one of its connection, and those that it asked
 * for because the others were full.
 *
 * A client that holds many storages gets more slots, not an error. A page costs
 * a descriptor here and one in the keeper, so the server gives one more only to
 * a client that has filled its pages, and only up to a limit. Pages are
 * numbered in order and held by the keeper under that number, so that the next
 * server finds all of them without being told their number.
 */
#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/server/server.h"

/* Of the slots of all pages so far: holes are left by racing threads. */
#define FULL(n_pages) ((n_pages) * (LEASE_SLOTS / 4u * 3u))

static struct msg_fd_key key_of(const struct client *client, uint32_t ordinal)
{
	return (struct msg_fd_key) {
		.kind = FD_OF_LEASES, .a = ordinal, .b = client->number};
}

/* Maps the page, and makes it the last one. */
static int add_page(struct client *client, int fd)
{
	struct lease_page **pages;
	int r;

	pages = reallocarray(
		client->leases, client->n_leases + 1u, sizeof(*client->leases));
	if (!pages)
		return tarn_fail(ENOMEM, "out of memory");
	client->leases = pages;
	r = lease_map(fd, &pages[client->n_leases]);
	if (r == 0)
		client->n_leases++;
	return r;
}

/* Its user is charged for the descriptor. */
static void count_more(struct client *client, int32_t n)
{
	client->domain->server->n_more_leases += (uint32_t)n;
	client->user->account.used[QUOTA_DESCRIPTORS] += (uint64_t)n;
}

int leases_open(struct client *client)
{
	struct server *server = client->domain->server;
	int r = add_page(client, client->lease_fd);

	/* A server before this one has ended the connection, and may have freed
	 * what these leases held: to honour them again would make void ones
	 * pass for sound. */
	if (r == 0 && lease_is_closed(client->leases[LEASE_PAGE_FIRST]))
		r = tarn_fail(EPROTO,
			"a server before this one has ended its leases");
	while (r == 0) {
		struct msg_fd_key key = key_of(client, client->n_leases);
		int fd = server_stored_fd(server, &key);

		if (fd < 0)
			break;
		r = add_page(client, fd);
		if (r == 0)
			count_more(client, 1);
	}
	return r;
}

void leases_send(struct client *client)
{
	for (uint32_t i = 0; i < client->n_leases; i++)
		lease_close(client->leases[i]);
}

void leases_close(struct client *client)
{
	struct server *server = client->domain->server;

	for (uint32_t i = 0; i < client->n_leases; i++) {
		struct msg_fd_key key = key_of(client, i);

		lease_unmap(client->leases[i]);
		if (i == 0)
			continue;
		server_drop_fd(server, &key);
		count_more(client, -1);
	}
	free(client->leases);
	client->leases = NULL;
	client->n_leases = 0;
}

uint32_t leases_count(const struct client *client)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < client->n_leases; i++)
		n += lease_count(client->leases[i]);
	return n;
}

void leases_search(const struct client *client, struct lease_batch *batch)
{
	for (uint32_t i = 0; i < client->n_leases; i++)
		lease_batch_search(batch, client->leases[i]);
}

bool leases_were_notified(const struct client *client)
{
	return client->n_leases &&
	       lease_was_notified(client->leases[LEASE_PAGE_FIRST]);
}

uint64_t leases_noted(
	const struct client *client, uint32_t index, uint64_t generation)
{
	uint64_t at = 0;

	for (uint32_t i = 0; i < client->n_leases; i++)
		at = MAX(at, lease_noted(client->leases[i], index, generation));
	return at;
}

static int may_have_more(const struct client *client)
{
	const struct server *server = client->domain->server;
	uint32_t n = leases_count(client);

	if (client->n_leases >= CLIENT_LEASES_MAX)
		return tarn_fail(ENOSPC,
			"this connection has %u pages of leases, which is the "
			"limit",
			CLIENT_LEASES_MAX);
	if (n < FULL(client->n_leases))
		return tarn_fail(EBUSY,
			"this connection has %u leases in %u pages of %u; "
			"a client gets another page when it has filled these",
			n, client->n_leases, (uint32_t)LEASE_SLOTS);
	if (server->n_more_leases >= server->limits.more_leases)
		return tarn_fail(ENOSPC,
			"%u more pages of leases are in use, which is the "
			"limit with so many descriptors (ulimit -n)",
			server->limits.more_leases);
	return quota_check(&client->user->account, QUOTA_DESCRIPTORS, 1);
}

/* The last page beside the first, if no slot in it was ever used: a client that
 * asks for another has not got it. The client or the daemon may have been out
 * of descriptors, or the server died. A client that cheats harms only its own
 * leases. -1: none. */
static int unused_page(const struct client *client)
{
	uint32_t last = client->n_leases - 1;
	struct msg_fd_key key = key_of(client, last);

	if (!last || !lease_is_unused(client->leases[last]))
		return -1;
	return server_stored_fd(client->domain->server, &key);
}

int leases_more(struct client *client, uint32_t serial)
{
	struct server *server = client->domain->server;
	struct msg_fd_key key = key_of(client, client->n_leases);
	int fd = unused_page(client), r;

	if (fd >= 0) {
		client_reply(client,
			WIRE_OUT_FDS(WIRE_LEASE_PAGE, serial, NULL, 0, &fd, 1));
		return 0;
	}
	r = may_have_more(client);
	if (r == 0)
		r = lease_create(&fd);
	/* Kept before the client can write a lease into it. */
	if (r == 0)
		r = server_store_fd(server, &key, fd);
	if (r < 0)
		return r;
	r = add_page(client, fd);
	if (r < 0) {
		server_drop_fd(server, &key);
		return r;
	}
	count_more(client, 1);
	client_reply(
		client, WIRE_OUT_FDS(WIRE_LEASE_PAGE, serial, NULL, 0, &fd, 1));
	return 0;
}
