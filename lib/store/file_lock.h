/* SPDX-License-Identifier: MIT */
/*
 * A reader/writer lock on a file, between processes and their threads, which
 * the kernel releases when a holder dies.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct file_lock {
	pthread_mutex_t lock; /* guards everything below */
	pthread_cond_t freed; /* by a thread of this process */
	/* An open file description of this process alone, and never mapped; -1:
	 * not opened yet. */
	int fd;
	bool may_write; /* fd is open for writing */
	uint32_t readers;
	bool writing;
	pthread_t writer;
	const void *gate; /* the waiter of this process that holds it */
	struct file_lock *next, *before; /* all of this process */
};

int file_lock_new(struct file_lock **ret);
struct file_lock *file_lock_free(struct file_lock *lock);

/* Is there a descriptor? Without one, as at first and in a child, nothing can
 * be locked. set takes fd, which must be the only one of its open file
 * description. */
bool file_lock_has_fd(struct file_lock *lock);
void file_lock_set_fd(struct file_lock *lock, int fd);

/* 0; -ETIMEDOUT, after timeout_ms (negative: never); -EROFS: the descriptor is
 * read-only; -EDEADLK: this thread holds it for writing. Each with a
 * sentence. */
int file_lock_take(struct file_lock *lock, bool write, int timeout_ms);
/* The same. Unless it is NULL, look is called about every 50 ms of the wait,
 * without a mutex: what it returns, unless that is 0, ends the wait, and is
 * returned. A waiting writer keeps its place meanwhile. */
int file_lock_take_while(struct file_lock *lock, bool write, int timeout_ms,
	int (*look)(void *arg), void *arg);
/* Releases it. -EPERM: this thread cannot have taken it. */
int file_lock_give(struct file_lock *lock);
