/* SPDX-License-Identifier: MIT */
/*
 * A small vocabulary for tests that speak TAP. Wanted comes first. A program
 * ends with the number of assertions that it must have made, so that one which
 * is left out by mistake is noticed.
 */
#pragma once

#ifdef NDEBUG
#error "tests must not be built with NDEBUG"
#endif

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The exit status: a failure if an assertion failed, or if there were not
 * exactly n. A skip counts as many as it leaves out. */
int done(int n);

void skip_all(const char *why, ...)
	__attribute__((__noreturn__, __format__(printf, 1, 2)));
void bail(const char *why, ...)
	__attribute__((__noreturn__, __format__(printf, 1, 2)));
/* What bail() tidies up, the newest first, in the process that said so and not
 * in those that it forked. A test that ends in another way has tidied up
 * itself, or is told what it left. */
void at_bail(void (*fn)(void *arg), void *arg);

bool ok(bool passed, const char *what, ...)
	__attribute__((__format__(printf, 2, 3)));
bool is_int(int64_t wanted, int64_t seen, const char *what, ...)
	__attribute__((__format__(printf, 3, 4)));
bool is_hex(uint64_t wanted, uint64_t seen, const char *what, ...)
	__attribute__((__format__(printf, 3, 4)));
bool is_str(const char *wanted, const char *seen, const char *what, ...)
	__attribute__((__format__(printf, 3, 4)));
bool is_mem(const void *wanted, const void *seen, unsigned long size,
	const char *what, ...) __attribute__((__format__(printf, 4, 5)));
/* The text contains the part: for error sentences. */
bool has_str(const char *part, const char *seen, const char *what, ...)
	__attribute__((__format__(printf, 3, 4)));

/* n tests that are not run here, with the reason. */
void skip(int n, const char *why, ...)
	__attribute__((__format__(printf, 2, 3)));
void diag(const char *text, ...) __attribute__((__format__(printf, 1, 2)));

/* A fresh folder for this test's files; the harness removes it and complains
 * about what is left in it, unless by a bail(). */
const char *test_tmpdir(void);

/* A fresh folder of mode 0700 outside of that, where others may be let in, for
 * what: static until the next. The caller removes it; the harness complains if
 * it is left. */
const char *test_outside(const char *what);

/* Of the clock that is never set. */
double seconds(void);
/* What a process has open, and what it takes to look; -1: one may not. */
int count_fds(pid_t pid);

/* How many of so many random cases are tried: with TARN_TEST_SAMPLE=N, where
 * each takes long, one in N, but a hundred. */
unsigned test_cases(unsigned all);

/* ../shared/data or TARN_TEST_DATA; NULL where it does not exist. */
const char *test_data(void);
