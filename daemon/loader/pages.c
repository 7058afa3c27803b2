/* SPDX-License-Identifier: MIT */
/*
 * The pages of segments, ahead of the reads.
 *
 * A fork inherits no page table entries of shared memory, and fresh memory is
 * not even cleared: its pages are only allocated (keeper/populate.c). Were all
 * of that made good before the first read, the disk would idle for a quarter of
 * a second per GiB and more. So threads do it while the reads are under way:
 * first where the bytes go, in the order in which they come, then in the rest
 * of those segments, so that a segment can be registered as a whole.
 *
 * Nothing orders a read after the thread that prepares its pages, and nothing
 * has to. Each page is in the file since before the segment was announced, so
 * nobody runs out of memory here. What is the first at a page, be it a
 * thread, a read that pins it or a worker that copies to it, does so by a
 * fault, in which the kernel clears the page, once, under the page's lock and
 * before it is in any table: so no cleared page has bytes of a read in it yet,
 * and no later fault clears it again. A read that overtakes the threads does
 * their work at that place, and is as much slower. If this process is killed,
 * some pages stay as they are, which the next one finds.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/cpus.h"
#include "base/fail.h"
#include "base/nodes.h"
#include "base/page.h"
#include "base/populate.h"
#include "daemon/loader/internal.h"

/* Clearing is bound by the memory from a few threads on. */
#define THREADS 4
/* What a thread takes at once: what one page of page table entries maps, and a
 * multiple of every machine's pages. So the first request finds its pages soon,
 * and L_FORGET waits for little. */
#define PIECE (2ull << 20)

/* Parts of a segment, in the order in which they are wanted. */
enum { READ_INTO, BEHIND, BEFORE, PARTS };

struct range {
	uint64_t from, to; /* bytes of the segment that no thread has taken */
};

struct pages_segment {
	char *addr; /* NULL: not wanted yet */
	int node;   /* that it lies on; -1 */
	struct range parts[PARTS];
	uint32_t at_work; /* threads */
};

struct loader_pages {
	pthread_mutex_t lock; /* of all below */
	pthread_cond_t more;  /* there are pages to make, or it ends */
	pthread_cond_t less;  /* a thread is done with a piece */
	bool ended;
	pthread_t threads[THREADS];
	int n_threads;
	cpu_set_t all; /* that threads may use; none where that is not known */
	uint32_t n_segments;
	struct pages_segment segments[];
};

/* ---- the threads ------------------------------------------------------- */

/* The next piece, and its segment; NULL: there is none. */
static struct pages_segment *claim(
	struct loader_pages *pages, char **ret_addr, uint64_t *ret_size)
{
	for (int part = 0; part < PARTS; part++)
		for (uint32_t i = 0; i < pages->n_segments; i++) {
			struct pages_segment *s = &pages->segments[i];
			struct range *range = &s->parts[part];

			if (range->from == range->to)
				continue;
			*ret_addr = s->addr + range->from;
			*ret_size = MIN(range->to - range->from, PIECE);
			range->from += *ret_size;
			s->at_work++;
			return s;
		}
	return NULL;
}

/* Was the page cleared before? Then its neighbours probably were, and a read
 * fault maps many of them at once, writable too; else each needs a fault of its
 * own. A wrong answer only costs time. */
static bool is_cleared(void *page)
{
	unsigned char here = 1;

	return mincore(page, PAGE, &here) < 0 || here & 1;
}

static void make(char *addr, uint64_t size)
{
	/* Without the advice (valgrind), or with an error, a request that goes
	 * there does it, and gets the error. */
	if (is_cleared(addr) || madvise(addr, size, MADV_POPULATE_WRITE) < 0)
		(void)populate_read(addr, size, 1);
}

/* Clearing is bound by the memory: this thread goes where that is. */
static void go_near(const struct loader_pages *pages, int node)
{
	if (!CPU_COUNT(&pages->all))
		return;
	(void)sched_setaffinity(0, sizeof(pages->all), &pages->all);
	node_stay(node);
}

static void *work(void *arg)
{
	struct loader_pages *pages = arg;
	struct pages_segment *s;
	uint64_t size;
	char *addr;
	int node = -1, near;

	pthread_mutex_lock(&pages->lock);
	while (!pages->ended) {
		s = claim(pages, &addr, &size);
		if (!s) {
			pthread_cond_wait(&pages->more, &pages->lock);
			continue;
		}
		near = s->node;
		pthread_mutex_unlock(&pages->lock);
		if (near != node)
			go_near(pages, near);
		node = near;
		make(addr, size);
		pthread_mutex_lock(&pages->lock);
		s->at_work--;
		pthread_cond_broadcast(&pages->less);
	}
	pthread_mutex_unlock(&pages->lock);
	return NULL;
}

static void start_threads(struct loader_pages *pages)
{
	int n = MIN(cpus_allowed(), THREADS);

	while (pages->n_threads < n &&
		pthread_create(&pages->threads[pages->n_threads], NULL, work,
			pages) == 0)
		pages->n_threads++;
}

/* ---- the face ---------------------------------------------------------- */

int pages_new(uint32_t n_segments, struct loader_pages **ret)
{
	struct loader_pages *pages = calloc(
		1, sizeof(*pages) + n_segments * sizeof(pages->segments[0]));

	if (!pages)
		return tarn_fail(
			ENOMEM, "no memory for %u segments", n_segments);
	pthread_mutex_init(&pages->lock, NULL);
	pthread_cond_init(&pages->more, NULL);
	pthread_cond_init(&pages->less, NULL);
	pages->n_segments = n_segments;
	if (sched_getaffinity(0, sizeof(pages->all), &pages->all) < 0)
		CPU_ZERO(&pages->all);
	*ret = pages;
	return 0;
}

struct loader_pages *pages_free(struct loader_pages *pages)
{
	if (!pages)
		return NULL;
	pthread_mutex_lock(&pages->lock);
	pages->ended = true;
	pthread_cond_broadcast(&pages->more);
	pthread_mutex_unlock(&pages->lock);
	while (pages->n_threads > 0)
		pthread_join(pages->threads[--pages->n_threads], NULL);
	pthread_cond_destroy(&pages->less);
	pthread_cond_destroy(&pages->more);
	pthread_mutex_destroy(&pages->lock);
	free(pages);
	return NULL;
}

void pages_want(struct loader_pages *pages, uint32_t segment, int node,
	void *addr, uint64_t size, uint64_t from, uint64_t to)
{
	struct pages_segment *s = &pages->segments[segment];

	if (s->addr)
		return; /* only this thread changes that */
	start_threads(pages);
	from &= ~(PIECE - 1);
	to = MIN((to + PIECE - 1) & ~(PIECE - 1), size);
	pthread_mutex_lock(&pages->lock);
	s->addr = addr;
	s->node = node;
	/* Without threads, requests and registering do it. */
	if (pages->n_threads) {
		s->parts[READ_INTO] = (struct range) {from, to};
		s->parts[BEHIND] = (struct range) {to, size};
		s->parts[BEFORE] = (struct range) {0, from};
	}
	pthread_cond_broadcast(&pages->more);
	pthread_mutex_unlock(&pages->lock);
}

static bool is_made(const struct pages_segment *s)
{
	bool left = s->at_work > 0;

	for (int part = 0; part < PARTS; part++)
		left = left || s->parts[part].from < s->parts[part].to;
	return s->addr && !left;
}

bool pages_are_here(struct loader_pages *pages, uint32_t segment)
{
	bool made;

	pthread_mutex_lock(&pages->lock);
	made = is_made(&pages->segments[segment]);
	pthread_mutex_unlock(&pages->lock);
	return made;
}

bool pages_are_coming(struct loader_pages *pages)
{
	bool coming = false;

	pthread_mutex_lock(&pages->lock);
	for (uint32_t i = 0; i < pages->n_segments; i++)
		coming = coming || (pages->segments[i].addr &&
					   !is_made(&pages->segments[i]));
	pthread_mutex_unlock(&pages->lock);
	return coming;
}

void pages_forget(struct loader_pages *pages, uint32_t segment)
{
	struct pages_segment *s = &pages->segments[segment];

	pthread_mutex_lock(&pages->lock);
	for (int part = 0; part < PARTS; part++)
		s->parts[part] = (struct range) {0};
	while (s->at_work > 0)
		pthread_cond_wait(&pages->less, &pages->lock);
	s->addr = NULL;
	pthread_mutex_unlock(&pages->lock);
}
