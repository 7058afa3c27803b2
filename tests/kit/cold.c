/* SPDX-License-Identifier: MIT */
/*
 * See cold.h. cachestat(2) counts pages under way, too. Where it is refused
 * (before 6.5, under valgrind), mincore(2) is used, which does not count them:
 * so the file is read before, which waits for those pages.
 */
#include "tests/kit/cold.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/checked.h"
#include "lib/io/io_mode.h"
#include "tests/kit/tap.h"

#ifndef SYS_cachestat
#define SYS_cachestat 451 /* on every architecture */
#endif

#define PATIENCE_S 60.0

enum { PAGE = 4096 }; /* if pages are larger, nothing is wrong with it */

void cold_try(int fd)
{
	fsync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

/* Pages in the page cache or under way; -1: the kernel does not tell. */
static int64_t count_all(int fd, uint64_t begin, uint64_t end)
{
	static bool refused; /* valgrind writes lines about each such call */
	uint64_t range[2] = {begin, end - begin};
	uint64_t now[5] = {0}; /* cached, dirty, writeback, ... */

	refused = refused || syscall(SYS_cachestat, fd, range, now, 0) < 0;
	return refused ? -1 : (int64_t)now[0];
}

/* Pages in the page cache. They are mapped for nobody to read: valgrind, for
 * one, looks into what is, whether it is a program, and so puts pages there. */
static int64_t count_arrived(int fd, uint64_t begin, uint64_t end)
{
	size_t size = end - begin, n = (size + PAGE - 1) / PAGE;
	unsigned char *here = calloc(1, n);
	void *at = mmap(NULL, size, PROT_NONE, MAP_SHARED, fd, (off_t)begin);
	int64_t count = 0;

	if (!here || at == MAP_FAILED || mincore(at, size, here) < 0)
		bail("mincore: %m");
	munmap(at, size);
	for (size_t i = 0; i < n; i++)
		count += here[i] & 1;
	free(here);
	return count;
}

static void read_all(int fd, uint64_t begin, uint64_t end)
{
	static char buf[64 << 10];

	while (begin < end) {
		ssize_t n = pread(
			fd, buf, MIN(sizeof(buf), end - begin), (off_t)begin);

		if (n <= 0)
			return;
		begin += (uint64_t)n;
	}
}

/* How many pages stay. */
static int64_t evict(int fd, uint64_t begin, uint64_t end)
{
	bool told = count_all(fd, begin, end) >= 0;

	if (!told)
		read_all(fd, begin, end);
	cold_try(fd);
	return told ? count_all(fd, begin, end) : count_arrived(fd, begin, end);
}

const char *cold_make(int fd, uint64_t begin, uint64_t end)
{
	static double patience = PATIENCE_S;
	static char why[100];
	double until = seconds() + patience;
	struct stat st;
	int64_t n;

	if (io_fs_of(fd) == IO_FS_MEMORY)
		return "a file in memory is never cold";
	if (fstat(fd, &st) < 0)
		bail("fstat: %m");
	begin = (begin + PAGE - 1) / PAGE * PAGE;
	end = (end >= (uint64_t)st.st_size ? (uint64_t)st.st_size + PAGE - 1
					   : end) /
	      PAGE * PAGE;
	while (begin < end && (n = evict(fd, begin, end)) > 0) {
		if (seconds() > until) {
			patience = 0; /* it will not be otherwise next time */
			snprintf(why, sizeof(why),
				"the page cache keeps %lld pages of the file",
				(long long)n);
			return why;
		}
		usleep(5000);
	}
	return NULL;
}
