/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that the server gave the keeper to hold, since a table or a client
 * depends on them. The keeper does not know what they are; it hands them to the
 * next server, which knows from its tables which of them still count. Their
 * number has no limit here: see loop/fd_store.c. What may block when it is closed
 * goes to the dropper.
 */
#include "daemon/keeper/keeper.h"

#include "base/fail.h"
#include "base/fd.h"

int keeper_store_fd(struct keeper *keeper, struct wire_message *m)
{
	const struct msg_fd_key *key = (const struct msg_fd_key *)m->body;
	int fd = wire_take_fd(m, 0);

	if (fd < 0)
		return tarn_fail(EPROTO, "nothing came to be kept");
	return fd_store_put(&keeper->fd_store, key, fd);
}

void keeper_forget_fd(struct keeper *keeper, const struct msg_fd_key *key)
{
	int fd = fd_store_take(&keeper->fd_store, key);

	if (key->kind == FD_OF_DEVICE)
		keeper_drop(keeper, fd);
	else
		fd_close(fd);
}

static void replay_one(void *arg, const struct stored_fd *stored)
{
	keeper_replay(arg, D_STORED_FD, &stored->key, sizeof(stored->key),
		&stored->fd, 1);
}

void keeper_fds_replay(struct keeper *keeper)
{
	fd_store_each(&keeper->fd_store, replay_one, keeper);
}
