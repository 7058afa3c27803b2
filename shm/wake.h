/* SPDX-License-Identifier: MIT */
/*
 * Waking the processes that wait on a futex in shared memory.
 *
 * Any process that may read the word can wait on it, also on a read-only
 * mapping, and with io_uring one process can have half a million waits on one
 * word. Waking all of them takes a third of a second, in one call that nothing
 * interrupts. A process that others depend on leaves that to a thread: see
 * daemon/loop/waker.h.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What is woken in the thread that has changed something. Picked: more than
 * usually wait on a machine, and some 50 microseconds, no more than what most
 * changes take themselves. */
#define WAKE_AT_ONCE 128u

/* Wakes WAKE_AT_ONCE at most; returns how many were woken. */
unsigned wake_some(_Atomic uint32_t *word);
/* Wakes WAKE_AT_ONCE and leaves the others to the helper named below. */
void wake_all(_Atomic uint32_t *word);

/* From now on this process leaves waits to fn, which returns false where it
 * cannot have them woken; NULL: it wakes all by itself, as in the beginning. To
 * be called while it has one thread that wakes. */
typedef bool (*wake_fn)(_Atomic uint32_t *word);
void wake_leave_to(wake_fn fn);
/* Is there somebody? */
bool wake_is_left(void);
/* Leaves all waits on the word to that; false: the caller has to wake them. */
bool wake_leave(_Atomic uint32_t *word);
