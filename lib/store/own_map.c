/* SPDX-License-Identifier: MIT */
/*
 * Memory files: making, sealing, mapping.
 *
 * A mapping that was made from a read-only descriptor can never be made
 * writable. So a creator only has to lay such a mapping over the writable one
 * before the kernel lets it seal its memory; and since one mapping replaces the
 * other in one step, readers do not notice.
 */
#include "base/page.h"
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
#include "lib/cuda/cuda.h"
#include "lib/store/own_pages.h"
#include "lib/store/store.h"
#include "shm/segment.h"

uint64_t own_mapped_size(uint64_t size)
{
	/* A size that does not fit was refused with its layout. */
	return size ? (size + PAGE - 1) & ~(PAGE - 1) : PAGE;
}

/* ---- made here ------------------------------------------------------- */

static int memory_file(uint64_t size)
{
	int fd = file_limit_check(size);

	if (fd < 0)
		return fd;
	fd = fd_memory("tarn-tensor");
	if (fd < 0)
		return tarn_fail(-fd, "a memfd of %llu bytes: %s",
			(unsigned long long)size, tarn_errno_text(fd));
	/* A client that gets it for reading must not be able to reopen it for
	 * writing; a daemon that serves it must be able to open it for
	 * reading. */
	if (ftruncate(fd, (off_t)size) < 0 || fchmod(fd, 0644) < 0) {
		int err = errno;

		fd_close(fd);
		return tarn_fail(err, "a memfd of %llu bytes: %s",
			(unsigned long long)size, tarn_errno_text(err));
	}
	return fd;
}

static int fill(const struct own_place *place, void *addr, uint64_t mapped,
	uint64_t there)
{
	int r = own_place_bind(place, addr, mapped);

	if (r < 0)
		return r;
	/* Only a hint: kernels without THP for shared memory refuse it. */
	madvise(addr, mapped, MADV_HUGEPAGE);
	return there ? own_take(place, addr, there) : 0;
}

int own_create_part(uint64_t size, uint64_t there,
	const struct own_place *place, int *ret_fd, void **ret_addr)
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
	r = fill(place, addr, mapped, there);
	if (r < 0) {
		munmap(addr, mapped);
		return r;
	}
	*ret_fd = fd_steal(&fd);
	*ret_addr = addr;
	return 0;
}

int own_create(uint64_t size, const struct own_place *place, int *ret_fd,
	void **ret_addr)
{
	return own_create_part(
		size, own_mapped_size(size), place, ret_fd, ret_addr);
}

int own_create_blank(uint64_t size, const struct own_place *place, int *ret_fd,
	void **ret_addr, bool *ret_blank)
{
	bool blank = own_may_write(place);
	int r = own_create_part(size, blank ? 0 : own_mapped_size(size), place,
		ret_fd, ret_addr);

	if (r >= 0)
		*ret_blank = blank;
	return r;
}

int own_grow(int fd, void **addr, uint64_t size, uint64_t to,
	const struct own_place *place)
{
	int r = own_check_room(to - size);
	void *moved;

	if (r >= 0)
		r = file_limit_check(to);
	if (r < 0)
		return r;
	if (ftruncate(fd, (off_t)to) < 0)
		return tarn_fail(errno, "a memfd of %llu bytes: %s",
			(unsigned long long)to, tarn_errno_text(errno));
	moved = mremap(*addr, size, to, MREMAP_MAYMOVE);
	if (moved == MAP_FAILED)
		return tarn_fail(errno, "mapping %llu bytes: %s",
			(unsigned long long)to, tarn_errno_text(errno));
	r = fill(place, (char *)moved + size, to - size, to - size);
	if (r < 0)
		moved = mremap(moved, to, size, 0);
	*addr = moved;
	return r;
}

void own_seal(int fd, bool mutable)
{
	const int size = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

	fcntl(fd, F_ADD_SEALS,
		mutable ? size : size | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE);
}

bool own_is_sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && seals & F_SEAL_WRITE;
}

static bool remap(int fd, void *addr, uint64_t size, int prot)
{
	/* A registration would keep the old pages; and it would pin them, so
	 * that they could not be sealed. */
	cuda_forget(addr, own_mapped_size(size));
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

int own_renew(int *fd, void *addr, uint64_t size, const struct own_place *place)
{
	_cleanup_fd_ int copy = -1;
	void *bytes;
	int r = own_create(size, place, &copy, &bytes);

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

/* A file that is mapped must not shrink, nor change unless it is mutable. */
static int check(int fd, const struct table_storage *entry)
{
	bool mutable = entry->flags & STORAGE_MUTABLE;
	int wanted = F_SEAL_SHRINK | (mutable ? 0 : F_SEAL_WRITE);
	int seals = fcntl(fd, F_GET_SEALS);
	uint64_t size = entry->size;
	struct stat st;

	if (seals < 0 || (seals & wanted) != wanted)
		return tarn_fail(EPROTO,
			"daemon: a storage with seals %#x; without %#x its "
			"bytes or its size could change",
			(unsigned)seals, (unsigned)wanted);
	/* Its writers could free pages that are being read. */
	if (mutable && segment_is_huge(fd))
		return tarn_fail(EPROTO,
			"daemon: a mutable storage in huge pages, which may "
			"be missing when they are read");
	if (entry->flags & STORAGE_PATCH)
		size = (uint64_t)entry->own_pages * PAGE;
	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size < size)
		return tarn_fail(EPROTO,
			"daemon: a storage of %llu bytes in a memfd of %lld",
			(unsigned long long)size, (long long)st.st_size);
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

int own_map_cow(struct tarn_store *store, uint32_t index, uint64_t generation,
	const struct table_storage *entry, struct cow_map *map, void **ret_addr)
{
	_cleanup_fd_ int fd =
		own_fetch_checked(store, index, generation, entry);
	int r;

	if (fd < 0)
		return fd;
	r = cow_map_reserve(map, own_mapped_size(entry->size), 0);
	if (r >= 0)
		r = cow_map_add(map, 0, fd, 0, map->size);
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
