/* SPDX-License-Identifier: MIT */
/*
 * A server ends a client's connection, and dies before the keeper has forgotten
 * that client: as it waits until the client has read what it was sent. The
 * memory that the client had open is free by then. The next server, which gets
 * the client from the keeper, must not let its leases pass for sound again.
 */
#include <errno.h>

#include "base/fail.h"
#include "base/fd.h"
#include "daemon/server/server.h"
#include "tests/kit/tap.h"

#define INDEX 5u
#define GENERATION 3u

static struct server server;
static struct domain domain = {.server = &server};

/* As a server has it that the keeper has told of it. */
static struct client *come(int lease_fd)
{
	struct client *client = calloc(1, sizeof(*client));

	if (!client)
		bail("out of memory");
	client->domain = client->user = &domain;
	client->lease_fd = lease_fd;
	return client;
}

static void forget(struct client *client)
{
	leases_close(client);
	free(client);
}

int main(void)
{
	struct lease_page *page;
	struct client *client;
	int fd = -1;

	if (lease_create(&fd) < 0 || lease_map(fd, &page) < 0)
		bail("%s", tarn_fail_message());
	atomic_store(&page->slots[0], lease_word(INDEX, GENERATION));
	atomic_store(&page->used, 1);

	client = come(fd);
	is_int(0, leases_open(client), "a server takes over a client");
	is_int(1, leases_count(client), "its lease counts");
	forget(client);

	client = come(fd);
	is_int(0, leases_open(client), "the next server takes it over");
	leases_send(client);
	ok(lease_is_closed(page),
		"the leases of a client that is dropped are void");
	forget(client);

	client = come(fd);
	is_int(-EPROTO, leases_open(client),
		"a server after that one does not take the client over");
	ok(lease_is_closed(page), "the client's leases stay void");
	forget(client);

	lease_unmap(page);
	fd_close(fd);
	return done(6);
}
