// SPDX-License-Identifier: MIT
/*
 * A byte range of a file as a storage. It deliberately has no address: mapped
 * pages can vanish under the reader (SIGBUS) when the file shrinks; pread
 * returns an error instead.
 *
 * There are two descriptors of the file, for I/O through the page cache and
 * past it. The second is opened at its first use, through /proc, so that it is
 * the same file whatever has happened to its name.
 */
#include "lib/tensor/storage.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"

/* Values of storage_file.direct that are no descriptor. */
enum { DIRECT_NONE = -1, DIRECT_UNKNOWN = -2 };

/* The same file by another open file description; other kinds of files are not
 * opened, since opening them may have effects. -errno. */
static int reopen(int fd, int flags)
{
	struct stat st;
	char path[32];
	int r;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return -EINVAL;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = open(path, flags | O_CLOEXEC);
	return r < 0 ? -errno : r;
}

const struct storage_file *storage_file(const tarn_storage *storage)
{
	enum tarn_storage_kind kind = storage->kind;

	return kind == TARN_STORAGE_FILE || kind == TARN_STORAGE_MAPPED
		       ? storage->arg
		       : NULL;
}

int storage_file_direct(const tarn_storage *storage)
{
	struct storage_file *file = storage->arg;
	int fd = DIRECT_UNKNOWN, seen;

	/* Acquire: pairs with the release of the exchange below, so that
	 * another thread's open comes before the use here. */
	seen = atomic_load_explicit(&file->direct, memory_order_acquire);
	if (seen != DIRECT_UNKNOWN)
		return seen;
	fd = reopen(
		file->fd, (file->writable ? file->readable ? O_RDWR : O_WRONLY
					  : O_RDONLY) |
				  O_DIRECT);
	fd = MAX(fd, DIRECT_NONE);
	/* Release, and acquire where another thread was quicker: pairs with
	 * the load above. */
	if (atomic_compare_exchange_strong_explicit(&file->direct, &seen, fd,
		    memory_order_acq_rel, memory_order_acquire))
		return fd;
	fd_close(fd); /* another thread was quicker */
	return seen;
}

int storage_file_check(const struct storage_file *file)
{
	return file->parsed ? identity_same_bytes(file->fd, &file->seen,
				      "after its header was read")
			    : 0;
}

const char *storage_file_name(
	const struct storage_file *file, char *buf, size_t size)
{
	char link[32];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", file->fd);
	n = readlink(link, buf, size - 1);
	if (n > 0)
		buf[n] = 0;
	else
		snprintf(buf, size, "descriptor %d", file->fd);
	return buf;
}

int storage_file_init(
	struct storage_file *file, int fd, uint64_t offset, uint64_t size)
{
	int flags = fcntl(fd, F_GETFL);
	uint64_t end;

	file->fd = -1;
	file->offset = offset;
	file->parsed = false;
	atomic_init(&file->direct, DIRECT_UNKNOWN);
	if (flags < 0)
		return tarn_fail(errno, "storage: descriptor %d: %s", fd,
			tarn_errno_text(errno));
	if (add_u64(offset, size, &end) || end > INT64_MAX)
		return tarn_fail(EOVERFLOW,
			"storage: %llu bytes at %llu are past what a file can"
			" hold",
			(unsigned long long)size, (unsigned long long)offset);
	file->readable = !(flags & O_PATH) && (flags & O_ACCMODE) != O_WRONLY;
	file->writable = !(flags & O_PATH) && (flags & O_ACCMODE) != O_RDONLY;
	/* The caller's descriptor for direct I/O refuses odd offsets. */
	file->fd =
		flags & O_DIRECT ? reopen(fd, flags & O_ACCMODE) : fd_dup(fd);
	if (file->fd < 0)
		return tarn_fail(-file->fd, "storage: duplicating %d: %s", fd,
			tarn_errno_text(-file->fd));
	return 0;
}

void storage_file_close(struct storage_file *file)
{
	fd_close(atomic_load_explicit(&file->direct, memory_order_relaxed));
	fd_close(file->fd);
}

static void file_release(void *arg)
{
	storage_file_close(arg);
	free(arg);
}

int storage_file_read(const struct tarn_storage *storage, uint64_t offset,
	void *buf, uint64_t size)
{
	const struct storage_file *file = storage->arg;
	uint64_t at = file->offset + offset;
	ssize_t n;

	if (!file->readable)
		return tarn_fail(EBADF,
			"file: it is open for writing only, and %llu bytes at"
			" %llu were to be read",
			(unsigned long long)size, (unsigned long long)at);
	n = fd_pread(file->fd, buf, size, at);
	if (n < 0)
		return tarn_fail((int)-n,
			"file: reading %llu bytes at %llu: %s",
			(unsigned long long)size, (unsigned long long)at,
			tarn_errno_text((int)-n));
	if ((uint64_t)n < size)
		return tarn_fail(ENODATA,
			"file: it ends at byte %llu, where a tensor needs bytes"
			" %llu to %llu: it has shrunk since it was opened",
			(unsigned long long)(at + (uint64_t)n),
			(unsigned long long)at,
			(unsigned long long)(at + size));
	return storage_file_check(file);
}

static int new_storage(
	int fd, uint64_t offset, uint64_t size, bool write, tarn_storage **ret)
{
	struct storage_file *file = malloc(sizeof(*file));
	int r;

	if (!file)
		return tarn_fail(ENOMEM, "storage: out of memory");
	r = storage_file_init(file, fd, offset, size);
	if (r >= 0 && !(write ? file->writable : file->readable))
		r = tarn_fail(EBADF,
			"storage: descriptor %d was not opened for %s", fd,
			write ? "writing" : "reading");
	if (r >= 0)
		file->writable &= write;
	if (r >= 0)
		r = tarn_storage_new(TARN_STORAGE_FILE, NULL, size, write,
			file_release, file, ret);
	if (r < 0)
		file_release(file);
	else
		(*ret)->read = storage_file_read;
	return r;
}

int tarn_storage_from_fd(
	int fd, uint64_t offset, uint64_t size, tarn_storage **ret)
{
	return new_storage(fd, offset, size, false, ret);
}

int tarn_storage_to_fd(
	int fd, uint64_t offset, uint64_t size, tarn_storage **ret)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0 && (flags & O_APPEND))
		return tarn_fail(EINVAL,
			"storage: descriptor %d was opened with O_APPEND, which"
			" writes at the end whatever the offset",
			fd);
	return new_storage(fd, offset, size, true, ret);
}
