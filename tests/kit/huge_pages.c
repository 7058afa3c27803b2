/* SPDX-License-Identifier: MIT */
/* See huge_pages.h. The turn is a lock on the kernel's own file, so it ends with its
 * holder and leaves nothing behind. */
#include "tests/kit/huge_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/kit/tap.h"

static int turn = -1;
static unsigned long before; /* reserved by others */
static bool is_more;

static unsigned long number_in(const char *path)
{
	unsigned long n = 0;
	FILE *f = fopen(path, "re");

	if (f && fscanf(f, "%lu", &n) != 1)
		n = 0;
	if (f)
		fclose(f);
	return n;
}

static bool write_number(const char *path, int flags, unsigned long n)
{
	char text[32];
	int size = snprintf(text, sizeof(text), "%lu\n", n);
	int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0600);
	bool done = fd >= 0 && write(fd, text, (size_t)size) == size;

	if (fd >= 0)
		close(fd);
	return done;
}

unsigned long huge_pages_free(void)
{
	return number_in("/sys/kernel/mm/hugepages/hugepages-2048kB/"
			 "free_hugepages");
}

/* Where tests/run looks; NULL: this was not started by it. */
static const char *note(void)
{
	static char path[4096];
	const char *folder = getenv("TMPDIR");

	if (!getenv("TARN_TEST_ID") || !folder)
		return NULL;
	snprintf(path, sizeof(path), "%s/" HUGE_BEFORE, folder);
	return path;
}

void huge_pages_turn(void)
{
	if (turn < 0)
		turn = open(HUGE_RESERVE, O_RDONLY | O_CLOEXEC);
	while (turn >= 0 && flock(turn, LOCK_EX) < 0 && errno == EINTR)
		;
}

static void put_back(void *arg)
{
	if (is_more && !write_number(HUGE_RESERVE, 0, before))
		diag(HUGE_RESERVE " could not be set to %lu again: %m", before);
	if (is_more && note())
		unlink(note());
	is_more = false;
}

bool huge_pages_reserve(unsigned long n)
{
	unsigned long lacks = huge_pages_free();

	if (turn < 0 || lacks >= n)
		return turn >= 0;
	lacks = n - lacks;
	before = number_in(HUGE_RESERVE);
	at_bail(put_back, NULL);
	if (access(HUGE_RESERVE, W_OK) < 0 ||
		(note() && !write_number(note(), O_CREAT | O_EXCL, before)))
		return false;
	is_more = true;
	if (write_number(HUGE_RESERVE, 0, before + lacks) &&
		huge_pages_free() >= n)
		return true;
	put_back(NULL);
	return false;
}

void huge_pages_give_back(void)
{
	put_back(NULL);
	if (turn >= 0)
		close(turn);
	turn = -1;
}
