// SPDX-License-Identifier: MIT
/*
 * The data of a file as memory: one read-only, shared mapping of its whole data
 * range, which all mapped tensors view, and which lives as long as one of them
 * or the file.
 *
 * An address in a file can fail: when the file shrinks, its pages are gone, and
 * a load there is a signal. So the storage has both: an address for the caller,
 * which asked for it, and pread for the library (storage_by_address).
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/page.h"
#include "lib/file/file.h"
#include "lib/tensor/tensor.h"

/* The size of a read where the kernel cannot populate by itself. */
#define READ_SIZE (256u << 10)

#define FLAGS_ALL (TARN_MAP_POPULATE | TARN_MAP_SEQUENTIAL | TARN_MAP_RANDOM)

struct mapping {
	struct storage_file file; /* first: see storage_file() */
	void *start;
	size_t size; /* 0: nothing is mapped */
};

static void mapping_release(void *arg)
{
	struct mapping *m = arg;

	if (m->size)
		munmap(m->start, m->size);
	storage_file_close(&m->file);
	free(m);
}

static uint64_t page_size(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Reserves an address range that is congruent to the file's offset, to map
 * over; NULL: there is none, the kernel may choose. */
static void *reserve(size_t size, uint64_t offset)
{
	uint64_t extra = HUGE_PAGE, begin, at;
	char *all;

	if (size < HUGE_PAGE || add_u64(size, extra, &extra))
		return NULL;
	all = mmap(NULL, extra, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (all == MAP_FAILED)
		return NULL;
	begin = (uint64_t)(uintptr_t)all;
	at = begin + (offset - begin) % HUGE_PAGE;
	if (at > begin)
		munmap(all, at - begin);
	/* Unmaps the rest after it, from the first whole page on. */
	size = (size + page_size() - 1) & ~(page_size() - 1);
	if (begin + extra > at + size)
		munmap(all + (at - begin) + size, begin + extra - at - size);
	return all + (at - begin);
}

/* The pages of the data range. */
static int map_pages(const struct tarn_file *file, struct mapping *m)
{
	uint64_t offset = file->data_offset & ~(page_size() - 1);
	uint64_t size = file->data_offset - offset + file->data_size;
	void *at, *start;

	if (size > PTRDIFF_MAX)
		return tarn_fail(ENOMEM,
			"map: %llu bytes are more than one address space",
			(unsigned long long)size);
	at = reserve(size, offset);
	start = mmap(at, size, PROT_READ, MAP_SHARED | (at ? MAP_FIXED : 0),
		m->file.fd, (off_t)offset);
	if (start == MAP_FAILED) {
		int err = errno;

		if (at)
			munmap(at, size);
		return tarn_fail(err, "map: %llu bytes at %llu: %s%s",
			(unsigned long long)size, (unsigned long long)offset,
			tarn_errno_text(err),
			err == ENODEV ? "; its file system maps no files" : "");
	}
	/* A fault then reads 2 MiB and more at once, in large folios where the
	 * file system supports them, whatever the disk's read-ahead is. */
	if (size >= HUGE_PAGE)
		madvise(start, size, MADV_HUGEPAGE);
	m->start = start;
	m->size = size;
	return 0;
}

static int map_file(const struct tarn_file *file, tarn_storage **ret)
{
	static char nothing; /* the address of a tensor without bytes */
	struct mapping *m = calloc(1, sizeof(*m));
	char *data = &nothing;
	int r;

	if (!m)
		return file_no_memory("a mapped file");
	r = storage_file_init(
		&m->file, file->fd, file->data_offset, file->data_size);
	m->file.writable = false;
	storage_file_parsed(&m->file, &file->version.identity);
	if (r >= 0 && file->data_size) {
		r = map_pages(file, m);
		if (r >= 0)
			data = (char *)m->start +
			       file->data_offset % page_size();
	}
	if (r >= 0)
		r = tarn_storage_new(TARN_STORAGE_MAPPED, data, file->data_size,
			false, mapping_release, m, ret);
	if (r < 0)
		mapping_release(m);
	else
		(*ret)->read = storage_file_read;
	return r;
}

/* The file's one mapping; borrowed from the file. */
static int mapped(struct tarn_file *file, tarn_storage **ret)
{
	tarn_storage *seen, *made;
	int r;

	/* Acquire: pairs with the release of the exchange below, in the thread
	 * that made it. */
	seen = atomic_load_explicit(&file->mapped, memory_order_acquire);
	if (!seen) {
		r = map_file(file, &made);
		if (r < 0)
			return r;
		/* Release: pairs with the load above. Acquire: with the
		 * exchange of a thread that was quicker. */
		if (atomic_compare_exchange_strong_explicit(&file->mapped,
			    &seen, made, memory_order_acq_rel,
			    memory_order_acquire))
			seen = made;
		else /* another thread was quicker */
			tarn_storage_unref(made);
	}
	*ret = seen;
	return 0;
}

/* ---- advice ---------------------------------------------------------- */

/* For valgrind, which does not know the advice: reads into the page cache,
 * which cannot fail with a signal. */
static int read_through(
	const tarn_storage *storage, uint64_t offset, uint64_t size)
{
	_cleanup_free_ char *buf = malloc(READ_SIZE);
	int r = buf ? 0 : file_no_memory("reading a file");

	for (uint64_t done = 0, n; r >= 0 && done < size; done += n) {
		n = MIN(size - done, READ_SIZE);
		r = tarn_storage_read(storage, offset + done, buf, n);
	}
	return r;
}

/* The kernel returns EFAULT where a load would be a signal: a read then finds
 * the cause. */
static int populate(const tarn_storage *storage, uint64_t offset, uint64_t size,
	void *start, size_t length)
{
	int r;

	if (madvise(start, length, MADV_POPULATE_READ) == 0)
		return 0;
	r = -errno;
	if (r == -EINVAL || r == -EFAULT)
		return read_through(storage, offset, size);
	return tarn_fail(-r, "map: populating %llu bytes: %s",
		(unsigned long long)size, tarn_errno_text(-r));
}

/* Applies to bytes of the mapping, and to others on the same pages. All of it
 * is a hint, except populating. */
static int advise(const tarn_storage *storage, uint64_t offset, uint64_t size,
	unsigned flags)
{
	uintptr_t begin = (uintptr_t)storage->data + offset;
	uintptr_t start = begin & ~(uintptr_t)(page_size() - 1);
	size_t length = begin + size - start;
	void *at = (void *)start;

	if (!size)
		return 0;
	if (flags & TARN_MAP_RANDOM) {
		madvise(at, length, MADV_NOHUGEPAGE);
		madvise(at, length, MADV_RANDOM);
	}
	if (flags & TARN_MAP_SEQUENTIAL)
		madvise(at, length, MADV_SEQUENTIAL);
	return flags & TARN_MAP_POPULATE
		       ? populate(storage, offset, size, at, length)
		       : 0;
}

int file_map_read(const tarn_tensor *tensor, uint64_t size,
	int (*progress)(void *arg, uint64_t done, uint64_t total), void *arg)
{
	int r = 0;

	for (uint64_t done = 0, n; r >= 0 && done < size; done += n) {
		n = MIN(size - done, HUGE_PAGE);
		r = advise(tensor->storage, tensor->base + done, n,
			TARN_MAP_POPULATE);
		/* At the end the result is ignored: all of it is there. */
		if (r >= 0 && progress(arg, done + n, size) && done + n < size)
			return tarn_fail(ECANCELED,
				"map: cancelled when %llu of %llu bytes were "
				"read",
				(unsigned long long)(done + n),
				(unsigned long long)size);
	}
	return r;
}

/* ---- the verb -------------------------------------------------------- */

static int check_flags(unsigned flags)
{
	if (flags & ~FLAGS_ALL)
		return tarn_fail(
			EINVAL, "map: unknown flags %#x", flags & ~FLAGS_ALL);
	if ((flags & TARN_MAP_SEQUENTIAL) && (flags & TARN_MAP_RANDOM))
		return tarn_fail(EINVAL,
			"map: it cannot be read sequentially and at random "
			"both");
	return 0;
}

static int map_view(struct tarn_file *file, uint64_t offset, uint64_t size,
	const struct tarn_layout *layout, unsigned flags, tarn_tensor **ret)
{
	tarn_storage *storage;
	int r = mapped(file, &storage);

	if (r >= 0 && flags)
		r = advise(storage, offset, size, flags);
	return r < 0 ? r : tarn_tensor_new(storage, offset, layout, ret);
}

int tarn_file_map(
	tarn_file *file, const char *name, unsigned flags, tarn_tensor **ret)
{
	const struct tarn_file_entry *tensor = NULL;
	uint64_t offset = 0, size = file->data_size;
	struct tarn_file *shard = file;
	int64_t all = (int64_t)size;
	struct tarn_layout layout;
	int r = check_flags(flags);

	if (r >= 0 && name)
		r = file_find(file, name, &tensor);
	else if (r >= 0 && file->shards)
		r = tarn_fail(ENOTSUP,
			"map: an index has no data range of its own; map its "
			"%zu shards one by one",
			file->shard_count);
	if (r >= 0 && tensor) {
		shard = tarn_file_shard(file, tensor->shard);
		offset = tensor->file_offset - shard->data_offset;
		size = tensor->nbytes;
		r = tarn_file_entry_layout(tensor, &layout);
	} else if (r >= 0) {
		r = tarn_layout_contiguous(TARN_U8, 1, &all, &layout);
	}
	if (r >= 0)
		r = map_view(shard, offset, size, &layout, flags, ret);
	return r < 0 ? tarn_fail_prefix(r, "%s: ", file->path) : 0;
}
