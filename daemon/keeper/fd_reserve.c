/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that are reserved for what the server gives to be held.
 *
 * A message that comes when the keeper has no descriptor left stays in the
 * socket, and with it all behind it; among these are the ones that would free
 * some: clients that are gone, descriptors that need not be held any more. So
 * the keeper would wait for what only its own reading can bring. A dead
 * server's messages it even waits for before the next server begins.
 *
 * So it has a few in reserve: each lets one more message in. They are taken
 * again when others are free.
 */
#include <sys/resource.h>

#include "base/checked.h"
#include "base/fd.h"
#include "daemon/keeper/keeper.h"

/* Few of what the keeper may have: clients take a quarter. */
#define PART 16u

static uint32_t wanted(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return KEEPER_RESERVE_MAX;
	return (uint32_t)MIN(KEEPER_RESERVE_MAX, limit.rlim_cur / PART);
}

/* Any descriptor does that has to stay open anyway. */
void keeper_reserve_take(struct keeper *keeper)
{
	struct keeper_reserve *reserve = &keeper->reserve;

	if (reserve->n == KEEPER_RESERVE_MAX)
		return;
	for (uint32_t want = wanted(); reserve->n < want; reserve->n++) {
		int fd = fd_dup(keeper->signal_fd);

		if (fd < 0)
			return;
		reserve->fds[reserve->n] = fd;
	}
}

bool keeper_reserve_give(struct keeper *keeper)
{
	if (!keeper->reserve.n)
		return false;
	fd_close(keeper->reserve.fds[--keeper->reserve.n]);
	return true;
}
