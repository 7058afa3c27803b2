/* SPDX-License-Identifier: MIT */
/* How much of a range this process has mapped in huge pages. */
#pragma once

#include <stdint.h>

/*
 * Of size bytes at addr, those that are mapped in pages of HUGE_PAGE and more,
 * reserved or transparent, by the kernel's own figures. What is not mapped yet
 * is read first, a page of each HUGE_PAGE. 0, or -errno: -ENOMEM, where
 * nothing is mapped in the range; what the kernel refused.
 *
 * Before Linux 6.7 there are figures for whole mappings only. There, of a range
 * that is a part of one, as much counts as is huge in all of it.
 */
int huge_mapped(const void *addr, uint64_t size, uint64_t *ret_bytes);

/* The same by one of the two ways, for tests. */
int huge_mapped_by_scan(const void *addr, uint64_t size, uint64_t *ret_bytes);
int huge_mapped_by_smaps(const void *addr, uint64_t size, uint64_t *ret_bytes);
