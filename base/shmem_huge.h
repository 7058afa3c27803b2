/* SPDX-License-Identifier: MIT */
/* Transparent huge pages, as the kernel's switches offer them. */
#pragma once

#include <stdint.h>

/* Can shared memory that is advised to (MADV_HUGEPAGE) have them? 1, 0;
 * -errno: that cannot be found out. The switches are looked up below root,
 * which is "" outside of tests. */
int shmem_huge_pages(const char *root);

/* The largest page, in bytes, that shared memory can have now. */
uint64_t shmem_page_max(const char *root);
