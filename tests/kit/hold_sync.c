/* SPDX-License-Identifier: MIT */
/*
 * A module to preload: fsync(2) takes until a signal was handled, and says that
 * it has begun by making the file that TARN_TEST_HELD names. With
 * TARN_TEST_NAMED there are no files without a name. With TARN_TEST_SLOW it
 * takes so many seconds more, whatever signals come.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define OURS __attribute__((__visibility__("default")))

/* By whichever name the caller's headers have it. */
OURS int held_openat(int folder, const char *path, int flags, ...) __asm__(
	"openat");
OURS int held_openat64(int folder, const char *path, int flags, ...) __asm__(
	"openat64") __attribute__((alias("openat")));

int held_openat(int folder, const char *path, int flags, ...)
{
	va_list rest;
	mode_t mode = 0;

	va_start(rest, flags);
	if (flags & (O_CREAT | O_TMPFILE))
		mode = va_arg(rest, mode_t);
	va_end(rest);
	if ((flags & O_TMPFILE) == O_TMPFILE && getenv("TARN_TEST_NAMED")) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return (int)syscall(SYS_openat, folder, path, flags, mode);
}

OURS int fsync(int fd)
{
	const char *held = getenv("TARN_TEST_HELD");
	const char *slow = getenv("TARN_TEST_SLOW");
	const struct timespec most = {.tv_sec = 100};
	struct timespec more = {.tv_sec = slow ? atoi(slow) : 0};

	if (held && access(held, F_OK) < 0) {
		close(open(held, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
		nanosleep(&most, NULL);
		while (nanosleep(&more, &more) < 0)
			;
	}
	return (int)syscall(SYS_fsync, fd);
}
