/* SPDX-License-Identifier: MIT */
/*
 * What the server gave the keeper to hold: memfds that a table, or a client,
 * depends on. The keeper does not know what they are; it hands them to the
 * next server, which knows from its tables which of them still count. There is
 * room for whatever comes: see kept.c.
 */
#include "daemon/keeper.h"

#include "base/fail.h"

int keeper_keep(struct keeper *keeper, struct wire_message *m)
{
	const struct msg_keep *key = (const struct msg_keep *)m->body;
	int fd = wire_take_fd(m, 0);

	if (fd < 0)
		return tarn_fail(EPROTO, "nothing came to be kept");
	return kept_put(&keeper->kept, key, fd);
}

static void tell(void *arg, const struct kept *kept)
{
	keeper_replay(arg, D_KEPT, &kept->key, sizeof(kept->key), &kept->fd, 1);
}

void keeper_kept_tell(struct keeper *keeper)
{
	kept_each(&keeper->kept, tell, keeper);
}
