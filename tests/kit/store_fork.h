/* SPDX-License-Identifier: MIT */
/*
 * A store that is held across fork().
 *
 * The tests find out whether a tensor is held in this way: the budget has room
 * for one large file, and another is refused as long as any process holds the
 * first.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <tarn/tarn.h>

#include "tests/kit/daemon_helper.h"

extern struct daemon kit_fork_daemon;
extern tarn_store *kit_fork_store;
extern tarn_file *kit_fork_one, *kit_fork_two; /* large, "b" */
extern tarn_file *kit_fork_small;              /* of a page, "b" */

void kit_fork_begin(void);
void kit_fork_end(void);

/* A tensor of the first file, which has no name, and whether its bytes are
 * those. */
tarn_tensor *kit_fork_get_one(void);
bool kit_fork_is_right(const tarn_tensor *t);

/* Is there room for the second file, as there is when no process holds the
 * first? Waits a while, since the end of a process is noticed after it. */
bool kit_fork_has_room(void);
bool kit_fork_gets_room(void);

/* Nobody can connect until kit_fork_show(). */
void kit_fork_hide(void);
void kit_fork_show(void);
int64_t kit_fork_clients(void);
/* Until all but this process have gone. */
bool kit_fork_is_alone(void);

/* Waits for that child: its exit status, or less than 0: the signal. */
int kit_fork_finished(pid_t pid);
