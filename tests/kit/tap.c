/* SPDX-License-Identifier: MIT */
/* The vocabulary of tap.h: counts, and prints wanted and seen. */
#include "tests/kit/tap.h"

#include <dirent.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int count;
static int failed;

int done(int n)
{
	if (count != n)
		diag("%d assertions are wanted, %d were made", n, count);
	printf("1..%d\n", n);
	fflush(stdout);
	return failed || count != n;
}

static void print_line(
	FILE *to, const char *before, const char *text, va_list ap)
{
	fputs(before, to);
	vfprintf(to, text, ap);
	fputc('\n', to);
	fflush(to);
}

void skip_all(const char *why, ...)
{
	va_list ap;

	va_start(ap, why);
	print_line(stdout, "1..0 # SKIP ", why, ap);
	va_end(ap);
	exit(0);
}

/* ---- bailing out ------------------------------------------------------- */

#define TIDIERS_MAX 16

static struct tidier {
	pid_t of;
	void (*fn)(void *arg);
	void *arg;
} tidiers[TIDIERS_MAX];
static int n_tidiers;

void at_bail(void (*fn)(void *arg), void *arg)
{
	for (int i = 0; i < n_tidiers; i++)
		if (tidiers[i].fn == fn && tidiers[i].arg == arg &&
			tidiers[i].of == getpid())
			return;
	if (n_tidiers < TIDIERS_MAX)
		tidiers[n_tidiers++] = (struct tidier) {getpid(), fn, arg};
}

static void tidy_up(void)
{
	while (n_tidiers > 0) {
		struct tidier *tidier = &tidiers[--n_tidiers];

		if (tidier->of == getpid())
			tidier->fn(tidier->arg);
	}
}

void bail(const char *why, ...)
{
	va_list ap;

	va_start(ap, why);
	print_line(stdout, "Bail out! ", why, ap);
	va_end(ap);
	tidy_up();
	exit(255);
}

/* ---- results ------------------------------------------------------------ */

void diag(const char *text, ...)
{
	va_list ap;

	va_start(ap, text);
	print_line(stdout, "# ", text, ap);
	va_end(ap);
}

void skip(int n, const char *why, ...)
{
	while (n-- > 0) {
		char text[512];
		va_list ap;

		va_start(ap, why);
		vsnprintf(text, sizeof(text), why, ap);
		va_end(ap);
		printf("ok %d # SKIP %s\n", ++count, text);
	}
	fflush(stdout);
}

static bool result(bool passed, const char *what, va_list ap)
{
	char before[32];

	count++;
	if (!passed)
		failed++;
	snprintf(before, sizeof(before), "%s %d - ", passed ? "ok" : "not ok",
		count);
	print_line(stdout, before, what, ap);
	return passed;
}

#define RESULT(passed, what)                                                   \
	({                                                                     \
		va_list _ap;                                                   \
		va_start(_ap, what);                                           \
		bool _passed = result(passed, what, _ap);                      \
		va_end(_ap);                                                   \
		_passed;                                                       \
	})

bool ok(bool passed, const char *what, ...)
{
	return RESULT(passed, what);
}

bool is_int(int64_t wanted, int64_t seen, const char *what, ...)
{
	if (RESULT(wanted == seen, what))
		return true;
	diag("  wanted: %lld", (long long)wanted);
	diag("    seen: %lld", (long long)seen);
	return false;
}

bool is_hex(uint64_t wanted, uint64_t seen, const char *what, ...)
{
	if (RESULT(wanted == seen, what))
		return true;
	diag("  wanted: 0x%llx", (unsigned long long)wanted);
	diag("    seen: 0x%llx", (unsigned long long)seen);
	return false;
}

bool is_str(const char *wanted, const char *seen, const char *what, ...)
{
	bool same = wanted && seen ? !strcmp(wanted, seen) : wanted == seen;

	if (RESULT(same, what))
		return true;
	diag("  wanted: %s", wanted ? wanted : "(null)");
	diag("    seen: %s", seen ? seen : "(null)");
	return false;
}

bool has_str(const char *part, const char *seen, const char *what, ...)
{
	if (RESULT(seen && strstr(seen, part), what))
		return true;
	diag("  wanted, somewhere: %s", part);
	diag("               seen: %s", seen ? seen : "(null)");
	return false;
}

bool is_mem(const void *wanted, const void *seen, unsigned long size,
	const char *what, ...)
{
	const unsigned char *w = wanted, *s = seen;
	unsigned long i = 0;

	while (i < size && w[i] == s[i])
		i++;
	if (RESULT(i == size, what))
		return true;
	diag("  byte %lu of %lu: wanted %02x, seen %02x", i, size, w[i], s[i]);
	return false;
}

/* ---- places ------------------------------------------------------------- */

static int remove_one(
	const char *path, const struct stat *st, int type, struct FTW *at)
{
	remove(path);
	return 0;
}

static void remove_folder(void *path)
{
	nftw(path, remove_one, 16, FTW_PHYS | FTW_DEPTH);
}

const char *test_tmpdir(void)
{
	static char path[4096];

	if (!path[0]) {
		const char *base = getenv("TMPDIR");

		snprintf(path, sizeof(path), "%s/tarn-test-XXXXXX",
			base ? base : "/tmp");
		if (!mkdtemp(path))
			bail("mkdtemp %s: %m", path);
		at_bail(remove_folder, path);
	}
	return path;
}

const char *test_outside(const char *what)
{
	static char paths[4][64];
	static unsigned n;
	const char *id = getenv("TARN_TEST_ID");
	char *path = paths[n++ % 4];

	snprintf(path, sizeof(paths[0]), "/tmp/%s-%s-XXXXXX",
		id ? id : "tarn-test", what);
	if (!mkdtemp(path))
		bail("mkdtemp %s: %m", path);
	at_bail(remove_folder, path);
	return path;
}

/* ---- looks at the machine ------------------------------------------------ */

double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int count_fds(pid_t pid)
{
	char path[64];
	DIR *folder;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	folder = opendir(path);
	if (!folder)
		return -1;
	while (readdir(folder))
		n++;
	closedir(folder);
	return n;
}

/* ---- what is there to try ------------------------------------------------ */

unsigned test_cases(unsigned all)
{
	const char *text = getenv("TARN_TEST_SAMPLE");
	unsigned long one_in = text ? strtoul(text, NULL, 10) : 1;

	if (one_in < 2 || all < 100)
		return all;
	return all / one_in > 100 ? (unsigned)(all / one_in) : 100;
}

const char *test_data(void)
{
	const char *path = getenv("TARN_TEST_DATA");

	if (!path)
		path = "../shared/data";
	return access(path, R_OK | X_OK) == 0 ? path : NULL;
}
