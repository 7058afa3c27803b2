/* SPDX-License-Identifier: MIT */
/* A process that has no room for a moment, as if all of it were in use. */
#pragma once

#include <sys/resource.h>

/* This process may have so much of that, RLIMIT_NOFILE or another, and no more;
 * what it might have before is for setrlimit() to give back. */
struct rlimit limit_to(int resource, rlim_t n);

/* The number that its next descriptor has: what counts for RLIMIT_NOFILE, not
 * how many there are. valgrind has some of its own, far above. */
rlim_t limit_next_fd(void);
