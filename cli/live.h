/* SPDX-License-Identifier: MIT */
/*
 * What goes on until somebody ends it, with Ctrl-C or by closing what it
 * writes to: a verb that has shown what it was asked for is done, and leaves
 * the terminal as it was.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* From here on SIGINT and SIGTERM end what goes on, where they were not
 * ignored; a second one ends the process (ending.h). */
void live_begin(void);

/* Is it over? Costs a system call. */
bool live_ended(void);

/* Sleeps. False: it is over. */
bool live_nap(double seconds);

/* Nanoseconds on a clock that does not jump. */
int64_t live_now(void);
