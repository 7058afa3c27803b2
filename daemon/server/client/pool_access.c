/* SPDX-License-Identifier: MIT */
/*
 * Which users may use which pool.
 *
 * A client connects under the domain of its uid, and may name another pool in
 * its hello; from then on it belongs to that pool's domain, and sees nothing
 * else. The answer is the same whether a pool does not exist or is closed to
 * the client, so that no client learns which pools exist.
 */
#include "daemon/server/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/fail.h"

static struct domain *domain_named(
	struct server *server, const char *name, size_t size)
{
	struct domain *domain;

	for (domain = server->domains; domain; domain = domain->next)
		if (strlen(domain->spec.name) == size &&
			memcmp(domain->spec.name, name, size) == 0)
			break;
	return domain;
}

/* ---- groups of a user ---------------------------------------------------- */

/* The supplementary groups that the peer had when it connected. */
static bool has_supplementary(int sock, gid_t gid)
{
	gid_t first[64], *groups = first;
	_cleanup_free_ gid_t *more = NULL;
	socklen_t size = sizeof(first);
	int r = getsockopt(sock, SOL_SOCKET, SO_PEERGROUPS, groups, &size);

	if (r < 0 && errno == ERANGE) {
		groups = more = malloc(size);
		if (!more)
			return false;
		r = getsockopt(sock, SOL_SOCKET, SO_PEERGROUPS, groups, &size);
	}
	for (size_t i = 0; r == 0 && i < size / sizeof(*groups); i++)
		if (groups[i] == gid)
			return true;
	return false;
}

/* As with files: the owner has the owner's bits and no others, then the group,
 * then all others; and root has all. */
static unsigned access_bits(
	const struct pool_spec *spec, const struct client *client)
{
	if (client->uid == 0)
		return POOL_READ | POOL_WRITE;
	if (client->uid == spec->uid)
		return spec->mode >> 6 & 7u;
	if (client->gid == spec->gid ||
		has_supplementary(client->sock, (gid_t)spec->gid))
		return spec->mode >> 3 & 7u;
	return spec->mode & 7u;
}

void client_judge(struct client *client)
{
	unsigned bits = access_bits(&client->domain->spec, client);

	client->may_write = bits & POOL_WRITE;
}

/* ---- coming in --------------------------------------------------------- */

static void move(struct client *client, struct domain *to)
{
	client_leave(client);
	client_join(client, to);
}

int client_enter(struct client *client, const char *name, size_t size)
{
	struct server *server = client->domain->server;
	struct domain *domain = domain_named(server, name, size);
	struct msg_client now = {.number = client->number, .uid = client->uid};

	if (!domain || !(access_bits(&domain->spec, client) & POOL_READ))
		return tarn_fail(EACCES,
			"there is no pool %.*s for uid %u; the pools are in "
			"the daemon's tarnd.conf, with owner, group and mode",
			(int)MIN(size, (size_t)WIRE_POOL_MAX), name,
			client->uid);
	move(client, domain);
	client_judge(client);
	now.domain = domain->number;
	return server_send_keeper(
		server, D_CLIENT_DOMAIN, &now, sizeof(now), NULL, 0);
}

int client_check_write(const struct client *client)
{
	const struct pool_spec *spec = &client->domain->spec;

	if (client->may_write)
		return 0;
	return tarn_fail(EPERM,
		"the pool %s belongs to uid %u and gid %u with mode %04o: uid "
		"%u may read it, not load, publish or remove",
		spec->name, spec->uid, spec->gid, spec->mode, client->uid);
}
