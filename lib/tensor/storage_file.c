// SPDX-License-Identifier: MIT
/*
 * A byte range of a file as a storage. It has no address on purpose: what is
 * mapped can vanish under the reader (SIGBUS) when the file shrinks; pread
 * says so instead.
 */
#include "lib/tensor/storage.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"

struct file_range {
	int fd;
	uint64_t offset;
};

static void file_release(void *arg)
{
	struct file_range *range = arg;

	fd_close(range->fd);
	free(range);
}

static int file_read(const struct tarn_storage *storage, uint64_t offset,
	void *buf, uint64_t size)
{
	const struct file_range *range = storage->arg;
	uint64_t at = range->offset + offset;
	ssize_t n = fd_pread(range->fd, buf, size, at);

	if (n < 0)
		return tarn_fail((int)-n,
			"file: reading %llu bytes at %llu: %s",
			(unsigned long long)size, (unsigned long long)at,
			tarn_errno_text((int)-n));
	if ((uint64_t)n < size)
		return tarn_fail(EIO,
			"file: it ends at byte %llu, where a tensor needs bytes"
			" %llu to %llu: it has shrunk since it was opened",
			(unsigned long long)(at + (uint64_t)n),
			(unsigned long long)at,
			(unsigned long long)(at + size));
	return 0;
}

int tarn_storage_from_fd(
	int fd, uint64_t offset, uint64_t size, tarn_storage **ret)
{
	struct file_range *range;
	int flags = fcntl(fd, F_GETFL);
	uint64_t end;
	int r;

	if (flags < 0)
		return tarn_fail(errno, "storage: descriptor %d: %s", fd,
			tarn_errno_text(errno));
	if ((flags & O_PATH) || (flags & O_ACCMODE) == O_WRONLY)
		return tarn_fail(EBADF,
			"storage: descriptor %d was not opened for reading",
			fd);
	if (add_u64(offset, size, &end) || end > INT64_MAX)
		return tarn_fail(EOVERFLOW,
			"storage: %llu bytes at %llu are past what a file can"
			" hold",
			(unsigned long long)size, (unsigned long long)offset);

	range = malloc(sizeof(*range));
	if (!range)
		return tarn_fail(ENOMEM, "storage: out of memory");
	range->offset = offset;
	range->fd = fd_dup(fd);
	if (range->fd < 0) {
		r = tarn_fail(-range->fd, "storage: duplicating %d: %s", fd,
			tarn_errno_text(-range->fd));
		free(range);
		return r;
	}
	r = tarn_storage_new(
		TARN_STORAGE_FILE, NULL, size, false, file_release, range, ret);
	if (r < 0)
		file_release(range);
	else
		(*ret)->read = file_read;
	return r;
}
