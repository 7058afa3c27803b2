/* SPDX-License-Identifier: MIT */
/*
 * A thread for what may take a while and touches a client's memory only:
 * sealing it (pages that are pinned hold the kernel up for a tenth of a
 * second, a client that grows its memfd for as long as it likes), copying it.
 *
 * There is one for each domain, so that a user delays only its own work. Work
 * is done in order, and the loop reports its result.
 */
#pragma once

struct loop;
struct worker;

/* Belongs to the caller, which frees it after done was called, not before. */
struct work {
	struct work *next;
	void (*run)(struct work *work);  /* in the thread */
	void (*done)(struct work *work); /* in the loop, or by worker_free */
};

int worker_new(struct loop *loop, struct worker **ret);
/* -EAGAIN: no thread can be started; nothing will be called. */
int worker_give(struct worker *worker, struct work *work);
/* Waits for what is being run; what was not begun is done without. */
struct worker *worker_free(struct worker *worker);
