/* SPDX-License-Identifier: MIT */
/*
 * How fast the system makes new memory, at most:
 *
 *	bench/populate MIB
 *
 * populates a row of 256 MiB memfds by MADV_POPULATE_WRITE, with as many
 * threads as the daemon has for it. Prints one line.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "bench/times.h"

#define SEGMENT (256ull << 20)
#define PIECE (16ull << 20)
#define THREADS 4L
#define SEGMENTS_MAX 256u

static char *segments[SEGMENTS_MAX];
static uint64_t size;
static _Atomic uint64_t next;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void *work(void *arg)
{
	uint64_t at;

	(void)arg;
	/* Relaxed: nothing else is shared. */
	while ((at = atomic_fetch_add_explicit(
			&next, PIECE, memory_order_relaxed)) < size)
		if (madvise(segments[at / SEGMENT] + at % SEGMENT,
			    MIN(PIECE, size - at), MADV_POPULATE_WRITE) < 0)
			die("bench/populate: MADV_POPULATE_WRITE");
	return NULL;
}

static void map_all(void)
{
	for (uint64_t at = 0; at < size; at += SEGMENT) {
		int fd = memfd_create("bench", MFD_CLOEXEC);
		void *map;

		if (fd < 0 || ftruncate(fd, SEGMENT) < 0)
			die("bench/populate: memfd");
		map = mmap(NULL, SEGMENT, PROT_READ | PROT_WRITE, MAP_SHARED,
			fd, 0);
		if (map == MAP_FAILED)
			die("bench/populate: mmap");
		segments[at / SEGMENT] = map;
		close(fd);
	}
}

int main(int argc, char **argv)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int n = (int)MIN(MAX(cpus, 1), THREADS);
	pthread_t threads[THREADS];
	double began, gib;

	size = argc == 2 ? strtoull(argv[1], NULL, 10) << 20 : 0;
	if (!size || size > SEGMENTS_MAX * SEGMENT) {
		fprintf(stderr, "usage: bench/populate MIB (at most %u)\n",
			(unsigned)(SEGMENTS_MAX * (SEGMENT >> 20)));
		return 2;
	}
	gib = (double)size / (1 << 30);
	began = wall();
	map_all();
	for (int i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, work, NULL))
			die("bench/populate: thread");
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	printf("populate with %d threads: %.3f GiB/s, %.1f ms of CPU per GiB\n",
		n, gib / (wall() - began),
		1000 * seconds(CLOCK_PROCESS_CPUTIME_ID) / gib);
	return 0;
}
