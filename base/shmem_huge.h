/* SPDX-License-Identifier: MIT */
/* Transparent huge pages, as the kernel's switches offer them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

/* Can shared memory that is advised to (MADV_HUGEPAGE) have them? 1, 0;
 * -errno: that cannot be found out. The switches are looked up below root,
 * which is "" outside of tests. */
int shmem_huge_pages(const char *root);

/* Since Linux 6.1; headers may be older than the kernel. */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* Is it an administrator's wish that it has none ("deny")? Older kernels make some
 * all the same when they are asked. */
bool shmem_huge_denied(const char *root);

/* Does the kernel make a huge page of shared memory when it is asked for that
 * one (MADV_COLLAPSE)? It does so where its switches are "never". Tries it, unless
 * it is denied; false also if memory is short. */
bool shmem_collapses(void);

/* The largest page, in bytes, that shared memory can have now. */
uint64_t shmem_page_max(const char *root);
