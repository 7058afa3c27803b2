/* SPDX-License-Identifier: MIT */
/*
 * A verb that runs until the user ends it, with Ctrl-C or by closing what the
 * verb writes to. That is its normal end, and leaves the terminal as it was.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* From here on SIGINT and SIGTERM end the verb, unless they were ignored; a
 * second one ends the process (ending.h). */
void live_begin(void);

/* Called by the signal's handler too, so it may use async-signal-safe calls
 * only: puts the terminal back, since a second signal ends the process. */
void live_on_end(void (*restore)(void));

/* Has it ended? Costs a system call. */
bool live_ended(void);

/* Sleeps. False: it has ended. */
bool live_nap(double seconds);

/* Sleeps until one of these; or a key was pressed, which is returned as its
 * byte: keys is a terminal's descriptor, or -1. */
enum { LIVE_ENDED = -1, LIVE_TIME = -2, LIVE_RESIZED = -3 };
int live_wait(double seconds, int keys);

/* Nanoseconds on a clock that does not jump. */
int64_t live_now(void);
