/* SPDX-License-Identifier: MIT */
/*
 * Populating a segment.
 *
 * There are two ways to have the pages of a memfd. fallocate() takes them from
 * the system, charges them and puts them into the file, but leaves them as they
 * are: the kernel clears each at the first fault, which needs no memory any
 * more and so cannot fail; a read() sees zeros until then. That takes less than
 * half of the CPU time of a fault on a page that is not there, which allocates
 * and clears it and fills in an entry of a mapping that ends with this process.
 * What is left, the clearing, is done by the process that fills the memory
 * while it reads (loader/pages.c). But the file's lock lets only one thread
 * allocate at a time, while faults can run in parallel. So one thread allocates
 * from the front, where the first load begins, and the others fault from the
 * back, until they meet.
 *
 * Where shared memory can have transparent huge pages there are faults alone:
 * the advice to use them is given to a mapping, and a huge page costs one. So
 * it is where a machine has several nodes: what was allocated without a fault
 * cannot be asked for its node.
 *
 * Two things would leave CPUs idle at the end. A thread that is done waits for
 * those that still work: so the parts become smaller towards the end. And a
 * process that ends drops its page tables by one thread, while the keeper
 * waits for it: for pages of 4 KiB that takes an eighth of the time that
 * the faults took. So each thread drops the entries of its part when the part
 * is there, unless they are asked about afterwards.
 */
#include "daemon/keeper/populate.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/cpus.h"
#include "base/headroom.h"
#include "base/nodes.h"
#include "base/page.h"
#include "base/shmem_huge.h"
#include "daemon/keeper/keeper.h"

enum {
	/* The kernel clears some GiB a second and thread: memory, not the CPU,
	 * is the limit from a few threads on. */
	THREADS = 4,
};

/* How far past the headroom a thread may go. To look at the headroom takes as
 * long as 100 KiB do: nothing beside the least part, which is SEGMENT_UNIT. */
#define STEP_MAX (16ull << 20)

struct populate {
	int fd;
	char *addr;
	bool reserved;
	bool drops;           /* its entries are of no use to anyone */
	int node;             /* -1: any */
	pthread_mutex_t lock; /* of all below */
	uint64_t front, back; /* no thread has begun the pages between */
	int error;
};

/* ---- both ways ------------------------------------------------------- */

/* Whether all of it could be had. A signal, SIGSTOP too, interrupts it. */
static bool allocate(int fd, uint64_t at, uint64_t size)
{
	int r;

	do
		r = fallocate(fd, 0, (off_t)at, (off_t)size);
	while (r < 0 && errno == EINTR);
	return r == 0;
}

/* Of a node that runs out the kernel kills, as it does of a cgroup. */
static bool is_full(const struct populate *p, uint64_t size)
{
	return p->node >= 0 && node_room("", p->node, PAGE) < size;
}

/* If the pages cannot be allocated, a fault at one gives the reason. */
static int have(struct populate *p, bool allocating, uint64_t at, uint64_t size)
{
	if (!p->reserved && (headroom_check(size) < 0 || is_full(p, size)))
		return ENOSPC;
	if (allocating && allocate(p->fd, at, size))
		return 0;
	if (madvise(p->addr + at, size, MADV_POPULATE_WRITE) < 0)
		return errno == EFAULT ? ENOMEM : errno;
	/* The pages stay in the file. */
	if (p->drops)
		(void)madvise(p->addr + at, size, MADV_DONTNEED);
	return 0;
}

/* ---- threads --------------------------------------------------------- */

/* A thread's share of half of what is left: the others are done at nearly the
 * same time as the last one. */
static uint64_t step_of(uint64_t left)
{
	uint64_t step = left / (2ull * THREADS) & ~(SEGMENT_UNIT - 1);

	return MIN(left, MIN(MAX(step, SEGMENT_UNIT), STEP_MAX));
}

/* The next part from either end; 0: there is none. */
static uint64_t claim(struct populate *p, bool allocating, uint64_t *ret_at)
{
	uint64_t n;

	pthread_mutex_lock(&p->lock);
	n = p->error ? 0 : step_of(p->back - p->front);
	if (allocating) {
		*ret_at = p->front;
		p->front += n;
	} else {
		p->back -= n;
		*ret_at = p->back;
	}
	pthread_mutex_unlock(&p->lock);
	return n;
}

/* From that part on, until none is left. */
static void work(struct populate *p, bool allocating, uint64_t at, uint64_t n)
{
	for (; n > 0; n = claim(p, allocating, &at)) {
		int error = have(p, allocating, at, n);

		if (!error)
			continue;
		pthread_mutex_lock(&p->lock);
		p->error = p->error ? p->error : error;
		pthread_mutex_unlock(&p->lock);
	}
}

static void *help(void *arg)
{
	uint64_t at, n = claim(arg, false, &at);

	work(arg, false, at, n);
	return NULL;
}

static int populate_on(int fd, void *addr, uint64_t size, bool reserved,
	bool may_allocate, bool drops, int node)
{
	struct populate p = {
		.fd = fd,
		.addr = addr,
		.reserved = reserved,
		.drops = drops,
		.node = node,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.back = size,
	};
	int n = MIN(cpus_allowed(), (int)THREADS) - 1, started = 0;
	pthread_t threads[THREADS];
	uint64_t at, first = claim(&p, may_allocate, &at);

	while (started < n &&
		pthread_create(&threads[started], NULL, help, &p) == 0)
		started++;
	work(&p, may_allocate, at, first);
	while (started > 0)
		pthread_join(threads[--started], NULL);
	return p.error;
}

int populate_by(
	int fd, void *addr, uint64_t size, bool may_allocate, bool faulted)
{
	return populate_on(fd, addr, size, false, may_allocate, !faulted, -1);
}

int populate(int fd, void *addr, uint64_t size, bool reserved, bool faulted,
	int node)
{
	/* No question about pages that can only be of 4 KiB, on one node. */
	bool plain = !reserved && !faulted && shmem_huge_pages("") == 0;

	return populate_on(fd, addr, size, reserved, plain, plain, node);
}
