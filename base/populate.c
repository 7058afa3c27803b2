/* SPDX-License-Identifier: MIT */
/*
 * Filling the page tables of a range before it is read.
 *
 * A page fault for every 64 KiB costs more than the reading does; one call that
 * maps a whole stretch costs a tenth. Threads take stretches from a common
 * counter, so that a slow one does not hold up the others.
 */
#include "base/populate.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"

/* Large enough that the cost of the calls does not matter, small enough to
 * divide among threads. Picked. */
#define STRETCH (32ull << 20)
#define THREADS_MAX                                                            \
	64 /* the page-table lock is one for all; more threads only
		        * wait */

struct job {
	unsigned char *addr; /* page-aligned */
	uint64_t size;
	_Atomic uint64_t next; /* the first byte that no thread has taken */
	_Atomic int error;     /* an errno of any thread, or 0 */
};

/* For kernels before 5.14, and for valgrind, which does not know the advice. */
static void touch(const volatile unsigned char *p, uint64_t size, long page)
{
	for (uint64_t i = 0; i < size; i += (uint64_t)page)
		(void)p[i];
}

static void *populate_some(void *arg)
{
	struct job *job = arg;
	long page = sysconf(_SC_PAGESIZE);

	for (;;) {
		/* Relaxed: the counter is the only shared data, and it is
		 * atomic. */
		uint64_t at = atomic_fetch_add_explicit(
			&job->next, STRETCH, memory_order_relaxed);
		uint64_t n = MIN(STRETCH, job->size - MIN(at, job->size));

		if (n == 0)
			return NULL;
		if (madvise(job->addr + at, n, MADV_POPULATE_READ) == 0)
			continue;
		if (errno == EINVAL)
			touch(job->addr + at, n, page);
		else
			/* Relaxed: read after the join. */
			atomic_store_explicit(
				&job->error, errno, memory_order_relaxed);
	}
}

int populate_read(void *addr, uint64_t size, int threads)
{
	struct job job = {.addr = addr, .size = size};
	pthread_t ids[THREADS_MAX];
	int n = 0;

	threads = MIN(MAX(threads, 1), THREADS_MAX);
	/* This thread takes part. If fewer threads start than were asked for,
	 * it is only slower. */
	while (n < threads - 1 && (uint64_t)(n + 1) * STRETCH < job.size &&
		pthread_create(&ids[n], NULL, populate_some, &job) == 0)
		n++;
	populate_some(&job);
	while (n > 0)
		pthread_join(ids[--n], NULL);
	return atomic_load_explicit(&job.error, memory_order_relaxed);
}
