/* SPDX-License-Identifier: MIT */
/* Locks that a forked child finds free, and what they guard whole. */
#pragma once

#include <pthread.h>

struct fork_lock {
	pthread_mutex_t mutex;
	struct fork_lock *next, *before; /* of all of this process */
};

/* No thread may take one while it has another. */
void fork_lock_init(struct fork_lock *lock);
void fork_lock_end(struct fork_lock *lock);
