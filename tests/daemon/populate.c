/* SPDX-License-Identifier: MIT */
/*
 * A segment's memory is there and zero when it has been populated, whichever
 * way each of its pages was had: written, or faulted in, or faulted in because
 * it could not be written.
 */
#include <fcntl.h>
#include <linux/memfd.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/keeper/populate.h"
#include "tests/kit/tap.h"

#define MIB (1ull << 20)

static bool is_zero(const char *p, uint64_t size)
{
	return p[0] == 0 && memcmp(p, p + 1, size - 1) == 0;
}

/* Does this process have an entry for the page? A write makes none. */
static bool is_mapped(const char *page)
{
	_cleanup_fd_ int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0;

	if (pread(fd, &entry, 8,
		    (off_t)((uintptr_t)page / (uintptr_t)sysconf(_SC_PAGESIZE) *
			    8)) != 8)
		bail("pagemap: %m");
	return entry >> 63;
}

static void test(uint64_t size, bool may_write, bool sealed, const char *what)
{
	_cleanup_fd_ int fd = memfd_create("populate", MFD_ALLOW_SEALING);
	struct stat st;
	char *map;

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		bail("memfd: %m");
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		bail("mmap: %m");
	if (sealed && fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) < 0)
		bail("seal: %m");
	is_int(0, populate_by(fd, map, size, false, may_write), "%llu MiB, %s",
		(unsigned long long)(size / MIB), what);
	fstat(fd, &st);
	is_int((int64_t)size, st.st_blocks * 512, "all of it is there");
	ok(is_mapped(map) == (!may_write || sealed),
		"its front came the right way");
	ok(is_zero(map, size), "the populated segment is zero");
	munmap(map, size);
}

int main(void)
{
	static const uint64_t sizes[] = {2, 6, 32, 70};

	for (int i = 0; i < 4; i++) {
		test(sizes[i] * MIB, true, false, "written");
		test(sizes[i] * MIB, false, false, "by faults");
	}
	test(4 * MIB, true, true, "which cannot be written");
	return done(36);
}
