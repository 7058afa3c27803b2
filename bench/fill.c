/* SPDX-License-Identifier: MIT */
/*
 * How fast, and at what price in CPU, a file comes into a pool's memory:
 *
 *	bench/fill FILE [--buffered] [--unregistered]
 *
 * The memory is a row of 256 MiB memfds, as in a pool. Guests get theirs when
 * it is first touched, by them and again by the disk; so the file is filled in
 * once before the clock starts, or half the runs would measure the host's page
 * faults. TARN_ENGINE chooses the engine. Prints one line.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "bench/times.h"
#include "lib/io/fill.h"

enum { SEGMENT = 256 << 20, SEGMENTS_MAX = 256 };

static struct tarn_fill_segment segments[SEGMENTS_MAX];
static bool unregistered;

static void die(const char *what)
{
	fprintf(stderr, "bench/fill: %s: %s\n", what, tarn_fail_message());
	exit(1);
}

static double cpu(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void map_segment(struct tarn_io *io, unsigned i)
{
	_cleanup_fd_ int fd = memfd_create("bench-fill", MFD_CLOEXEC);
	void *p = MAP_FAILED;

	if (fd >= 0 && posix_fallocate(fd, 0, SEGMENT) == 0)
		p = mmap(NULL, SEGMENT, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			0);
	if (p == MAP_FAILED) {
		tarn_fail(ENOMEM, "%u MiB are not to be had", SEGMENT >> 20);
		die("segment");
	}
	memset(p, 1, SEGMENT);
	segments[i] = (struct tarn_fill_segment) {
		.addr = p,
		.pool_offset = (uint64_t)i * SEGMENT,
		.size = SEGMENT,
		.buffer = -1,
	};
	if (!unregistered && tarn_io_register(io, i, p, SEGMENT) == 0)
		segments[i].buffer = (int)i;
}

static void report(struct tarn_io *io, struct tarn_fill *fill, double seconds,
	double cpu_seconds)
{
	double gib = (double)tarn_fill_landed(fill) / (1 << 30);

	printf("%s %s %s: %.3f GiB/s, %.1f ms of CPU per GiB\n",
		tarn_io_name(io),
		tarn_fill_direct(fill) ? "direct" : "buffered",
		tarn_fill_registered(fill) ? "registered" : "unregistered",
		gib / seconds, 1000 * cpu_seconds / gib);
}

static void fill_once(
	struct tarn_io *io, const struct tarn_fill_job *job, bool measured)
{
	_cleanup_fill_ struct tarn_fill *fill = NULL;
	double t = wall(), c = cpu();

	if (tarn_fill_new(io, job, &fill) < 0 || tarn_fill_run(fill) < 0)
		die("fill");
	if (measured)
		report(io, fill, wall() - t, cpu() - c);
}

static void fill_from(struct tarn_io *io, const char *path, bool buffered)
{
	_cleanup_fd_ int direct = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
	_cleanup_fd_ int plain = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	struct tarn_fill_job job = {
		.direct_fd = direct,
		.buffered_fd = plain,
		.io_mode = buffered ? TARN_IO_BUFFERED : TARN_IO_DIRECT,
		.segments = segments,
	};

	if (plain < 0 || fstat(plain, &st) < 0 || st.st_size == 0 ||
		(uint64_t)st.st_size > (uint64_t)SEGMENT * SEGMENTS_MAX) {
		tarn_fail(EINVAL,
			"a readable file of 1 byte to 64 GiB is asked for");
		die(path);
	}
	job.size = (uint64_t)st.st_size;
	job.n_segments = (job.size + SEGMENT - 1) / SEGMENT;
	job.alloc_size = job.n_segments * SEGMENT;
	for (unsigned i = 0; i < job.n_segments; i++)
		map_segment(io, i);
	fill_once(io, &job, false);
	fill_once(io, &job, true);
}

int main(int argc, char **argv)
{
	_cleanup_io_ struct tarn_io *io = NULL;
	bool buffered = false;

	for (int i = 2; i < argc; i++) {
		buffered |= !strcmp(argv[i], "--buffered");
		unregistered |= !strcmp(argv[i], "--unregistered");
	}
	if (argc < 2) {
		fprintf(stderr,
			"usage: %s FILE [--buffered] [--unregistered]\n",
			argv[0]);
		return 2;
	}
	if (tarn_io_new(-1, &io) < 0)
		die("engine");
	fill_from(io, argv[1], buffered);
	return 0;
}
