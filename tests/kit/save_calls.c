/* SPDX-License-Identifier: MIT */
/* See save_calls.h. Each call does its work by the kernel's own number. */
#include "tests/kit/save_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/kit/tap.h"

const char *const call_names[CALLS] = {"open", "fallocate", "pwrite", "fchmod",
	"linkat", "fsync", "close", "rename", "fsync of the folder"};

static struct {
	atomic_int call; /* -1: none */
	unsigned n;
	int error;
	atomic_uint seen;
} fault = {.call = -1};

static struct {
	pthread_mutex_t lock;
	bool on;
	struct done *done;
	size_t n, room;
} record = {.lock = PTHREAD_MUTEX_INITIALIZER};

void calls_arm(enum call call, unsigned n, int error)
{
	fault.n = n;
	fault.error = error;
	atomic_store(&fault.seen, 0);
	atomic_store(&fault.call, (int)call);
}

unsigned calls_disarm(void)
{
	atomic_store(&fault.call, -1);
	return atomic_load(&fault.seen);
}

/* Its error if this is the call that fails, else 0. */
static int fails(enum call call)
{
	unsigned n;

	if (atomic_load(&fault.call) != (int)call)
		return 0;
	n = atomic_fetch_add(&fault.seen, 1) + 1;
	return n == fault.n ? fault.error : 0;
}

static int fail(int error)
{
	errno = error;
	return -1;
}

static mode_t kind_of(int fd, uint64_t *ret_file)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return 0;
	*ret_file = st.st_ino;
	return st.st_mode & S_IFMT;
}

/* ---- writing down ---------------------------------------------------- */

void calls_record(void)
{
	record.on = true;
}

const struct done *calls_recorded(size_t *ret_n)
{
	*ret_n = record.n;
	return record.done;
}

void calls_forget(void)
{
	record.on = false;
	for (size_t i = 0; i < record.n; i++)
		free(record.done[i].bytes);
	free(record.done);
	record.done = NULL;
	record.n = record.room = 0;
}

static const char *last_part(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path ? path : "";
}

/* Of what has succeeded. */
static void note(enum call call, int fd, uint64_t offset, const void *bytes,
	uint64_t size, const char *from, const char *to)
{
	struct done d = {.call = call, .offset = offset, .size = size};

	if (!record.on || (fd >= 0 && !kind_of(fd, &d.file)))
		return;
	snprintf(d.from, sizeof(d.from), "%s", last_part(from));
	snprintf(d.to, sizeof(d.to), "%s", last_part(to));
	if (bytes) {
		d.bytes = malloc(size + 1);
		memcpy(d.bytes, bytes, size);
	}
	pthread_mutex_lock(&record.lock);
	if (record.n == record.room) {
		record.room = record.room ? 2 * record.room : 64;
		record.done = reallocarray(
			record.done, record.room, sizeof(*record.done));
		if (!record.done)
			bail("no memory");
	}
	record.done[record.n++] = d;
	pthread_mutex_unlock(&record.lock);
}

/* ---- the calls ------------------------------------------------------- */

/* Made, or opened again by its number: not those that only look. */
static bool counts(const char *path, int flags)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ||
	       !strncmp(path, "/proc/self/fd/", 14);
}

static int open_at(int folder, const char *path, int flags, mode_t mode)
{
	int error = counts(path, flags) ? fails(CALL_OPEN) : 0;

	if (error)
		return fail(error);
	return (int)syscall(SYS_openat, folder, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = va_arg(ap, mode_t);
	va_end(ap);
	return open_at(folder, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = va_arg(ap, mode_t);
	va_end(ap);
	return open_at(AT_FDCWD, path, flags, mode);
}

int fallocate(int fd, int mode, off_t offset, off_t size)
{
	int error = fails(CALL_ALLOCATE), r;

	if (error)
		return fail(error);
	r = (int)syscall(SYS_fallocate, fd, mode, offset, size);
	if (r == 0)
		note(CALL_ALLOCATE, fd, 0, NULL, (uint64_t)(offset + size),
			NULL, NULL);
	return r;
}

int ftruncate(int fd, off_t size)
{
	int error = fails(CALL_ALLOCATE), r;

	if (error)
		return fail(error);
	r = (int)syscall(SYS_ftruncate, fd, size);
	if (r == 0)
		note(CALL_ALLOCATE, fd, 0, NULL, (uint64_t)size, NULL, NULL);
	return r;
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
	int error = fails(CALL_WRITE);
	ssize_t n;

	if (error > 0)
		return fail(error);
	if (error == FAULT_SHORT && size > 1)
		size = size > 8192 ? size / 8192 * 4096 : size / 2;
	n = syscall(SYS_pwrite64, fd, bytes, size, offset);
	if (n > 0)
		note(CALL_WRITE, fd, (uint64_t)offset, bytes, (uint64_t)n, NULL,
			NULL);
	return n;
}

int fchmod(int fd, mode_t mode)
{
	int error = fails(CALL_CHMOD);

	return error ? fail(error) : (int)syscall(SYS_fchmod, fd, mode);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to,
	int flags)
{
	int error = fails(CALL_LINK), r;

	if (error)
		return fail(error);
	r = (int)syscall(SYS_linkat, from_folder, from, to_folder, to, flags);
	if (r == 0)
		note(CALL_LINK, -1, 0, NULL, 0, from, to);
	return r;
}

int fsync(int fd)
{
	uint64_t file;
	enum call call =
		kind_of(fd, &file) == S_IFDIR ? CALL_SYNC_FOLDER : CALL_SYNC;
	int error = fails(call), r;

	if (error)
		return fail(error);
	r = (int)syscall(SYS_fsync, fd);
	if (r == 0)
		note(call, fd, 0, NULL, 0, NULL, NULL);
	return r;
}

int close(int fd)
{
	uint64_t file;
	int error = kind_of(fd, &file) == S_IFREG ? fails(CALL_CLOSE) : 0;
	int r = (int)syscall(SYS_close, fd);

	return error ? fail(error) : r;
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to,
	unsigned flags)
{
	int error = fails(CALL_RENAME), r;

	if (error)
		return fail(error);
	r = (int)syscall(
		SYS_renameat2, from_folder, from, to_folder, to, flags);
	if (r == 0)
		note(CALL_RENAME, -1, 0, NULL, 0, from, to);
	return r;
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
	return renameat2(from_folder, from, to_folder, to, 0);
}
