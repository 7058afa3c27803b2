// SPDX-License-Identifier: MIT
/*
 * Datasets of a process that forks. The child may read from them. A thread that has
 * the lock of one at that moment does not exist in the child; so the locks of all are
 * taken before the fork, which is when their plans are whole, and given back on both
 * sides.
 */
#include "lib/data/dataset.h"

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tarn_data *all;

static void before_fork(void)
{
	pthread_mutex_lock(&all_lock);
	for (struct tarn_data *d = all; d; d = d->next)
		pthread_mutex_lock(&d->lock);
}

static void after_fork(void)
{
	for (struct tarn_data *d = all; d; d = d->next)
		pthread_mutex_unlock(&d->lock);
	pthread_mutex_unlock(&all_lock);
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, after_fork);
}

void data_fork_add(struct tarn_data *data)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&all_lock);
	data->next = all;
	if (all)
		all->before = data;
	all = data;
	pthread_mutex_unlock(&all_lock);
}

void data_fork_remove(struct tarn_data *data)
{
	pthread_mutex_lock(&all_lock);
	if (data->next)
		data->next->before = data->before;
	if (data->before)
		data->before->next = data->next;
	else
		all = data->next;
	pthread_mutex_unlock(&all_lock);
}
