/* SPDX-License-Identifier: MIT */
/* What a test left behind: for tests/run.c, which reaps its orphans. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

double seconds_now(void);

/* Before the test starts: folder is its own, and its last part the id that
 * names in places for all carry. folder must stay. */
void left_begin(const char *folder);

/* Collects the dead; true while any child lives. Where wanted was among them,
 * its status is set, and *ret_seen. */
bool left_reap(pid_t wanted, int *ret_status, bool *ret_seen);

/* Those that run now, as a sentence; "" for none. */
const char *left_processes(void);

/* After the test: gives what is ending a moment, then says what is left as a
 * sentence, "" for nothing, and ends the processes. */
const char *left_behind(void);

/* Has all descendants end by SIGQUIT: those in Python say on stderr where each of
 * their threads is (tests/kit/tap.py). */
void left_ask_where(void);

/* Ends all descendants; removes the folder, and what has the id in its name. */
void left_kill(void);
void left_remove(void);
