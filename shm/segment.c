/* SPDX-License-Identifier: MIT */
/*
 * The keeper makes segments, and every process reads them.
 *
 * Permissions on a memfd do not stop its owner, which can change them and
 * reopen it through /proc. Seals do. F_SEAL_FUTURE_WRITE refuses new writable
 * mappings and write() for good, yet lets the mappings that exist, and those
 * that forked children inherit, stay writable. Mode 0400 and the O_RDONLY
 * descriptor are a second barrier, so that an honest mistake fails already at
 * open or mmap. A control region (shm/table.h) has only that second barrier and
 * a fixed size: a keeper that was replaced by exec() must be able to have it
 * written again. Segments of pools of kind register have no more than that
 * either: clients of the keeper's uid map them writable for as long as it takes
 * to register them for a device.
 */
#include "shm/segment.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "base/page.h"

/* Since Linux 6.3; headers may be older than the kernel. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

#define SEALS_SIZE (F_SEAL_SHRINK | F_SEAL_GROW)
#define SEALS_WANTED (SEALS_SIZE | F_SEAL_FUTURE_WRITE)

static int memfd(const char *name, unsigned int flags)
{
	int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);

	/* An older kernel does not know the flag; nothing depends on it. */
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, flags);
	return fd < 0 ? -errno : fd;
}

int segment_create(const char *name, uint64_t size, int page_shift, int *ret_fd)
{
	unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	_cleanup_fd_ int fd = -1;

	if (page_shift < 12 || page_shift > 30 || size > INT64_MAX ||
		size == 0 || size & ((1ull << page_shift) - 1))
		return tarn_fail(EINVAL,
			"segment %s: a size of %llu is not a multiple of pages "
			"of 2^%d bytes",
			name, (unsigned long long)size, page_shift);
	if (page_shift != 12)
		flags |= MFD_HUGETLB | (unsigned int)page_shift
					       << MFD_HUGE_SHIFT;
	fd = memfd(name, flags);
	if (fd < 0)
		return tarn_fail(-fd, "segment %s: memfd_create: %s", name,
			tarn_errno_text(fd));
	if (fchmod(fd, 0400) < 0)
		return tarn_fail(errno, "segment %s: fchmod: %s", name,
			tarn_errno_text(errno));
	if (ftruncate(fd, (off_t)size) < 0)
		return tarn_fail(errno, "segment %s: ftruncate to %llu: %s",
			name, (unsigned long long)size, tarn_errno_text(errno));
	*ret_fd = fd_steal(&fd);
	return 0;
}

/* Addresses at which huge pages of a file can be huge in memory, too; kernels
 * choose such only where a switch offers them for all sizes. NULL: any will do.
 */
static void *aligned(uint64_t size)
{
	char *p = mmap(NULL, size + HUGE_PAGE, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t before;

	if (p == MAP_FAILED)
		return NULL;
	before = -(uintptr_t)p & (HUGE_PAGE - 1);
	if (before)
		munmap(p, before);
	munmap(p + before + size, HUGE_PAGE - before);
	return p + before;
}

int segment_map_rw(int fd, uint64_t size, void **ret)
{
	/* Reserved pages are aligned by the kernel, to their own size. */
	void *at = segment_is_huge(fd) ? NULL : aligned(size);
	void *map = mmap(at, size, PROT_READ | PROT_WRITE,
		MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);

	if (map == MAP_FAILED && at)
		munmap(at, size);
	if (map == MAP_FAILED)
		return tarn_fail(errno,
			"segment of %llu bytes: writable mapping: %s",
			(unsigned long long)size, tarn_errno_text(errno));
	*ret = map;
	return 0;
}

static int seal(int fd, unsigned int seals)
{
	if (fcntl(fd, F_ADD_SEALS, seals | F_SEAL_SEAL) < 0)
		return tarn_fail(
			errno, "segment: sealing: %s", tarn_errno_text(errno));
	return 0;
}

int segment_seal(int fd)
{
	return seal(fd, SEALS_WANTED);
}

int segment_seal_size(int fd)
{
	return seal(fd, SEALS_SIZE);
}

int segment_seal_register(int fd)
{
	if (fchmod(fd, 0600) < 0)
		return tarn_fail(
			errno, "segment: fchmod: %s", tarn_errno_text(errno));
	return seal(fd, SEALS_SIZE);
}

int segment_reopen_as(int fd, int access_mode, int *ret_fd)
{
	char path[64];
	int copy;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	/* Without O_NONBLOCK a process with a file lease on it (F_SETLEASE)
	 * would block this one until the kernel breaks the lease: 45 s. */
	copy = open(path, access_mode | O_NONBLOCK | O_CLOEXEC);
	if (copy < 0 && errno == EWOULDBLOCK)
		return tarn_fail(EBUSY,
			"segment: a process holds a file lease on %s (fcntl "
			"F_SETLEASE)",
			path);
	if (copy < 0)
		return tarn_fail(errno,
			"segment: reopening %s%s: %s (is /proc mounted?)", path,
			access_mode == O_RDONLY ? " read-only" : "",
			tarn_errno_text(errno));
	*ret_fd = copy;
	return 0;
}

int segment_reopen(int fd, int *ret_fd)
{
	return segment_reopen_as(fd, O_RDONLY, ret_fd);
}

static int check(int fd, uint64_t size, int access_mode, unsigned int wanted,
	unsigned int unwanted)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);
	int seals = fcntl(fd, F_GET_SEALS);

	if (flags < 0 || fstat(fd, &st) < 0)
		return tarn_fail(EPERM, "segment: descriptor %d: %s", fd,
			tarn_errno_text(errno));
	if (flags & O_PATH || (flags & O_ACCMODE) != access_mode)
		return tarn_fail(EPERM,
			"segment: descriptor %d is not open for reading %s", fd,
			access_mode == O_RDONLY ? "only" : "and writing");
	if (seals < 0)
		return tarn_fail(EPERM,
			"segment: descriptor %d is no memfd: it has no seals",
			fd);
	if (((unsigned int)seals & wanted) != wanted)
		return tarn_fail(EPERM,
			"segment: seals 0x%x; without 0x%x its bytes or its "
			"size could change unseen",
			(unsigned int)seals, wanted);
	if ((unsigned int)seals & unwanted)
		return tarn_fail(EPERM,
			"segment: seals 0x%x; with 0x%x it cannot be mapped "
			"writable",
			(unsigned int)seals, (unsigned int)seals & unwanted);
	if ((uint64_t)st.st_size != size)
		return tarn_fail(EPERM,
			"segment: %lld bytes, but %llu were announced",
			(long long)st.st_size, (unsigned long long)size);
	return 0;
}

int segment_check(int fd, uint64_t size)
{
	return check(fd, size, O_RDONLY, SEALS_WANTED, 0);
}

int segment_check_register(int fd, uint64_t size, int access_mode)
{
	return check(fd, size, access_mode, SEALS_SIZE,
		access_mode == O_RDONLY ? 0
					: F_SEAL_WRITE | F_SEAL_FUTURE_WRITE);
}

bool segment_is_huge(int fd)
{
	struct statfs fs;

	/* A file system that cannot be determined is not trusted. */
	return fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC;
}
