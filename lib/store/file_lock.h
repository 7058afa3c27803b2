/* SPDX-License-Identifier: MIT */
/*
 * A reader/writer lock on a file, between processes and their threads, which
 * the kernel takes from whoever dies.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct file_lock {
	pthread_mutex_t lock; /* everything below */
	pthread_cond_t freed; /* by a thread of this process */
	/* An open file description of this process alone, and never mapped;
	 * -1: to be had yet. */
	int fd;
	bool may_write; /* fd is open for writing */
	uint32_t readers;
	bool writing;
	pthread_t writer;
	const void *gate; /* the waiter of this process that has it */
	struct file_lock *next, *before; /* all of this process */
};

int file_lock_new(struct file_lock **ret);
struct file_lock *file_lock_free(struct file_lock *lock);

/* Without a descriptor nothing can be locked: at first, and in a child. set
 * takes fd, which must be the only one of its open file description. */
bool file_lock_has_fd(struct file_lock *lock);
void file_lock_set_fd(struct file_lock *lock, int fd);

/* 0; -ETIMEDOUT, after timeout_ms (negative: never); -EROFS: the descriptor is
 * for reading; -EDEADLK: this thread is writing. With a sentence each. */
int file_lock_take(struct file_lock *lock, bool write, int timeout_ms);
/* -EPERM: this thread cannot have taken it. */
int file_lock_give(struct file_lock *lock);
