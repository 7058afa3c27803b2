/* SPDX-License-Identifier: MIT */
/*
 * Restrictions that a daemon inherits from the process that starts it.
 *
 * A daemon that a client's library starts serves every process of its user,
 * long after that client has ended. Yet fork() and exec() hand on what that
 * client, or the job that it is of, was confined to: one core, one memory node,
 * a low priority, so many seconds of CPU time. What can be undone is undone
 * when the daemon starts. What cannot be undone, and makes it slow or ends it,
 * is logged and reported.
 *
 * A daemon that an administrator starts keeps what it was given, as it may be
 * meant; only soft limits are raised to the hard ones.
 */
#pragma once

#include <stdbool.h>

#define INHERITED_MAX 120 /* bytes with the NUL; a line or two */

/* To be called by the keeper, before it does anything else. automatic: a
 * client's library started it. ret: what is left, "nice 10; CPU time 3 s", or
 * "". */
void inherited_shed(bool automatic, char ret[INHERITED_MAX]);
