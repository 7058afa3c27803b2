/* SPDX-License-Identifier: MIT */
/*
 * Memory files: made, sealed by the daemon, mapped.
 *
 * The idea: a mapping that was made from a read-only descriptor can never be
 * made writable, so laying one over the writable one is all that a creator has
 * to do before the daemon can seal his memory; and since one mapping takes the
 * other's place in one step, who only reads does not notice.
 */
#include "lib/store/own_map.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarn/publish.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "base/file_limit.h"
#include "base/headroom.h"
#include "lib/store/store.h"
#include "shm/segment.h"

/* Since Linux 6.3; headers may be older than the kernel. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

#define PAGE 4096ull

uint64_t own_mapped_size(uint64_t size)
{
	/* A size that does not fit has been refused with its layout. */
	return size ? (size + PAGE - 1) & ~(PAGE - 1) : PAGE;
}

/* ---- made here ------------------------------------------------------- */

static int memory_file(uint64_t size)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = file_limit_check(size);

	if (fd < 0)
		return fd;
	fd = memfd_create("tarn-tensor", flags | MFD_NOEXEC_SEAL);

	/* An older kernel does not know the flag; nothing depends on it. */
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("tarn-tensor", flags);
	/* Who gets it for reading must not open it again for writing; who may
	 * serve it must be able to open it for reading. */
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0 || fchmod(fd, 0644) < 0) {
		int err = errno;

		fd_close(fd);
		return tarn_fail(err, "a memfd of %llu bytes: %s",
			(unsigned long long)size, tarn_errno_text(err));
	}
	return fd;
}

int own_check_room(uint64_t size)
{
	/* Small ones are lost in the reserve. Where the machine does not tell,
	 * it has to be tried. */
	return size >= TARN_ADOPT_MIN && headroom_check(size) == -ENOSPC
		       ? -ENOMEM
		       : 0;
}

int own_create_part(
	uint64_t size, uint64_t there, int *ret_fd, void **ret_addr)
{
	uint64_t mapped = own_mapped_size(size);
	_cleanup_fd_ int fd = -1;
	void *addr;
	int r = own_check_room(mapped);

	if (r < 0)
		return r;
	fd = memory_file(mapped);
	if (fd < 0)
		return fd;
	addr = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (addr == MAP_FAILED)
		return tarn_fail(errno, "mapping %llu bytes: %s",
			(unsigned long long)mapped, tarn_errno_text(errno));
	/* Only a wish: kernels without THP for shared memory say no. */
	madvise(addr, mapped, MADV_HUGEPAGE);
	/* Missing memory is an error now, and no signal later. */
	if (madvise(addr, there, MADV_POPULATE_WRITE) < 0) {
		int err = errno;

		munmap(addr, mapped);
		return tarn_fail(ENOMEM, "no memory for %llu bytes: %s",
			(unsigned long long)there, tarn_errno_text(err));
	}
	*ret_fd = fd_steal(&fd);
	*ret_addr = addr;
	return 0;
}

int own_create(uint64_t size, int *ret_fd, void **ret_addr)
{
	return own_create_part(size, own_mapped_size(size), ret_fd, ret_addr);
}

static bool remap(int fd, void *addr, uint64_t size, int prot)
{
	return mmap(addr, own_mapped_size(size), prot, MAP_SHARED | MAP_FIXED,
		       fd, 0) != MAP_FAILED;
}

int own_remap_read_only(int fd, void *addr, uint64_t size)
{
	_cleanup_fd_ int ro = -1;
	int r = segment_reopen(fd, &ro);

	if (r >= 0 && !remap(ro, addr, size, PROT_READ))
		r = tarn_fail(errno, "mapping %llu bytes anew: %s",
			(unsigned long long)size, tarn_errno_text(errno));
	return r;
}

bool own_try_writable(int fd, void *addr, uint64_t size)
{
	return remap(fd, addr, size, PROT_READ | PROT_WRITE);
}

int own_renew(int *fd, void *addr, uint64_t size)
{
	_cleanup_fd_ int copy = -1;
	void *bytes;
	int r = own_create(size, &copy, &bytes);

	if (r < 0)
		return r;
	memcpy(bytes, addr, size);
	munmap(bytes, own_mapped_size(size));
	if (!own_try_writable(copy, addr, size))
		return tarn_fail(errno, "mapping %llu bytes anew: %s",
			(unsigned long long)size, tarn_errno_text(errno));
	fd_close(*fd);
	*fd = fd_steal(&copy);
	return 0;
}

/* ---- asked for ------------------------------------------------------- */

/* Nothing that is mapped may end before its end, nor, unless it is mutable,
 * change. */
static int check(int fd, const struct table_storage *entry)
{
	bool mutable = entry->flags & STORAGE_MUTABLE;
	int wanted = F_SEAL_SHRINK | (mutable ? 0 : F_SEAL_WRITE);
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || (seals & wanted) != wanted)
		return tarn_fail(EPROTO,
			"daemon: a storage with seals %#x; without %#x its "
			"bytes or its size could change",
			(unsigned)seals, (unsigned)wanted);
	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size < entry->size)
		return tarn_fail(EPROTO,
			"daemon: a storage of %llu bytes in a memfd of %lld",
			(unsigned long long)entry->size, (long long)st.st_size);
	return 0;
}

int own_fetch(struct tarn_store *store, uint32_t index, uint64_t generation,
	uint32_t flags)
{
	struct msg_storage ask = {
		.index = index, .flags = flags, .generation = generation};
	struct wire_message reply = {0};
	int r, fd;

	r = connection_call(&store->connection, WIRE_STORAGE, &ask, sizeof(ask),
		WIRE_STORAGE_FD, 0, &reply);
	if (r < 0)
		return r;
	fd = wire_take_fd(&reply, 0);
	wire_message_clear(&reply);
	return fd >= 0 ? fd
		       : tarn_fail(EPROTO,
				 "daemon: storage %u came without a "
				 "descriptor",
				 index);
}

int own_fetch_checked(struct tarn_store *store, uint32_t index,
	uint64_t generation, const struct table_storage *entry)
{
	_cleanup_fd_ int fd = own_fetch(store, index, generation, 0);
	int r;

	if (fd < 0)
		return fd;
	r = check(fd, entry);
	return r < 0 ? r : fd_steal(&fd);
}

int own_map_private(struct tarn_store *store, uint32_t index,
	uint64_t generation, const struct table_storage *entry,
	struct private_map *map, void **ret_addr)
{
	_cleanup_fd_ int fd =
		own_fetch_checked(store, index, generation, entry);
	int r;

	if (fd < 0)
		return fd;
	r = private_map_reserve(map, own_mapped_size(entry->size), 0);
	if (r >= 0)
		r = private_map_add(map, 0, fd, 0, map->size);
	if (r >= 0)
		*ret_addr = map->start;
	return r;
}

int own_map(struct tarn_store *store, uint32_t index, uint64_t generation,
	const struct table_storage *entry, void **ret_addr, bool *ret_writable)
{
	uint64_t mapped = own_mapped_size(entry->size);
	_cleanup_fd_ int fd =
		own_fetch_checked(store, index, generation, entry);
	bool writable;
	void *addr;

	if (fd < 0)
		return fd;
	writable = entry->flags & STORAGE_MUTABLE &&
		   (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;
	addr = mmap(NULL, mapped, writable ? PROT_READ | PROT_WRITE : PROT_READ,
		MAP_SHARED, fd, 0);
	if (addr == MAP_FAILED)
		return tarn_fail(errno, "storage %u: mapping %llu bytes: %s",
			index, (unsigned long long)mapped,
			tarn_errno_text(errno));
	madvise(addr, mapped, MADV_HUGEPAGE);
	*ret_addr = addr;
	*ret_writable = writable;
	return 0;
}
