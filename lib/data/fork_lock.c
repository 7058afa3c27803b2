// SPDX-License-Identifier: MIT
/*
 * A thread that has a lock at the moment of a fork does not exist in the child. So
 * all of these locks are taken before the fork, which is when what they guard is
 * whole, and given back on both sides.
 */
#include "lib/data/fork_lock.h"

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fork_lock *all;

static void before_fork(void)
{
	pthread_mutex_lock(&all_lock);
	for (struct fork_lock *l = all; l; l = l->next)
		pthread_mutex_lock(&l->mutex);
}

static void after_fork(void)
{
	for (struct fork_lock *l = all; l; l = l->next)
		pthread_mutex_unlock(&l->mutex);
	pthread_mutex_unlock(&all_lock);
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, after_fork);
}

void fork_lock_init(struct fork_lock *lock)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_forks);
	pthread_mutex_init(&lock->mutex, NULL);
	lock->before = NULL;
	pthread_mutex_lock(&all_lock);
	lock->next = all;
	if (all)
		all->before = lock;
	all = lock;
	pthread_mutex_unlock(&all_lock);
}

void fork_lock_end(struct fork_lock *lock)
{
	pthread_mutex_lock(&all_lock);
	if (lock->next)
		lock->next->before = lock->before;
	if (lock->before)
		lock->before->next = lock->next;
	else
		all = lock->next;
	pthread_mutex_unlock(&all_lock);
	pthread_mutex_destroy(&lock->mutex);
}
