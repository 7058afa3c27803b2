/* SPDX-License-Identifier: MIT */
/*
 * The road that bytes of a file take to memory: copied from the page cache
 * where they are in it, read past it from a local disk, through it from
 * anywhere else. It is chosen range by range, since a file may sit in the
 * cache by half.
 *
 *	road_init(&road, fd, direct_fd, TARN_ROAD_AUTO, road_file_system(fd));
 *	road.end = ...;			as far as will be read, if known
 *	way = road_at(&road, begin, end, &upto);
 *
 * What it says is advice: the cache may change at any moment, and whoever
 * reads by another road gets the same bytes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tarn/copy.h>

#include "lib/io/direct.h"

enum road_way {
	ROAD_BUFFERED, /* through the page cache, which must fetch them */
	ROAD_CACHED,   /* the same, and they are in it */
	ROAD_DIRECT,   /* past it */
};

enum road_fs {
	ROAD_FS_LOCAL,
	/* Somebody else serves it: its cache is where reads are joined, its
	 * latency is hidden by many at once, and it may not answer. */
	ROAD_FS_REMOTE,
	ROAD_FS_MEMORY, /* tmpfs: there is nothing but the page cache */
};

/* How one asks about the cache. */
enum road_ask { ROAD_ASK_CACHESTAT, ROAD_ASK_NOWAIT, ROAD_ASK_NOTHING };

struct road {
	int fd; /* buffered; borrowed */
	enum road_fs fs;
	enum tarn_road wish;
	enum road_ask ask;
	struct tarn_direct align; /* of direct reads; 0: there are none */
	uint64_t end; /* nobody will read further; UINT64_MAX at first */

	/* road.c's own: what was asked last, and how much to ask at once. */
	uint64_t known, upto, window;
	enum road_way way;
	uint32_t seed;
};

/* Asks the file system, and waits as long as that takes: not for a file that
 * may never answer. What it does not know is local. */
enum road_fs road_file_system(int fd);

/*
 * fd is open without O_DIRECT, direct_fd with, or -1. Either stays the
 * caller's. -EINVAL: wish is TARN_ROAD_DIRECT, and the file cannot be read so;
 * the sentence says why.
 */
int road_init(struct road *ret, int fd, int direct_fd, enum tarn_road wish,
	enum road_fs fs);

/* The way of begin, and up to where (begin < *ret_upto <= end) it is the
 * same. */
enum road_way road_at(struct road *road, uint64_t begin, uint64_t end,
	uint64_t *ret_upto);

/* Whether at least about half of these bytes are in the page cache. */
bool road_mostly_cached(int fd, uint64_t begin, uint64_t end);

/* The file has refused a direct read: no more of those. */
void road_refused(struct road *road);
