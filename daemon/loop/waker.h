/* SPDX-License-Identifier: MIT */
/*
 * A thread that wakes the processes which wait on words of shared memory, where
 * they may be too many for the thread that serves everybody (shm/wake.h).
 *
 * It wakes a batch on each word in turn, until no word has a full batch: so a
 * crowd on one word delays the waits on others by no more than a batch, and no
 * call keeps the kernel's lock on the word for long.
 */
#pragma once

/* From now on this process leaves waits to its waker, whose thread is started
 * when it is first needed. One for a process. */
void waker_begin(void);
/* Ends it, with what it was left: the process gives up those words. */
void waker_end(void);
