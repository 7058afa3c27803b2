/* SPDX-License-Identifier: MIT */
/* The system calls on descriptors that several rooms need. */
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Since Linux 6.3; headers may be older than the kernel. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

int fd_close(int fd)
{
	if (fd >= 0) {
		int saved = errno;

		/* Linux frees the number even on EINTR: never retried. */
		close(fd);
		errno = saved;
	}
	return -1;
}

int fd_dup(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	return copy < 0 ? -errno : copy;
}

int fd_memory(const char *name)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);

	/* An older kernel does not know the flag; nothing depends on it. */
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, flags);
	return fd < 0 ? -errno : fd;
}

/* Closes them one by one, from the list in /proc: the limit on descriptors can
 * be a thousand million. */
static void close_listed(int first, int last)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		int fd = atoi(entry->d_name);

		if (fd >= first && fd <= last && fd != dirfd(dir))
			close(fd);
	}
	if (dir)
		closedir(dir);
}

void fd_close_range(int first, int last)
{
	/* A sandbox that is older than the system call refuses it. */
	if (first <= last &&
		close_range((unsigned)first, (unsigned)last, 0) < 0)
		close_listed(first, last);
}

void fd_close_from(int first)
{
	fd_close_range(first, INT_MAX);
}

ssize_t fd_pread(int fd, void *buf, size_t size, uint64_t offset)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = pread(fd, (char *)buf + done, size - done,
			(off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

int fd_pwrite(int fd, const void *buf, size_t size, uint64_t offset)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = pwrite(fd, (const char *)buf + done, size - done,
			(off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		done += (size_t)n;
	}
	return 0;
}

int fd_write_all(int fd, const void *buf, size_t size)
{
	const char *p = buf;

	while (size > 0) {
		ssize_t n = write(fd, p, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		size -= (size_t)n;
	}
	return 0;
}

ssize_t fd_read_text(const char *path, char *buf, size_t size)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	size_t done = 0;

	if (fd < 0)
		return -errno;
	while (done < size) {
		ssize_t n = read(fd, buf + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0) {
			buf[done] = '\0';
			return (ssize_t)done;
		}
		done += (size_t)n;
	}
	return -EFBIG;
}
