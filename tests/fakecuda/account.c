/* SPDX-License-Identifier: MIT */
/*
 * The account of the stand-in for the driver, which is closed at exit; and the
 * settings, which are read by the thread that calls, never by the one that
 * carries out work: a test may change its environment meanwhile.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/fakecuda/fakecuda.h"
#include "tests/fakecuda/standin.h"

#define NAMES 256

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change;
static int faults;
static uint64_t calls;
static CUresult broken_by[DEVICES];
static atomic_int process;
static struct {
	const char *name;
	uint64_t all, of[DEVICES + 1]; /* the last is for no device */
} counts[NAMES];

/* ---- settings ------------------------------------------------------------ */

long setting(const char *name, int device, long otherwise)
{
	const char *value = NULL;
	char text[64];

	if (device >= 0) {
		snprintf(text, sizeof(text), "FAKECUDA_%s_%d", name, device);
		value = getenv(text);
	}
	if (!value) {
		snprintf(text, sizeof(text), "FAKECUDA_%s", name);
		value = getenv(text);
	}
	return value ? strtol(value, NULL, 0) : otherwise;
}

/* With the lock. */
static size_t place_of_name(const char *name)
{
	size_t i = 0;

	while (i < NAMES && counts[i].name && strcmp(counts[i].name, name) != 0)
		i++;
	if (i == NAMES)
		abort();
	return i;
}

CUresult refused(const char *name, int device)
{
	size_t at = place_of_name(name);
	uint64_t before = counts[at].of[device < 0 ? DEVICES : device]++;
	char after[64];
	CUresult e = 0;

	counts[at].name = name;
	counts[at].all++;
	if (device >= 0)
		e = (CUresult)setting("LOST", device, 0);
	if (!e && device >= 0)
		e = broken_by[device];
	if (e)
		return e;
	snprintf(after, sizeof(after), "%s_AFTER", name);
	if (before < (uint64_t)setting(after, device, 0))
		return CUDA_SUCCESS;
	return (CUresult)setting(name, device, 0);
}

CUresult broken(int device)
{
	return broken_by[device];
}

void set_broken(int device, CUresult e)
{
	broken_by[device] = e;
}

/* ---- calls --------------------------------------------------------------- */

void account_fault(const char *fmt, ...)
{
	va_list ap;

	fputs("fakecuda: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	faults++;
}

/* Another thread of the parent may have had the lock at the fork. */
static bool is_child(void)
{
	int none = 0;

	return !atomic_compare_exchange_strong(&process, &none, getpid()) &&
	       none != getpid();
}

CUresult begin(void)
{
	if (is_child()) {
		account_fault("a call in a child of fork()");
		return CUDA_ERROR_NOT_INITIALIZED;
	}
	pthread_mutex_lock(&lock);
	calls++;
	return CUDA_SUCCESS;
}

CUresult end(CUresult e)
{
	if (!is_child())
		pthread_mutex_unlock(&lock);
	return e;
}

/* ---- waiting ------------------------------------------------------------- */

static void prepare(void) __attribute__((__constructor__));
static void prepare(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&change, &attr);
	pthread_condattr_destroy(&attr);
}

void await_change(uint64_t until)
{
	struct timespec t = {.tv_sec = (time_t)(until / 1000000000),
		.tv_nsec = (long)(until % 1000000000)};

	if (until)
		pthread_cond_timedwait(&change, &lock, &t);
	else
		pthread_cond_wait(&change, &lock);
}

void tell_change(void)
{
	pthread_cond_broadcast(&change);
}

void lock_account(void)
{
	pthread_mutex_lock(&lock);
}

void unlock_account(void)
{
	pthread_mutex_unlock(&lock);
}

/* ---- the end ------------------------------------------------------------- */

/* A device that was lost, or whose work failed, took along all that it had. */
static bool is_over(void)
{
	for (int i = 0; i < DEVICES; i++)
		if (broken_by[i] || setting("LOST", i, 0))
			return true;
	return false;
}

static void close_account(void) __attribute__((__destructor__));
static void close_account(void)
{
	/* A child has none of what its parent has. */
	if (process == getpid()) {
		pthread_mutex_lock(&lock);
		judge_streams();
		judge_events();
		judge_devices();
		if (!is_over()) {
			judge_modules();
			judge_mappings();
			judge_memory();
			judge_host();
		}
		stop_work();
		pthread_mutex_unlock(&lock);
	}
	fflush(NULL);
	if (faults)
		_exit(FAKECUDA_FAULT);
}

/* ---- for tests ----------------------------------------------------------- */

uint64_t fakecuda_calls(void)
{
	uint64_t n;

	pthread_mutex_lock(&lock);
	n = calls;
	pthread_mutex_unlock(&lock);
	return n;
}

uint64_t fakecuda_count(const char *name)
{
	uint64_t n;

	pthread_mutex_lock(&lock);
	n = counts[place_of_name(name)].all;
	pthread_mutex_unlock(&lock);
	return n;
}

static uint64_t add_up(bool bytes)
{
	const struct registration *r;
	uint64_t n = 0;

	pthread_mutex_lock(&lock);
	for (r = registration_of(0, SIZE_MAX); r; r = r->next)
		n += bytes ? r->size : 1;
	pthread_mutex_unlock(&lock);
	return n;
}

uint64_t fakecuda_registrations(void)
{
	return add_up(false);
}

uint64_t fakecuda_registered(void)
{
	return add_up(true);
}
