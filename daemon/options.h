/* SPDX-License-Identifier: MIT */
/* What the command line of tarnd says. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct options {
	const char *socket; /* path; malloc'ed or from argv */
	bool automatic;	    /* started by a client: end when idle */
	uint64_t budget;    /* bytes of segments at most; 0: half the headroom */
	uint64_t segment_max;
	uint64_t idle_ns; /* how long without a client and names is idle */
};

/* 0: go on; 1: --help or --version was printed; -EINVAL: said on stderr. */
int options_parse(int argc, char **argv, struct options *ret);
