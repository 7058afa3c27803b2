/* SPDX-License-Identifier: MIT */
/*
 * How fast the system makes new memory:
 *
 *	bench/populate MIB [advice|pool] [4k|thp|2m]
 *
 * populates a row of 256 MiB memfds of such pages: by MADV_POPULATE_WRITE
 * alone, which is the most that there is to be had, with as many threads as the
 * daemon has for it; or as the daemon populates a pool's segments, one after
 * the other, each in a process of its own. Pages of 4 KiB a pool leaves to be
 * cleared by the loader (daemon/keeper/populate.c): so the same number of
 * threads fills page tables as that does (daemon/loader/pages.c), and that
 * counts. Prints one line.
 */
#include <linux/memfd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/populate.h"
#include "bench/times.h"
#include "daemon/keeper/populate.h"

#define SEGMENT (256ull << 20)
#define PIECE (16ull << 20)
#define PIECE_LOADER (2ull << 20)
#define THREADS 4L
#define SEGMENTS_MAX 256u

static struct {
	char *map;
	int fd;
} segments[SEGMENTS_MAX];
static uint64_t size;
static _Atomic uint64_t next;
static bool reserved;

static void die(const char *what)
{
	fprintf(stderr, "bench/populate: ");
	perror(what);
	exit(1);
}

/* The next piece of so many bytes; false: there is none. */
static bool claim(uint64_t piece, char **ret_addr, uint64_t *ret_size)
{
	/* Relaxed: nothing else is shared. */
	uint64_t at =
		atomic_fetch_add_explicit(&next, piece, memory_order_relaxed);

	if (at >= size)
		return false;
	*ret_addr = segments[at / SEGMENT].map + at % SEGMENT;
	*ret_size = MIN(piece, size - at);
	return true;
}

static void *advise(void *arg)
{
	uint64_t n;
	char *addr;

	(void)arg;
	while (claim(PIECE, &addr, &n))
		if (madvise(addr, n, MADV_POPULATE_WRITE) < 0)
			die("MADV_POPULATE_WRITE");
	return NULL;
}

/* As the loader: a page that was cleared has neighbours that were, and a read
 * fault maps many of them. */
static void *fill_tables(void *arg)
{
	unsigned char here;
	uint64_t n;
	char *addr;

	(void)arg;
	while (claim(PIECE_LOADER, &addr, &n)) {
		here = 1;
		if (mincore(addr, 4096, &here) < 0 || here & 1) {
			if (populate_read(addr, n, 1))
				die("MADV_POPULATE_READ");
		} else if (madvise(addr, n, MADV_POPULATE_WRITE) < 0) {
			die("MADV_POPULATE_WRITE");
		}
	}
	return NULL;
}

static int count_threads(void)
{
	return (int)MIN(MAX(sysconf(_SC_NPROCESSORS_ONLN), 1), THREADS);
}

static void by_threads(void *(*work)(void *))
{
	int n = count_threads();
	pthread_t threads[THREADS];

	for (int i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, work, NULL))
			die("thread");
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static void as_pool(bool whole)
{
	for (unsigned i = 0; i * SEGMENT < size; i++) {
		int status = 0;
		pid_t pid = fork();

		if (pid == 0)
			_exit(populate(segments[i].fd, segments[i].map,
				MIN(SEGMENT, size - i * SEGMENT),
				reserved ? POPULATE_RESERVED : 0, -1));
		if (pid < 0 || waitpid(pid, &status, 0) < 0 || status)
			die("populate");
	}
	if (whole)
		by_threads(fill_tables);
}

static void map_all(bool huge)
{
	for (uint64_t at = 0; at < size; at += SEGMENT) {
		int fd = memfd_create("bench",
			MFD_CLOEXEC |
				(reserved ? MFD_HUGETLB | 21u << MFD_HUGE_SHIFT
					  : 0));
		void *map;

		if (fd < 0 || ftruncate(fd, SEGMENT) < 0)
			die("memfd");
		map = mmap(NULL, SEGMENT, PROT_READ | PROT_WRITE, MAP_SHARED,
			fd, 0);
		if (map == MAP_FAILED)
			die("mmap");
		if (huge && madvise(map, SEGMENT, MADV_HUGEPAGE) < 0)
			die("MADV_HUGEPAGE");
		segments[at / SEGMENT].map = map;
		segments[at / SEGMENT].fd = fd;
	}
}

static double cpu(int who)
{
	struct rusage u;

	getrusage(who, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

int main(int argc, char **argv)
{
	bool pool = argc > 2 && !strcmp(argv[2], "pool");
	const char *pages = argc > 3 ? argv[3] : "4k";
	double began, took, gib;

	size = argc > 1 ? strtoull(argv[1], NULL, 10) << 20 : 0;
	if (!size || size > SEGMENTS_MAX * SEGMENT || size % (2ull << 20)) {
		fprintf(stderr,
			"usage: bench/populate MIB [advice|pool] [4k|thp|2m] "
			"(at most %u)\n",
			(unsigned)(SEGMENTS_MAX * (SEGMENT >> 20)));
		return 2;
	}
	reserved = !strcmp(pages, "2m");
	gib = (double)size / (1 << 30);
	began = wall();
	map_all(!strcmp(pages, "thp"));
	if (pool)
		as_pool(!strcmp(pages, "4k"));
	else
		by_threads(advise);
	took = wall() - began;
	printf("%s %s with %d threads: %.3f GiB/s, %.1f ms of CPU per GiB\n",
		pool ? "pool" : "populate", pages, count_threads(), gib / took,
		1000 * (cpu(RUSAGE_SELF) + cpu(RUSAGE_CHILDREN)) / gib);
	return 0;
}
