/* SPDX-License-Identifier: MIT */
/*
 * Segments: memfds that are allocated whole, sealed and never punched.
 *
 * Life of one: segment_create (sized, mode 0400), mapped read-write by the
 * keeper, populated through that mapping, then segment_seal. From then on no
 * process can make a new writable mapping of it, root included; mappings made
 * before, and those that forked children inherit, stay writable. Readers get
 * descriptors from segment_reopen, opened O_RDONLY.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* page_shift: 12, or 21/30 for hugetlb. name shows in /proc/PID/maps. */
int segment_create(
	const char *name, uint64_t size, int page_shift, int *ret_fd);
int segment_map_rw(int fd, uint64_t size, void **ret);
/* SHRINK, GROW, FUTURE_WRITE, SEAL. */
int segment_seal(int fd);
/* SHRINK, GROW, SEAL: of a control region. The owner of the inode, and root,
 * can still open it for writing; no other uid can. */
int segment_seal_size(int fd);
/* The same of a segment of a pool of kind register, and mode 0600: its owner can
 * open it for writing as it is. */
int segment_seal_register(int fd);
/* A second, read-only descriptor of the same memory. */
int segment_reopen(int fd, int *ret_fd);
/* The same, O_RDONLY or O_RDWR: an open file description of its own. Never
 * waits: -EBUSY where a process holds a file lease on the memfd. */
int segment_reopen_as(int fd, int access_mode, int *ret_fd);
/* The check of a reader before it maps: is it sealed, and of that size? -EPERM
 * with a sentence. */
int segment_check(int fd, uint64_t size);
/* The same of a segment of a pool of kind register, which need not be sealed but
 * in its size, open in that access mode: O_RDONLY, or O_RDWR if it can be mapped
 * so. */
int segment_check_register(int fd, uint64_t size, int access_mode);
/* Is it a memfd of huge pages? There, pages that were punched out may not be
 * available again when they are touched, which is a SIGBUS. Call it only for a
 * descriptor whose seals have proved it to be a memfd: another file system may
 * not answer. */
bool segment_is_huge(int fd);
