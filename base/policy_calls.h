/* SPDX-License-Identifier: MIT */
/* The system calls for NUMA placement: libnuma's, or, in a build without it,
 * our own. They return what syscall(2) does, and set errno. */
#pragma once

#include <stdint.h>

/* mode: MPOL_BIND and its like. */
long policy_set(void *addr, uint64_t size, int mode, uint64_t nodes);
/* Says where each of n pages is: its node, or a negative errno. */
long policy_find(uint64_t n, void **pages, int *ret_nodes);
long policy_find_one(const void *addr, int *ret_node);
/* The policy of this thread, which mappings without one go by. */
long policy_own(int *ret_mode);
long policy_own_default(void);
