/* SPDX-License-Identifier: MIT */
/*
 * Publications that lie about their memory: descriptors of other kinds, and
 * memory that a process still writes. Each is refused with a sentence, or
 * copied; an innocent client is served all the while, and the accounts are
 * unchanged afterwards.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/shmem_huge.h"
#include "lib/io/io_mode.h"
#include "shm/table.h"
#include "tests/kit/must.h"
#include "tests/kit/publish.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"

#ifndef SYS_cachestat
#define SYS_cachestat 451 /* on every architecture */
#endif

/* ---- descriptors ------------------------------------------------------- */

/* Whatever is said of it. */
static void refused_as_any(int fd, int error, const char *what)
{
	static const enum source_kind kinds[] = {
		SOURCE_COPY, SOURCE_ADOPT, SOURCE_MUTABLE};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct publish_msg p =
			kit_publish_brings(kinds[i], 2 * MIB, fd);

		kit_publish_refused(&p, error, "source 0", what);
	}
	close(fd);
}

static int reopened(int fd, int flags)
{
	char path[64];
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, flags | O_CLOEXEC);
	close(fd);
	return again;
}

static void bring_the_wrong(void)
{
	int pair[2], plain;

	if (pipe2(pair, O_CLOEXEC) < 0)
		bail("pipe: %m");
	refused_as_any(pair[0], EBADF, "a pipe");
	close(pair[1]);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		bail("socketpair: %m");
	refused_as_any(pair[0], EBADF, "a socket");
	close(pair[1]);
	refused_as_any(open("/dev/zero", O_RDWR | O_CLOEXEC), EBADF, "zeroes");
	refused_as_any(open("/proc/self/status", O_RDONLY | O_CLOEXEC), EBADF,
		"a file that is made as it is read");
	refused_as_any(open("/", O_PATH | O_CLOEXEC), EBADF, "a mere path");
	refused_as_any(open("/dev/shm", O_RDONLY | O_CLOEXEC), EBADF,
		"a folder, if in memory");
	plain = opened(made_file("plain", 2 * MIB, 1));
	if (io_fs_of(plain) == IO_FS_MEMORY)
		skip(3, "a file on a disk: %s is in memory", test_tmpdir());
	else
		refused_as_any(plain, EBADF, "a file on a disk");
	refused_as_any(reopened(kit_publish_memfd(2 * MIB), O_WRONLY), EBADF,
		"a memfd that cannot be read");
	refused_as_any(reopened(kit_publish_memfd(2 * MIB), O_PATH), EBADF,
		"the mere path of one");
	refused_as_any(kit_publish_memfd(2 * MIB - 1), EINVAL,
		"one that is too short");
	witness_is_served(&kit_publish_witness, "the wrong descriptors");
}

static void bring_too_many(void)
{
	struct publish_msg p = kit_publish_good();
	int fd = kit_publish_memfd(4096);

	publish_msg_fd(&p, fd);
	kit_publish_refused(&p, EINVAL, "1 descriptors came for 0",
		"a descriptor for nothing");
	close(fd);
}

/* A process that may write them may take them away from readers. */
static void bring_huge_pages(void)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB;
	int fd = memfd_create("huge", flags);
	struct publish_msg p;

	/* No page of the reserve is taken before one is touched. */
	if (fd < 0 || ftruncate(fd, 2 * MIB) < 0 || fchmod(fd, 0600) < 0) {
		skip(1, "this kernel has no huge pages: %m");
	} else {
		publish_msg_seal(fd, SOURCE_MUTABLE);
		p = kit_publish_brings(SOURCE_MUTABLE, 2 * MIB, fd);
		kit_publish_refused(&p, EINVAL, "huge pages",
			"a mutable tensor in huge pages");
	}
	if (fd >= 0)
		close(fd);
}

/* Pages behind the end of a memfd, more than its last page can reach. */
static void put_behind(int fd, uint64_t size)
{
	uint64_t more = MAX(shmem_page_max(""), size);

	if (fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)size, (off_t)more) < 0)
		bail("fallocate: %m");
}

static void bring_a_bad_mutable(void)
{
	struct publish_msg p;
	int fd = kit_publish_memfd(8192);

	publish_msg_seal(fd, SOURCE_MUTABLE);
	p = kit_publish_brings(SOURCE_MUTABLE, 4096, fd);
	kit_publish_refused(
		&p, EINVAL, "whole pages", "more memory than it counts");
	close(fd);
	fd = reopened(kit_publish_memfd(4096), O_RDONLY);
	p = kit_publish_brings(SOURCE_MUTABLE, 4096, fd);
	kit_publish_refused(
		&p, EINVAL, "open for writing", "one that cannot be written");
	close(fd);
	fd = kit_publish_memfd(4096);
	fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE);
	p = kit_publish_brings(SOURCE_MUTABLE, 4096, fd);
	kit_publish_refused(&p, EINVAL, "seals", "one that is sealed");
	close(fd);
	fd = kit_publish_memfd(4096);
	fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL);
	p = kit_publish_brings(SOURCE_MUTABLE, 4096, fd);
	kit_publish_refused(&p, EINVAL, "seals", "one that cannot be sealed");
	close(fd);
	fd = kit_publish_memfd(4096);
	p = kit_publish_brings(SOURCE_MUTABLE, 4096, fd);
	kit_publish_refused(
		&p, EINVAL, "seals", "one that is not sealed in size");
	close(fd);
	fd = kit_publish_memfd(4096);
	kit_publish_fill(fd, 4096, 7);
	put_behind(fd, 4096);
	publish_msg_seal(fd, SOURCE_MUTABLE);
	p = kit_publish_brings(SOURCE_MUTABLE, 4096, fd);
	kit_publish_refused(
		&p, EINVAL, "behind its end", "one with memory behind its end");
	close(fd);
	bring_huge_pages();
}

/* ---- memory that is not what it should be ------------------------------ */

/* Publishes it to be adopted; the pool that it came to lie in. */
static uint32_t pool_of(int fd, uint64_t size, const char *what)
{
	struct publish_msg p = kit_publish_brings(SOURCE_ADOPT, size, fd);
	struct tarn_descriptor d = {0};
	tarn_tensor *t = NULL;
	struct raw raw;

	raw_open(&raw, kit_publish_daemon.socket);
	is_int(WIRE_PUBLISHED, publish_msg_answer(&p, &raw),
		"a publication of memory succeeds: %s", what);
	if (tarn_store_lookup(kit_publish_witness.store, "brought", &t) >= 0)
		must(tarn_store_export(kit_publish_witness.store, t, &d));
	tarn_tensor_unref(t);
	raw_close(&raw);
	return d.pool;
}

static unsigned char first_byte(void)
{
	tarn_tensor *t = NULL;
	unsigned char byte = 0;

	if (tarn_store_lookup(kit_publish_witness.store, "brought", &t) >= 0)
		byte = *(unsigned char *)tarn_tensor_data(t);
	tarn_tensor_unref(t);
	return byte;
}

static void copied_if(bool copied, int fd, uint64_t size, const char *what)
{
	uint32_t pool = pool_of(fd, size, what);

	ok((pool == TABLE_POOL_OWN) == !copied, "the memory is %s: %s",
		copied ? "copied" : "adopted", what);
	is_int(0, tarn_store_remove(kit_publish_witness.store, "brought"),
		"the published tensor is removed");
	close(fd);
}

/* As many pages as it should have, and a quarter of them behind its end. */
static void bring_holes(void)
{
	const uint64_t range[] = {0, 0};
	uint64_t pages[5];
	int fd = kit_publish_memfd(4 * MIB);

	kit_publish_fill(fd, 3 * MIB, 7);
	if (syscall(SYS_cachestat, fd, range, pages, 0) < 0) {
		skip(3, "this kernel does not tell which pages a memfd has");
		close(fd);
		return;
	}
	if (fallocate(fd, FALLOC_FL_KEEP_SIZE, 8 * MIB, MIB) < 0)
		bail("fallocate: %m");
	publish_msg_seal(fd, SOURCE_ADOPT);
	copied_if(
		true, fd, 4 * MIB, "one with pages behind its end, and holes");
}

static void bring_odd_memory(void)
{
	int fd = kit_publish_memfd(4 * MIB);

	kit_publish_fill(fd, 4 * MIB, 7);
	copied_if(true, fd, 4 * MIB, "what is not sealed");
	fd = kit_publish_memfd(4 * MIB);
	kit_publish_fill(fd, 4 * MIB, 7);
	publish_msg_seal(fd, SOURCE_ADOPT);
	copied_if(false, fd, 4 * MIB, "what is as it should be");
	copied_if(true, kit_publish_memfd(4 * MIB), 4 * MIB,
		"memory that is all holes");
	fd = kit_publish_memfd(8 * MIB);
	kit_publish_fill(fd, 8 * MIB, 7);
	copied_if(true, fd, 4 * MIB, "a memfd of twice the size");
	fd = kit_publish_memfd(4 * MIB);
	kit_publish_fill(fd, 4 * MIB, 7);
	fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL);
	copied_if(true, fd, 4 * MIB, "one that takes no seals");
	fd = kit_publish_memfd(4 * MIB);
	kit_publish_fill(fd, 4 * MIB, 7);
	copied_if(true, reopened(fd, O_RDONLY), 4 * MIB,
		"one that we may not seal");
	fd = kit_publish_memfd(4 * MIB);
	kit_publish_fill(fd, 4 * MIB, 7);
	fcntl(fd, F_ADD_SEALS,
		F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
	copied_if(false, fd, 4 * MIB, "one that is sealed already");
	fd = kit_publish_memfd(4 * MIB);
	kit_publish_fill(fd, 4 * MIB, 7);
	put_behind(fd, 4 * MIB);
	publish_msg_seal(fd, SOURCE_ADOPT);
	copied_if(true, fd, 4 * MIB, "one with memory behind its end");
	bring_holes();
}

static void keep_a_mapping(void)
{
	int fd = kit_publish_memfd(4 * MIB);
	unsigned char *map =
		mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		bail("mmap: %m");
	memset(map, 5, 4 * MIB);
	ok(pool_of(fd, 4 * MIB, "memory that is mapped for writing") !=
			TABLE_POOL_OWN,
		"memory that is mapped for writing is copied");
	memset(map, 6, 4 * MIB);
	is_int(5, first_byte(), "writes after the publication are not seen");
	must(tarn_store_remove(kit_publish_witness.store, "brought"));
	munmap(map, 4 * MIB);
	close(fd);
}

/* Pages in a pipe are held as those are that a device writes. */
static void keep_pages_pinned(void)
{
	int fd = kit_publish_memfd(4 * MIB), pipe_fds[2];
	struct iovec v;
	void *map =
		mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED || pipe2(pipe_fds, O_CLOEXEC) < 0)
		bail("mmap: %m");
	memset(map, 5, 4 * MIB);
	v = (struct iovec) {map, 8192};
	if (vmsplice(pipe_fds[1], &v, 1, 0) <= 0)
		bail("vmsplice: %m");
	munmap(map, 4 * MIB);
	ok(pool_of(fd, 4 * MIB, "memory whose pages are pinned") !=
			TABLE_POOL_OWN,
		"memory whose pages are pinned is copied");
	is_int(5, first_byte(), "the copy of pinned memory has its bytes");
	must(tarn_store_remove(kit_publish_witness.store, "brought"));
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	close(fd);
}

int main(void)
{
	kit_publish_begin();
	bring_the_wrong();
	bring_too_many();
	bring_a_bad_mutable();
	bring_odd_memory();
	keep_a_mapping();
	keep_pages_pinned();
	kit_publish_end();
	return done(81);
}
