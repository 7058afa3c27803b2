/* SPDX-License-Identifier: MIT */
/*
 * The adaptive lock keeps out every thread that does not have it: also one that was
 * made while the only one had it, which took it without a locked instruction;
 * and many that count in turn lose no count.
 */
#include "lib/channel/adaptive_lock.h"

#include <pthread.h>
#include <time.h>

#include "tests/kit/tap.h"

#define THREADS 4
#define EACH 20000
#define WAIT_NS 20000000

static struct adaptive_lock lock;
static atomic_bool began, entered;
static int counted; /* with the lock */

static void *enter(void *arg)
{
	began = true;
	adaptive_lock_take(&lock);
	entered = true;
	adaptive_lock_give(&lock);
	return arg;
}

static void test_later(void)
{
	const struct timespec nap = {.tv_nsec = WAIT_NS};
	pthread_t thread;

	adaptive_lock_take(&lock);
	pthread_create(&thread, NULL, enter, NULL);
	while (!began)
		nanosleep(&nap, NULL);
	nanosleep(&nap, NULL);
	ok(!entered,
		"a thread that comes later waits for the only one before it");
	adaptive_lock_give(&lock);
	pthread_join(thread, NULL);
	ok(entered, "a thread that waited for the only one gets the lock");
}

static void *count(void *arg)
{
	for (int i = 0; i < EACH; i++) {
		adaptive_lock_take(&lock);
		counted++;
		adaptive_lock_give(&lock);
	}
	return arg;
}

static void test_counts(void)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, count, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	is_int(THREADS * EACH, counted, "no count is lost among the threads");
}

int main(void)
{
	test_later();
	test_counts();
	return done(3);
}
