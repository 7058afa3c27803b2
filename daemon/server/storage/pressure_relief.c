/* SPDX-License-Identifier: MIT */
/*
 * Frees the daemon's caches when memory is short: files without a holder, the
 * one used longest ago first, and empty segments.
 *
 * The kernel reports stalls when they happen; the server polls the headroom of
 * the machine and of its cgroups every few seconds, as long as there is
 * anything to give back.
 *
 * A stall may be that of a group of processes at its own limit, to which the
 * daemon does not belong: the machine's report does not show that. Memory that
 * would not help the stalled processes is not given back.
 *
 * The keeper holds the triggers, too. The kernel takes ten milliseconds to end
 * one, and would take them at the end of a server that alone had it, while its
 * clients wait for the next.
 */
#include "base/checked.h"
#include "base/headroom.h"
#include "daemon/loop/log.h"
#include "daemon/loop/psi.h"
#include "daemon/server/server.h"
#include "daemon/server/storage/pressure_relief.h"

/* Picked: some hundred microseconds each time. */
#define LOOK_NS 5000000000ull

uint64_t relief_wanted(uint64_t room, bool stalled, uint64_t reclaimable)
{
	uint64_t want = 0;

	if (room < PRESSURE_LOW || (stalled && room < PRESSURE_HIGH))
		want = PRESSURE_HIGH - room;
	if (stalled)
		want = MAX(want, reclaimable / 8);
	return MIN(want, reclaimable);
}

static void relieve(struct server *server, bool stalled)
{
	uint64_t reclaimable = reclaimable_bytes(server), room, want, given;

	if (!reclaimable || server->drain.draining || !server->serving)
		return;
	if (headroom(&room, NULL, 0) < 0)
		return;
	want = relief_wanted(room, stalled, reclaimable);
	if (!want)
		return;
	given = reclaim_give(server, want);
	/* Leased files, and those beside something that stays, give nothing. */
	if (given)
		log_info("pressure", log_u64("headroom", room),
			log_u64("stalled", stalled), log_u64("wanted", want),
			log_u64("given", given));
}

static void on_stall(void *arg)
{
	if (headroom_is_tight())
		relieve(arg, true);
}

/* Of the server before this one, if it had it. */
static int trigger(struct server *server, uint32_t which)
{
	const struct msg_fd_key key = {.kind = FD_OF_PRESSURE, .a = which};
	int fd = server_stored_fd(server, &key);

	if (fd >= 0 && !psi_ended(fd))
		return fd;
	if (fd >= 0)
		server_drop_fd(server, &key);
	fd = psi_open(which);
	return fd >= 0 && server_store_fd(server, &key, fd) >= 0 ? fd : -1;
}

void pressure_relief_begin(struct server *server)
{
	int fds[PSI_TRIGGERS];

	for (uint32_t i = 0; i < PSI_TRIGGERS; i++)
		fds[i] = trigger(server, i);
	server->psi = psi_watch(server->loop, fds, on_stall, server);
}

static void on_timer(void *arg)
{
	relieve(arg, false);
}

void pressure_relief_poll(struct server *server)
{
	if (server->pressure_timer.at || !reclaimable_bytes(server))
		return;
	deadline_call(loop_deadlines(server->loop), &server->pressure_timer,
		loop_now() + LOOK_NS, on_timer, server);
}
