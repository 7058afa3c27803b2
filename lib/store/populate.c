/* SPDX-License-Identifier: MIT */
/*
 * Filling the page tables of a range before it is read.
 *
 * The idea: a fault per 64 KiB costs more than the reading does; one call
 * that maps a whole stretch costs a tenth. Threads take stretches from a
 * common counter, so that a slow one holds up nobody.
 */
#include "lib/store/populate.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tarn/store.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/tensor/tensor.h"

/* Large enough that the calls do not count, small enough to share out. */
#define STRETCH (32ull << 20)
#define THREADS_MAX 64 /* the page-table lock is one; more only wait */

struct job {
	unsigned char *addr; /* page-aligned */
	uint64_t size;
	_Atomic uint64_t next; /* the first byte that nobody has taken */
	_Atomic int error;     /* of any thread; 0 */
};

/* Before Linux 5.14, and under valgrind, which does not know the advice. */
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
		/* Relaxed: the counter alone is shared, and it is atomic. */
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
	/* This thread is one of them; with fewer than asked for it is only
	 * slower. */
	while (n < threads - 1 && (uint64_t)(n + 1) * STRETCH < job.size &&
		pthread_create(&ids[n], NULL, populate_some, &job) == 0)
		n++;
	populate_some(&job);
	while (n > 0)
		pthread_join(ids[--n], NULL);
	return atomic_load_explicit(&job.error, memory_order_relaxed);
}

int tarn_store_populate(
	tarn_store *store, const tarn_tensor *tensor, int threads)
{
	const struct tarn_layout *layout = &tensor->layout;
	unsigned char *data = tarn_tensor_origin(tensor);
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	int64_t first, count, bits = tarn_dtype_bits(layout->dtype);
	uintptr_t start, end;
	unsigned char *at;
	uint64_t size;
	int r;

	if (!storage_by_address(tensor->storage))
		return tarn_fail(EINVAL,
			"populate: the tensor is in a file; load it first");
	if (threads < 0)
		return tarn_fail(EINVAL, "populate: %d threads", threads);
	tarn_layout_bounds(layout, &first, &count);
	if (count == 0)
		return 0;
	/* The reach fits: it was checked when the tensor was made. */
	start = (uintptr_t)data + (uint64_t)(first * bits / 8);
	end = (uintptr_t)data + (uint64_t)(((first + count) * bits + 7) / 8);
	at = (unsigned char *)(start & ~(page - 1));
	size = ((end + page - 1) & ~(page - 1)) - (uintptr_t)at;
	r = populate_read(at, size, threads);
	if (r)
		return tarn_fail(r, "populate: %llu bytes: %s",
			(unsigned long long)size, tarn_errno_text(r));
	return 0;
}
