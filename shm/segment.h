/* SPDX-License-Identifier: MIT */
/*
 * Segments: memfds that are allocated whole, sealed and never punched.
 *
 * Life of one: segment_create (sized, mode 0400), mapped read-write by the
 * keeper, populated through that mapping, then segment_seal. From then on no
 * new writable mapping of it can be made by anybody, root included; mappings
 * made before, and those that forked children inherit, go on writing.
 * Readers get descriptors from segment_reopen, opened O_RDONLY.
 */
#pragma once

#include <stdint.h>

/* page_shift: 12, or 21/30 for hugetlb. name shows in /proc/PID/maps. */
int segment_create(const char *name, uint64_t size, int page_shift,
	int *ret_fd);
int segment_map_rw(int fd, uint64_t size, void **ret);
/* SHRINK, GROW, FUTURE_WRITE, SEAL. */
int segment_seal(int fd);
/* A second, read-only descriptor of the same memory. */
int segment_reopen(int fd, int *ret_fd);
/* The same, O_RDONLY or O_RDWR: an open file description of its own. Never
 * waits: -EBUSY where somebody holds a lease on the memfd. */
int segment_reopen_as(int fd, int access_mode, int *ret_fd);
/* What a reader checks before it maps: sealed, and of that size. -EPERM says
 * what is wrong. */
int segment_check(int fd, uint64_t size);
