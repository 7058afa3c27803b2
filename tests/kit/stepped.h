/* SPDX-License-Identifier: MIT */
/* A child that is stopped after any number of instructions of a call. Where no
 * process can be traced, the test is skipped. One at a time. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Most instructions are AddressSanitizer's own there, and all take as long. */
#ifdef __SANITIZE_ADDRESS__
enum { STEPPED_STRIDE = 7 };
#else
enum { STEPPED_STRIDE = 1 };
#endif

/* Stopped before the call. */
pid_t stepped_start(void (*call)(void));
/* So many instructions. False: the call was through before. */
bool stepped_go(pid_t pid, int steps);
/* To its end; or that is it. */
void stepped_finish(pid_t pid);
void stepped_kill(pid_t pid);
