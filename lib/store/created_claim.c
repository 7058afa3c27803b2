/* SPDX-License-Identifier: MIT */
/*
 * One publication at a time of each created storage.
 *
 * A publisher freezes it, hands it over and turns it into another kind of
 * storage, and a second thread must see it before all that or after it. So a
 * call claims all its storages before it looks at any of them, all at once, or
 * waits until it can: a waiting call holds no claim that another may wait for.
 *
 * A claim carries the number of the process in a line of forks: a thread that
 * had one when its process forked does not exist in the child, whose number is
 * another.
 */
#include <pthread.h>

#include <tarn/publish.h>

#include "lib/store/created.h"
#include "lib/store/device_storage.h"
#include "lib/tensor/tensor.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t freed = PTHREAD_COND_INITIALIZER;
static unsigned process = 1;

/* ---- forks ----------------------------------------------------------- */

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
	pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
	process++;
	pthread_cond_init(&freed, NULL); /* no thread of this process waits */
	pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, in_parent, in_child);
}

/* ---- claims, with the lock held --------------------------------------- */

/* NULL: it is not claimed. A device's is one of a store's by the time that it is
 * given back. */
static unsigned *claim_of(const tarn_storage *storage)
{
	struct device_storage *device = device_storage_of(storage);
	struct created *created = created_of(storage);

	if (device)
		return &device->claimed;
	return created ? &created->claimed : NULL;
}

static bool is_claimed(const struct tarn_publish_item *items, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const tarn_storage *storage = items[i].tensor->storage;
		const unsigned *claim = claim_of(storage);

		/* What is published only gets another name. */
		if (claim && *claim == process && !store_storage_of(storage))
			return true;
	}
	return false;
}

static void set_claims(
	const struct tarn_publish_item *items, size_t n, unsigned claimed)
{
	for (size_t i = 0; i < n; i++) {
		unsigned *claim = claim_of(items[i].tensor->storage);

		if (claim)
			*claim = claimed;
	}
}

void created_claim(const struct tarn_publish_item *items, size_t n)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&lock);
	while (is_claimed(items, n))
		pthread_cond_wait(&freed, &lock);
	set_claims(items, n, process);
	pthread_mutex_unlock(&lock);
}

void created_unclaim(const struct tarn_publish_item *items, size_t n)
{
	pthread_mutex_lock(&lock);
	set_claims(items, n, 0);
	pthread_cond_broadcast(&freed);
	pthread_mutex_unlock(&lock);
}

void created_turn(tarn_storage *storage, struct shared_storage *shared)
{
	struct created *created = created_of(storage);

	pthread_mutex_lock(&lock);
	store_storage_turn(storage, shared);
	pthread_mutex_unlock(&lock);
	created_forget(created);
}

void created_turn_device(tarn_storage *storage, struct shared_storage *shared)
{
	pthread_mutex_lock(&lock);
	store_storage_turn(storage, shared);
	pthread_mutex_unlock(&lock);
}
