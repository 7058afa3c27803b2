/* SPDX-License-Identifier: MIT */
/* The options of tarnd's command line, and their defaults. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shm/place.h"

#define SEGMENT_UNIT (2ull << 20)      /* the size of a huge page */
#define SEGMENT_FIRST (32ull << 20)    /* of a small daemon; then it doubles */
#define SEGMENT_DEFAULT (256ull << 20) /* a GiB is registered in four calls */
#define SEGMENT_LIMIT (1ull << 30)     /* io_uring's for one buffer */

struct options {
	const char *socket; /* path; never freed */
	bool automatic;     /* started by a client: end when idle */
	bool check;         /* say what the configuration means, and end */
	uint16_t mode;      /* of the socket, as of a file */
	unsigned given;     /* settings that the command line made; they win */
	/* bytes of segments at most; 0: half the headroom */
	uint64_t budget;
	uint64_t segment_max;
	struct placement placement; /* of pools that say nothing */
	bool registers;             /* the same: POOL_REGISTER */
	uint64_t idle_ns;   /* how long without a client and names is idle */
	const char *config; /* path of the configuration; NULL: none */
	char *const *argv;  /* all of it */
	int adopt;          /* state of the keeper that this was; -1: none */
	bool unread;        /* the configuration: it failed */
	int adopt_check;    /* could it be adopted? -1: that is not asked */
};

/* 0: go on; 1: --help or --version was printed; -EINVAL: see stderr. */
int options_parse(int argc, char **argv, struct options *ret);
/* With the configuration read: is anything missing? -EINVAL likewise. */
int options_check(const struct options *options);
