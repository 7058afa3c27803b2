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
 * while it reads (loader/pages.c). The file's lock lets only one thread
 * allocate at a time, and that is enough: threads that fault meanwhile take
 * memory and locks from it, so that all take longer together. What cannot be
 * allocated is faulted in, in parallel.
 *
 * From Linux 6.1 on there is a third, which takes a tenth of the time of
 * allocating and clearing small pages: a huge page is made of what lies in a
 * range (MADV_COLLAPSE), and if that is a single page, it is cleared and hardly
 * anything copied. The kernel does so on request also where shmem_enabled is
 * never, as it is by default; where that is deny, it is not asked. Where memory
 * is in pieces the kernel would move others out of the way, for as long as that
 * takes; and a guest's host may have taken back what was free in large pieces, and
 * takes its time to give it again. So the first stretch that comes late is the
 * last.
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
#include "base/clock.h"
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
 * long as 100 KiB do by faults, and 400 KiB allocated. */
#define STEP_MAX (16ull << 20)
#define STEP_ALONE (32ull << 20)

struct populate {
	int fd;
	char *addr;
	bool reserved;
	bool drops;       /* its entries are of no use to anyone */
	int node;         /* -1: any */
	uint64_t late_ns; /* a stretch of huge pages that took so long is the
			       * last */
	pthread_mutex_t lock; /* of all below */
	uint64_t at, size;    /* no thread has begun the pages between */
	int error;
};

/* Of a node that runs out the kernel kills, as it does of a cgroup. */
static bool has_room(const struct populate *p, uint64_t size)
{
	return p->reserved ||
	       (headroom_check(size) == 0 &&
		       (p->node < 0 || node_room("", p->node, PAGE) >= size));
}

/* ---- allocating ------------------------------------------------------ */

/* Whether all of it could be had. A signal, SIGSTOP too, interrupts it. */
static bool allocate(int fd, uint64_t at, uint64_t size)
{
	int r;

	do
		r = fallocate(fd, 0, (off_t)at, (off_t)size);
	while (r < 0 && errno == EINTR);
	return r == 0;
}

/* As far as that goes: if pages cannot be allocated, a fault at one gives the
 * reason. No other thread runs yet. */
static void allocate_all(struct populate *p)
{
	while (p->at < p->size) {
		uint64_t n = MIN(p->size - p->at, STEP_ALONE);

		if (!has_room(p, n))
			p->error = ENOSPC;
		if (p->error || !allocate(p->fd, p->at, n))
			return;
		p->at += n;
	}
}

/* ---- collapsing ------------------------------------------------------- */

/* For so many bytes: twice as long as they take in small pages, allocated here
 * and cleared by the loader. */
#define LATE_NS 50000000ull
static_assert(STEP_ALONE == 32ull << 20, "of which LATE_NS speaks");

/* One page of each huge one, since the kernel makes none of nothing. */
static bool seed(char *addr, uint64_t size)
{
	bool there = true;

	for (uint64_t i = 0; there && i < size; i += HUGE_PAGE)
		there = madvise(addr + i, PAGE, MADV_POPULATE_WRITE) == 0;
	return there;
}

/* As far as that goes. What was begun is in the file, and the next way finds it
 * there. */
static void collapse_all(struct populate *p)
{
	bool goes_on = (uintptr_t)p->addr % HUGE_PAGE == 0;

	while (goes_on && p->at < p->size) {
		uint64_t n = MIN(p->size - p->at, STEP_ALONE);
		uint64_t begin = clock_ns(CLOCK_MONOTONIC);
		char *addr = p->addr + p->at;

		if (!has_room(p, n))
			p->error = ENOSPC;
		goes_on = !p->error && seed(addr, n) &&
			  madvise(addr, n, MADV_COLLAPSE) == 0;
		if (p->drops)
			(void)madvise(addr, n, MADV_DONTNEED);
		p->at += goes_on ? n : 0;
		goes_on = goes_on &&
			  clock_ns(CLOCK_MONOTONIC) - begin < p->late_ns;
	}
}

/* ---- faults ---------------------------------------------------------- */

static int fault(const struct populate *p, uint64_t at, uint64_t size)
{
	if (!has_room(p, size))
		return ENOSPC;
	if (madvise(p->addr + at, size, MADV_POPULATE_WRITE) < 0)
		return errno == EFAULT ? ENOMEM : errno;
	/* The pages stay in the file. */
	if (p->drops)
		(void)madvise(p->addr + at, size, MADV_DONTNEED);
	return 0;
}

/* A thread's share of half of what is left: the others are done at nearly the
 * same time as the last one. */
static uint64_t step_of(uint64_t left)
{
	uint64_t step = left / (2ull * THREADS) & ~(SEGMENT_UNIT - 1);

	return MIN(left, MIN(MAX(step, SEGMENT_UNIT), STEP_MAX));
}

/* The next part; 0: there is none. */
static uint64_t claim(struct populate *p, uint64_t *ret_at)
{
	uint64_t n;

	pthread_mutex_lock(&p->lock);
	n = p->error ? 0 : step_of(p->size - p->at);
	*ret_at = p->at;
	p->at += n;
	pthread_mutex_unlock(&p->lock);
	return n;
}

static void *work(void *arg)
{
	struct populate *p = arg;
	uint64_t at, n;

	while ((n = claim(p, &at)) > 0) {
		int error = fault(p, at, n);

		if (!error)
			continue;
		pthread_mutex_lock(&p->lock);
		p->error = p->error ? p->error : error;
		pthread_mutex_unlock(&p->lock);
	}
	return NULL;
}

static void fault_all(struct populate *p)
{
	int n = MIN(cpus_allowed(), (int)THREADS) - 1, started = 0;
	pthread_t threads[THREADS];

	while (started < n &&
		pthread_create(&threads[started], NULL, work, p) == 0)
		started++;
	work(p);
	while (started > 0)
		pthread_join(threads[--started], NULL);
}

/* ---- the face -------------------------------------------------------- */

/* Before the faults, which can have all that these do not. */
enum { COLLAPSE = 1, ALLOCATE = 2 };

static int populate_in(struct populate *p, unsigned ways)
{
	pthread_mutex_init(&p->lock, NULL);
	if (ways & COLLAPSE)
		collapse_all(p);
	if (ways & ALLOCATE && !p->error)
		allocate_all(p);
	if (!p->error && p->at < p->size)
		fault_all(p);
	pthread_mutex_destroy(&p->lock);
	return p->error;
}

int populate_by(
	int fd, void *addr, uint64_t size, bool may_allocate, bool faulted)
{
	struct populate p = {.fd = fd,
		.addr = addr,
		.size = size,
		.drops = !faulted,
		.node = -1};

	return populate_in(&p, may_allocate ? ALLOCATE : 0);
}

int populate_huge(int fd, void *addr, uint64_t size, uint64_t late_ns)
{
	struct populate p = {.fd = fd,
		.addr = addr,
		.size = size,
		.drops = true,
		.node = -1,
		.late_ns = late_ns};

	return populate_in(&p, COLLAPSE | ALLOCATE);
}

int populate(int fd, void *addr, uint64_t size, unsigned flags, int node)
{
	struct populate p = {.fd = fd,
		.addr = addr,
		.size = size,
		.reserved = flags & POPULATE_RESERVED,
		.node = node,
		.late_ns = LATE_NS};
	unsigned ways = 0;

	/* No question about the node, and no huge page without one for each. */
	p.drops = !p.reserved && !(flags & POPULATE_FAULTED) &&
		  shmem_huge_pages("") == 0;
	if (p.drops)
		ways = ALLOCATE;
	if (p.drops && flags & POPULATE_HUGE && !shmem_huge_denied(""))
		ways |= COLLAPSE;
	return populate_in(&p, ways);
}
