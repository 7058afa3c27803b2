/* SPDX-License-Identifier: MIT */
/*
 * A load that is caught in its middle, however fast the machine is, and however
 * slow the test: memory is taken for it and its client has been told so, but
 * its loader, which is stopped (SIGSTOP), has read nothing yet.
 *
 *	loader = catch_begin(&daemon);
 *	... order a load ...
 *	catch_load(&daemon, store, loader);
 *	... WIRE_LOADING comes, the storage is FILLING ...
 *	kill(loader, SIGCONT);
 *
 * There must be a loader already, with memory enough that was there before it,
 * and no other load.
 */
#pragma once

#include <sys/types.h>

#include <tarn/store.h>

#include "tests/daemon_helper.h"

/* Stops the newest loader, which it returns. */
pid_t catch_begin(const struct daemon *daemon);
/* From the time that the order was given on; store: another's, who asks. */
void catch_load(const struct daemon *daemon, tarn_store *store, pid_t loader);
/* Kills a loader which has a load, and catches that load in the next one, which
 * it returns. */
pid_t catch_next(const struct daemon *daemon, tarn_store *store, pid_t loader);
