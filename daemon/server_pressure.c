/* SPDX-License-Identifier: MIT */
/*
 * What is kept for convenience goes when memory is short: files that nobody
 * holds, the one used longest ago first, and segments in which nothing lies.
 *
 * The kernel tells of stalls when they happen; the headroom of the machine and
 * of our cgroups is looked at every few seconds, as long as there is anything
 * to give.
 *
 * A stall may be that of a group of processes at a limit of its own, which is
 * none of ours: the machine's word on stalls does not say. What would not reach
 * who waits is not given.
 *
 * The keeper holds the triggers, too. The kernel takes ten milliseconds to end
 * one, and would take them at the end of a server that alone had it, while its
 * clients wait for the next.
 */
#include "base/checked.h"
#include "base/headroom.h"
#include "daemon/log.h"
#include "daemon/pressure.h"
#include "daemon/server.h"

#define LOOK_NS                                                                \
	5000000000ull /* picked: some hundred microseconds each time           \
		       */

static void relieve(struct server *server, bool stalled)
{
	uint64_t givable = room_givable(server), room, want, given;

	if (!givable || server->draining || !server->serving)
		return;
	if (headroom(&room, NULL, 0) < 0)
		return;
	want = pressure_relief(room, stalled, givable);
	if (!want)
		return;
	given = room_give(server, want);
	/* What is leased, or beside something that stays, is not to be had. */
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
	const struct msg_keep key = {.kind = KEEP_PRESSURE, .a = which};
	int fd = server_kept(server, &key);

	if (fd >= 0 && !pressure_ended(fd))
		return fd;
	if (fd >= 0)
		server_forget(server, &key);
	fd = pressure_open(which);
	return fd >= 0 && server_keep(server, &key, fd) >= 0 ? fd : -1;
}

void server_pressure_begin(struct server *server)
{
	int fds[PRESSURE_TRIGGERS];

	for (uint32_t i = 0; i < PRESSURE_TRIGGERS; i++)
		fds[i] = trigger(server, i);
	server->pressure = pressure_watch(server->loop, fds, on_stall, server);
}

uint64_t server_pressure_look(struct server *server, uint64_t now)
{
	if (!room_givable(server)) {
		server->pressure_at = 0;
		return 0;
	}
	if (!server->pressure_at)
		server->pressure_at = now + LOOK_NS;
	if (now >= server->pressure_at) {
		server->pressure_at = now + LOOK_NS;
		relieve(server, false);
	}
	return server->pressure_at;
}
