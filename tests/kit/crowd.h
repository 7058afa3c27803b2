/* SPDX-License-Identifier: MIT */
/* Many waits on one futex, of one process: it queues them through io_uring. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CROWD_MAX 4096u

struct crowd {
	int fd;
	void *ring; /* both queues */
	unsigned long size;
	unsigned woken;
	_Atomic uint32_t *head; /* of the completions */
	const _Atomic uint32_t *tail;
};

/* n waits for the word to change from what it is now, which need not be
 * writable. NULL, or why that cannot be done here. */
const char *crowd_begin(
	struct crowd *crowd, const _Atomic uint32_t *word, unsigned n);
/* How many have been woken so far. */
unsigned crowd_woken(struct crowd *crowd);
/* Are so many woken, in the end? */
bool crowd_is_woken(struct crowd *crowd, unsigned n);
void crowd_end(struct crowd *crowd);
