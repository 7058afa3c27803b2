/* SPDX-License-Identifier: MIT */
/* The account of the stand-in for the driver, which is closed at exit. */
#include "tests/fakecuda/account.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fakecuda/fakecuda.h"

#define MOST 4096
#define DEVICES 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct registration registrations[MOST];
static size_t n_registrations;
static int retained[DEVICES], pushed, faults;
static uint64_t calls;
static pid_t process;

int setting(const char *name, int device, int otherwise)
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
	return value ? atoi(value) : otherwise;
}

/* ---- faults -------------------------------------------------------------- */

static void say(const char *fmt, va_list ap)
{
	fputs("fakecuda: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	faults++;
}

void account_fault(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
}

void account_call(void)
{
	pthread_mutex_lock(&lock);
	calls++;
	if (!process)
		process = getpid();
	else if (process != getpid())
		account_fault("a call in a child of fork()");
	pthread_mutex_unlock(&lock);
}

/* A device that was lost took along what was registered and retained. */
static void judge(void)
{
	if (pushed)
		account_fault("contexts were pushed %d times more than popped",
			pushed);
	if (setting("LOST", -1, 0))
		return;
	for (size_t i = 0; i < n_registrations; i++)
		account_fault("%zu bytes at %#lx are still registered",
			registrations[i].size,
			(unsigned long)registrations[i].start);
	for (int i = 0; i < DEVICES; i++)
		if (retained[i])
			account_fault("the primary context of device %d is "
				      "retained %d times",
				i, retained[i]);
}

static void close_account(void) __attribute__((__destructor__));
static void close_account(void)
{
	/* A child has none of what its parent has. */
	if (process == getpid())
		judge();
	fflush(NULL);
	if (faults)
		_exit(FAKECUDA_FAULT);
}

/* ---- debts --------------------------------------------------------------- */

void account_retained(int device, int change)
{
	pthread_mutex_lock(&lock);
	retained[device] += change;
	if (retained[device] < 0)
		account_fault("device %d is released too often", device);
	pthread_mutex_unlock(&lock);
}

void account_pushed(int change)
{
	pthread_mutex_lock(&lock);
	pushed += change;
	pthread_mutex_unlock(&lock);
}

/* With the lock. */
static struct registration *find(uintptr_t start, size_t size)
{
	for (size_t i = 0; i < n_registrations; i++)
		if (registrations[i].start < start + size &&
			start < registrations[i].start + registrations[i].size)
			return &registrations[i];
	return NULL;
}

const struct registration *account_find(uintptr_t start, size_t size)
{
	const struct registration *found;

	pthread_mutex_lock(&lock);
	found = find(start, size);
	pthread_mutex_unlock(&lock);
	return found;
}

bool account_add(const struct registration *registration)
{
	bool room;

	pthread_mutex_lock(&lock);
	room = n_registrations < MOST;
	if (room)
		registrations[n_registrations++] = *registration;
	pthread_mutex_unlock(&lock);
	return room;
}

bool account_remove(uintptr_t start)
{
	struct registration *found;
	bool writable;

	pthread_mutex_lock(&lock);
	found = find(start, 1);
	if (found && found->start != start)
		found = NULL;
	if (found && !account_mapped(start, found->size, &writable))
		account_fault("%zu bytes at %#lx are unregistered after they "
			      "were unmapped",
			found->size, (unsigned long)start);
	if (found)
		*found = registrations[--n_registrations];
	pthread_mutex_unlock(&lock);
	return found;
}

/* ---- mappings ------------------------------------------------------------ */

bool account_mapped(uintptr_t start, size_t size, bool *ret_writable)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uintptr_t at = start;
	char line[512];

	*ret_writable = true;
	while (maps && at < start + size && fgets(line, sizeof(line), maps)) {
		unsigned long begin, end;
		char rights[5];

		if (sscanf(line, "%lx-%lx %4s", &begin, &end, rights) != 3 ||
			end <= at)
			continue;
		if (begin > at || rights[0] != 'r')
			break;
		*ret_writable = *ret_writable && rights[1] == 'w';
		at = end;
	}
	if (maps)
		fclose(maps);
	return at >= start + size;
}

/* ---- for tests ----------------------------------------------------------- */

uint64_t fakecuda_calls(void)
{
	return calls;
}

uint64_t fakecuda_registrations(void)
{
	return n_registrations;
}

uint64_t fakecuda_registered(void)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < n_registrations; i++)
		bytes += registrations[i].size;
	return bytes;
}
