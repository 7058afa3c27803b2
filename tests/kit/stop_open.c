/* SPDX-License-Identifier: MIT */
/*
 * A module to preload: a program stops itself as it opens the file that
 * TARN_TEST_STOP names, if a file of that name with ".stop" behind it says its
 * first argument. A program whose ".stop" file is removed meanwhile is not
 * stopped again.
 */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OURS __attribute__((__visibility__("default")))

static const char *first = "";

/* glibc calls it as it calls main(). */
static __attribute__((constructor)) void note_argument(int argc, char **argv)
{
	if (argc > 1)
		first = argv[1];
}

static bool is_wanted(const char *path)
{
	const char *wanted = getenv("TARN_TEST_STOP");
	char file[PATH_MAX], text[64];
	long fd, n;

	if (!wanted || strcmp(wanted, path) != 0)
		return false;
	snprintf(file, sizeof(file), "%s.stop", path);
	fd = syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read((int)fd, text, sizeof(text) - 1);
	close((int)fd);
	text[n > 0 ? n : 0] = '\0';
	return strcmp(text, first) == 0;
}

/* By whichever name the caller's headers have it. */
OURS int stop_open(const char *path, int flags, ...) __asm__("open");
OURS int stop_open64(const char *path, int flags, ...) __asm__("open64")
	__attribute__((alias("open")));

int stop_open(const char *path, int flags, ...)
{
	va_list rest;
	mode_t mode = 0;

	va_start(rest, flags);
	if (flags & (O_CREAT | O_TMPFILE))
		mode = va_arg(rest, mode_t);
	va_end(rest);
	if (is_wanted(path))
		raise(SIGSTOP);
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
