/* SPDX-License-Identifier: MIT */
/*
 * A load that is caught in its middle, on a machine of any speed: memory is
 * taken for it and its client was notified, but its loader, which is stopped
 * (SIGSTOP), has read nothing yet.
 *
 *	loader = stopped_load_begin(&daemon);
 *	... order a load ...
 *	stopped_load_await(&daemon, store, loader);
 *	... WIRE_LOADING comes, the storage is FILLING ...
 *	kill(loader, SIGCONT);
 *
 * There must be a loader already, with memory enough that was there before it,
 * and no other load.
 */
#pragma once

#include <sys/types.h>

#include <tarn/store.h>

#include "tests/kit/daemon_helper.h"

/* Stops the newest loader, which it returns. */
pid_t stopped_load_begin(const struct daemon *daemon);
/* From the time that the order was given on; store: another's, who asks. */
void stopped_load_await(
	const struct daemon *daemon, tarn_store *store, pid_t loader);
/* Continues a process until it has nothing more to do. */
void stopped_load_let_work(pid_t pid);
/* Kills a loader which has a load, and catches that load in the next one, which
 * it returns. */
pid_t stopped_load_next(
	const struct daemon *daemon, tarn_store *store, pid_t loader);
