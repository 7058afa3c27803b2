/* SPDX-License-Identifier: MIT */
#include "lib/store/own_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tarn/publish.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "base/headroom.h"
#include "base/page.h"
#include "base/shmem_huge.h"

int own_check_room(uint64_t size)
{
	/* Small ones are covered by the reserve. Where the headroom is unknown,
	 * the allocation must be tried. */
	return size >= TARN_ADOPT_MIN && headroom_check(size) == -ENOSPC
		       ? -ENOMEM
		       : 0;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool small; /* all pages */

static void look(void)
{
	small = shmem_huge_pages("") == 0;
}

bool own_may_write(const struct own_place *place)
{
	pthread_once(&once, look);
	return place->policy == PLACE_AUTO && small;
}

static int no_memory(uint64_t size, int err)
{
	return tarn_fail(err == EFAULT ? EFAULT : ENOMEM,
		"no memory for %llu bytes: %s", (unsigned long long)size,
		tarn_errno_text(err));
}

int own_take(const struct own_place *place, void *addr, uint64_t size)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t before = (uintptr_t)addr % page;
	char *begin = (char *)addr - before;

	/* Missing memory is an error now, not a signal later. */
	if (madvise(begin, before + size, MADV_POPULATE_WRITE) < 0)
		return no_memory(size, errno);
	return own_place_check(place, begin, before + size);
}

int own_write(int fd, uint64_t offset, const void *src, uint64_t size)
{
	int r = fd_pwrite(fd, src, size, offset);

	return r < 0 ? no_memory(size, -r) : 0;
}

/* Picked: some ten milliseconds. A signal ends a step in some kernels, which give
 * back what it has allocated. */
#define STEP (64ull << 20)

int own_complete(int fd, uint64_t from, uint64_t mapped)
{
	from &= ~(PAGE - 1);
	while (from < mapped) {
		uint64_t step = MIN(mapped - from, STEP);

		if (fallocate(fd, 0, (off_t)from, (off_t)step) == 0)
			from += step;
		else if (errno != EINTR)
			return no_memory(mapped - from, errno);
	}
	return 0;
}
