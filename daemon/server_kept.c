/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that must outlive the server: it has one of each, the keeper
 * another.
 *
 * A message in a socket survives its sender. So what was sent to be kept, and
 * only then written into a table, is there for whoever reads that table; what
 * was kept and written nowhere is found out after the next start, and
 * forgotten.
 */
#include "daemon/server.h"

#include "base/fail.h"
#include "base/fd.h"

int server_keep(struct server *server, const struct msg_keep *key, int fd)
{
	int r = server_tell_keeper(server, D_KEEP, key, sizeof(*key), &fd, 1);

	if (r < 0) {
		fd_close(fd);
		return r;
	}
	r = kept_put(&server->kept, key, fd);
	if (r < 0)
		server_forget(server, key);
	return r;
}

int server_kept(const struct server *server, const struct msg_keep *key)
{
	return kept_get(&server->kept, key);
}

void server_forget(struct server *server, const struct msg_keep *key)
{
	kept_drop(&server->kept, key);
	server_tell_keeper(server, D_FORGET, key, sizeof(*key), NULL, 0);
}

int server_take_kept(struct server *server, struct wire_message *m)
{
	const struct msg_keep *key = (const struct msg_keep *)m->body;
	int fd = wire_take_fd(m, 0);

	if (fd < 0)
		return tarn_fail(EPROTO, "what was kept came without it");
	return kept_put(&server->kept, key, fd);
}
