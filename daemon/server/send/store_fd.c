/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that must outlive the server: it has one of each, the keeper
 * another.
 *
 * A message in a socket survives its sender. So a descriptor that was sent to
 * the keeper, and only then written into a table, is there for every server
 * that reads that table; one that was sent and written nowhere is found after
 * the next start, and forgotten.
 *
 * Closing a descriptor of a device may call its driver, or whatever a client has
 * sent in its place: a closer does that (loop/closer.h), and in the keeper the
 * dropper. All others are memfds and pipes, which close at once.
 */
#include "daemon/server/server.h"

#include "base/fail.h"
#include "base/fd.h"

/* A closer has room for fewer than may be freed at once. The number of a
 * descriptor that is open is its key. */
static void close_later(struct domain *domain, int fd)
{
	const struct msg_fd_key key = {.kind = FD_OF_DEVICE, .a = (uint64_t)fd};

	if (fd >= 0 && !closer_has_room(domain->closer) &&
		fd_store_make_room(&domain->unclosed, fd) == 0)
		fd_store_put(&domain->unclosed, &key, fd);
	else
		closer_close(domain->closer, fd);
}

static void close_one(void *arg, const struct stored_fd *stored)
{
	struct domain *domain = arg;
	struct msg_fd_key key = stored->key;

	if (closer_has_room(domain->closer))
		closer_close(
			domain->closer, fd_store_take(&domain->unclosed, &key));
}

void server_close_rest(struct domain *domain)
{
	if (domain->unclosed.n && closer_has_room(domain->closer))
		fd_store_each(&domain->unclosed, close_one, domain);
}

void server_close_fd(
	struct server *server, const struct msg_fd_key *key, int fd)
{
	struct domain *domain = NULL;

	if (key->kind == FD_OF_DEVICE)
		domain = domain_find(server, key->domain);
	if (domain)
		close_later(domain, fd);
	else
		fd_close(fd);
}

int server_store_fd(struct server *server, const struct msg_fd_key *key, int fd)
{
	int r = server_send_keeper(
		server, D_STORE_FD, key, sizeof(*key), &fd, 1);

	if (r < 0) {
		server_close_fd(server, key, fd);
		return r;
	}
	r = fd_store_make_room(&server->fd_store, fd);
	if (r < 0) {
		server_close_fd(server, key, fd);
		server_drop_fd(server, key);
		return r;
	}
	return fd_store_put(&server->fd_store, key, fd);
}

int server_stored_fd(const struct server *server, const struct msg_fd_key *key)
{
	return fd_store_get(&server->fd_store, key);
}

void server_drop_fd(struct server *server, const struct msg_fd_key *key)
{
	server_close_fd(server, key, fd_store_take(&server->fd_store, key));
	server_send_keeper(server, D_DROP_FD, key, sizeof(*key), NULL, 0);
}

int server_restore_fd(struct server *server, struct wire_message *m)
{
	const struct msg_fd_key *key = (const struct msg_fd_key *)m->body;
	int fd = wire_take_fd(m, 0);

	if (fd < 0)
		return tarn_fail(EPROTO, "what was kept came without it");
	return fd_store_put(&server->fd_store, key, fd);
}
