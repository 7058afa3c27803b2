/* SPDX-License-Identifier: MIT */
/* Descriptors: closed by scope, read whole, passed on by name. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"

/* Closes fd unless it is negative; keeps errno. Always returns -1:
 * fd = fd_close(fd). */
int fd_close(int fd);

static inline void fd_closep(int *fd)
{
	fd_close(*fd);
}

#define _cleanup_fd_ _cleanup_(fd_closep)

static inline int fd_steal(int *fd)
{
	int stolen = *fd;

	*fd = -1;
	return stolen;
}

/* A second descriptor, CLOEXEC, never 0, 1 or 2. -errno on failure. */
int fd_dup(int fd);

/* A memfd that can be sealed, CLOEXEC and not executable. -errno on failure. */
int fd_memory(const char *name);

/* fd_close_range closes the descriptors from first to last, fd_close_from first
 * and all above it. Not for the child of a process with threads. */
void fd_close_range(int first, int last);
void fd_close_from(int first);

/* Reads up to size bytes at offset, continuing short reads and EINTR; the
 * count is short only at the end of the file. -errno on failure. */
ssize_t fd_pread(int fd, void *buf, size_t size, uint64_t offset);

/* Writes it all at offset, or fails with -errno. */
int fd_pwrite(int fd, const void *buf, size_t size, uint64_t offset);

/* Writes it all or fails with -errno. */
int fd_write_all(int fd, const void *buf, size_t size);

/* Reads a small text file (procfs, sysfs) whole and ends it with NUL.
 * Returns the length, or -errno; -EFBIG when it does not fit. */
ssize_t fd_read_text(const char *path, char *buf, size_t size);
