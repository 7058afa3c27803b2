/* SPDX-License-Identifier: MIT */
/*
 * A module to preload: fsync(2) takes until a signal was handled. It makes the
 * file that TARN_TEST_HELD names when it begins, and one with ".told" behind
 * that name after the signal. With TARN_TEST_SLOW it then takes until somebody
 * makes one with ".go", whatever signals come. With TARN_TEST_NAMED there are no
 * files without a name.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
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

static void make(const char *path)
{
	close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

static void hold(const char *held)
{
	const struct timespec most = {.tv_sec = 100},
			      nap = {.tv_nsec = 1000000};
	char told[PATH_MAX], go[PATH_MAX];
	sigset_t all, before;

	snprintf(told, sizeof(told), "%s.told", held);
	snprintf(go, sizeof(go), "%s.go", held);
	/* A signal that comes as soon as the file is there waits for ppoll. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	make(held);
	ppoll(NULL, 0, &most, &before);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	make(told);
	/* It ends also when the test does not. */
	for (int i = 0; getenv("TARN_TEST_SLOW") && i < 300000; i++) {
		if (access(go, F_OK) == 0)
			break;
		nanosleep(&nap, NULL);
	}
}

OURS int fsync(int fd)
{
	const char *held = getenv("TARN_TEST_HELD");

	if (held && access(held, F_OK) < 0)
		hold(held);
	return (int)syscall(SYS_fsync, fd);
}
