/* SPDX-License-Identifier: MIT */
/*
 * A store that is held across fork().
 *
 * What is held is seen by this: the budget has room for one large file, and
 * another is refused as long as anybody holds the first.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <tarn/tarn.h>

#include "tests/daemon_helper.h"

extern struct daemon kit_daemon;
extern tarn_store *kit_store;
extern tarn_file *kit_one, *kit_two; /* large, "b" */
extern tarn_file *kit_small;         /* of a page, "b" */

void kit_begin(void);
void kit_end(void);

/* A tensor of the first file, which has no name, and whether its bytes are
 * those. */
tarn_tensor *kit_get_one(void);
bool kit_is_right(const tarn_tensor *t);

/* Is there room for the second file, as there is when nobody holds the first?
 * And before long, since the end of a process is noticed after it? */
bool kit_has_room(void);
bool kit_gets_room(void);

int64_t kit_clients(void);
/* Until all but this process have gone. */
bool kit_is_alone(void);

/* Waits for that child: its exit status, or less than 0: the signal. */
int kit_finished(pid_t pid);
