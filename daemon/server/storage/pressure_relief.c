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
 * Without descriptors, or while the kernel refuses to send any to the keeper, a
 * server that begins cannot have the kernel's reports: it asks again later.
 *
 * The keeper holds the triggers, too. The kernel takes ten milliseconds to end
 * one, and would take them at the end of a server that alone had it, while its
 * clients wait for the next.
 */
#include <errno.h>

#include "base/checked.h"
#include "base/fail.h"
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

/* ---- the kernel's reports ---------------------------------------------- */

/* Else there is no such trigger, neither now nor later. */
static bool is_shortage(int error)
{
	return error == -EMFILE || error == -ENFILE || error == -ENOMEM;
}

/* Of the server before this one, if it had it. *ret_fd: -1 is none. 0, or a
 * -errno: it may be had later. */
static int trigger(struct server *server, uint32_t which, int *ret_fd)
{
	const struct msg_fd_key key = {.kind = FD_OF_PRESSURE, .a = which};
	int fd = server_stored_fd(server, &key), r;

	*ret_fd = fd;
	if (fd >= 0 && !psi_ended(fd))
		return 0;
	if (fd >= 0)
		server_drop_fd(server, &key);
	*ret_fd = -1;
	fd = psi_open(which);
	if (fd < 0)
		return is_shortage(fd) ? fd : 0;
	r = server_store_fd(server, &key, fd);
	*ret_fd = r < 0 ? -1 : fd;
	return r;
}

/* 0, or a -errno: not all that can be watched is. */
static int watch_all(struct server *server)
{
	int fds[PSI_TRIGGERS], missing = 0;
	bool any = false;

	for (uint32_t i = 0; i < PSI_TRIGGERS; i++) {
		missing = MIN(missing, trigger(server, i, &fds[i]));
		any |= fds[i] >= 0;
	}
	psi_unwatch(server->psi);
	server->psi = psi_watch(server->loop, fds, on_stall, server);
	return any && !server->psi ? -ENOMEM : missing;
}

static void watch_again(void *arg)
{
	struct server *server = arg;

	if (watch_all(server) < 0)
		deadline_call(loop_deadlines(server->loop), &server->psi_timer,
			loop_now() + LOOK_NS, watch_again, server);
}

void pressure_relief_begin(struct server *server)
{
	int r = watch_all(server);

	if (r == 0)
		return;
	log_warning("stalls_unwatched", log_text("error", tarn_errno_text(-r)),
		log_text("text",
			"the kernel's reports of stalls cannot be had for now; "
			"they are asked for again every five seconds"));
	deadline_call(loop_deadlines(server->loop), &server->psi_timer,
		loop_now() + LOOK_NS, watch_again, server);
}

/* ---- the headroom ------------------------------------------------------- */

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
