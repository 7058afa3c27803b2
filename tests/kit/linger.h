/* SPDX-License-Identifier: MIT */
/*
 * A TCP socket that lingers: the last close() of it blocks for an hour, as its
 * peer does not read, or until a signal comes.
 */
#pragma once

/* At most 16 at once. -1: there is no TCP on the loopback interface. */
int lingering(void);
/* The peers of all go, and nothing waits for them any more. */
void let_go(void);
