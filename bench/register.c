/* SPDX-License-Identifier: MIT */
/*
 * What it costs to register memory with io_uring:
 *
 *	bench/register 4k|thp|2m MIB
 *
 * populates a row of 1 GiB memfds of such pages, registers each as one buffer,
 * as a loader does with segments, and unregisters it, five times. Prints the
 * median of the time for all of them.
 */
#include <errno.h>
#include <linux/memfd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "bench/times.h"
#include "lib/io/io.h"

#define SEGMENT (1ull << 30)
enum { SEGMENTS_MAX = 64, ROUNDS = 5 };

static void *maps[SEGMENTS_MAX];
static uint64_t sizes[SEGMENTS_MAX];
static unsigned n;

static void die(const char *what)
{
	fprintf(stderr, "bench/register: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *make(const char *pages, uint64_t size)
{
	unsigned flags =
		strcmp(pages, "2m") ? 0 : MFD_HUGETLB | 21u << MFD_HUGE_SHIFT;
	int fd = memfd_create("bench", MFD_CLOEXEC | flags);
	void *map;

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		die("memfd");
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		die("mmap");
	if (!strcmp(pages, "thp") && madvise(map, size, MADV_HUGEPAGE) < 0)
		die("MADV_HUGEPAGE");
	if (madvise(map, size, MADV_POPULATE_WRITE) < 0)
		die("MADV_POPULATE_WRITE");
	close(fd);
	return map;
}

/* All of them; false: it says why. */
static bool register_all(struct tarn_io *io, double *ret_seconds)
{
	double began = wall();

	for (unsigned i = 0; i < n; i++)
		if (tarn_io_register(io, i, maps[i], sizes[i]) != 0)
			return false;
	*ret_seconds = wall() - began;
	for (unsigned i = 0; i < n; i++)
		if (tarn_io_unregister(io, i) < 0)
			return false;
	return true;
}

int main(int argc, char **argv)
{
	uint64_t size = argc == 3 ? strtoull(argv[2], NULL, 10) << 20 : 0;
	struct tarn_io *io = NULL;
	double times[ROUNDS];

	if (!size || size > SEGMENTS_MAX * SEGMENT) {
		fprintf(stderr, "usage: bench/register 4k|thp|2m MIB\n");
		return 2;
	}
	for (uint64_t at = 0; at < size; at += SEGMENT) {
		sizes[n] = MIN(SEGMENT, size - at);
		maps[n] = make(argv[1], sizes[n]);
		n++;
	}
	if (tarn_io_new(-1, &io) < 0) {
		fprintf(stderr, "bench/register: %s\n", tarn_fail_message());
		return 1;
	}
	for (int i = 0; i < ROUNDS; i++)
		if (!register_all(io, &times[i])) {
			printf("%s %.2f GiB: not registered: %s\n", argv[1],
				(double)size / (1 << 30), tarn_fail_message());
			return 0;
		}
	printf("%s %.2f GiB: %.3f ms\n", argv[1], (double)size / (1 << 30),
		1000 * median(times, ROUNDS));
	return 0;
}
