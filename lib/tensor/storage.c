// SPDX-License-Identifier: MIT
/*
 * Storages: a counted reference to bytes somewhere. The count is the common
 * part; only the release function knows the owner of the bytes, so that lent
 * memory, a daemon's pool and a file differ in nothing else.
 */
#include "lib/tensor/storage.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/page.h"

/* A cache line, and the widest vector of any supported CPU. */
#define ALIGNMENT 64

/*
 * From this size on memory consists of separate pages, not a part of the heap:
 * direct I/O reaches it without a bounce. From LARGE on it lies on huge pages,
 * of which I/O pins one where it would pin 512 small ones; for less, a huge
 * page would waste too much at the end.
 */
#define MEDIUM ((uint64_t)1 << 20)
#define LARGE ((uint64_t)4 << 20)

/*
 * Pages of storages that are gone and whose bytes could be any, for the next of
 * the kind: the kernel clears fresh pages when they are first touched, which takes
 * as long as an operation that writes them. So much memory is kept at most; picked,
 * as what the heap of glibc keeps of what is freed.
 */
#define KEPT 4
#define KEPT_MOST ((size_t)32 << 20) /* bytes of each */
/* The largest usual block of direct I/O. */
#define IO_BLOCK 4096

/* All that a process can address with four levels of pages. For larger requests
 * some allocators abort instead of failing. */
#define MAX_ALLOC (1ull << 47)

void tarn_storage_init(tarn_storage *storage, enum tarn_storage_kind kind,
	void *data, uint64_t size, bool writable, void (*release)(void *arg),
	void *arg)
{
	atomic_init(&storage->kind, kind);
	atomic_init(&storage->writable, writable);
	storage->size = size;
	storage->data = data;
	storage->read = NULL;
	storage->on_device = NULL;
	storage->map_cow = NULL;
	storage->cow = NULL;
	storage->make_guard = NULL;
	atomic_init(&storage->guard, NULL);
	atomic_init(&storage->release, release);
	atomic_init(&storage->arg, arg);
	storage->part = false;
}

int tarn_storage_new(enum tarn_storage_kind kind, void *data, uint64_t size,
	bool writable, void (*release)(void *arg), void *arg,
	tarn_storage **ret)
{
	tarn_storage *s = malloc(sizeof(*s));

	if (!s)
		return tarn_fail(ENOMEM, "storage: out of memory");
	atomic_init(&s->refs, 1);
	tarn_storage_init(s, kind, data, size, writable, release, arg);
	*ret = s;
	return 0;
}

/* ---- owned ----------------------------------------------------------- */

struct pages {
	void *start;
	size_t size;
	bool zeroed; /* the owner wanted zeros: they go back to the kernel */
};

static struct pages *_Atomic kept[KEPT];

static void pages_unmap(struct pages *p)
{
	if (!p)
		return;
	munmap(p->start, p->size);
	free(p);
}

/* Acquire and release: what the pages' last owner has written comes before what
 * the next one does; pairs with itself, and with the exchange in pages_take. */
static void pages_keep(unsigned slot, struct pages *p)
{
	pages_unmap(atomic_exchange_explicit(
		&kept[slot % KEPT], p, memory_order_acq_rel));
}

static void pages_free(void *arg)
{
	static atomic_uint next; /* the slot that was filled least lately */
	struct pages *p = arg;

	/* Relaxed: any slot will do. */
	if (!p->zeroed && p->size <= KEPT_MOST)
		pages_keep(atomic_fetch_add_explicit(
				   &next, 1, memory_order_relaxed),
			p);
	else
		pages_unmap(p);
}

/* Kept ones of at least so many bytes and not many more; NULL: there are none. */
static struct pages *pages_take(size_t size)
{
	for (unsigned i = 0; size <= KEPT_MOST && i < KEPT; i++) {
		struct pages *p = atomic_exchange_explicit(
			&kept[i], NULL, memory_order_acq_rel);

		if (p && p->size >= size && p->size / 2 <= size)
			return p;
		if (p)
			pages_keep(i, p);
	}
	return NULL;
}

/* An address range of size bytes that begins at a multiple of align, both in
 * whole pages; NULL: there is none. */
static char *map_aligned(size_t size, size_t align)
{
	size_t room = size + align, before;
	char *all = mmap(NULL, room, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (all == MAP_FAILED)
		return NULL;
	before = -(uintptr_t)all & (align - 1);
	if (before)
		munmap(all, before);
	if (align > before)
		munmap(all + before + size, align - before);
	return all + before;
}

/* Not touched: the kernel's fresh pages are zero. */
static struct pages *pages_map(size_t size, size_t page)
{
	struct pages *p = malloc(sizeof(*p));

	if (!p)
		return NULL;
	p->size = size;
	p->start = map_aligned(size, size < LARGE ? page : HUGE_PAGE);
	if (!p->start) {
		free(p);
		return NULL;
	}
	if (size >= LARGE)
		madvise(p->start, size, MADV_HUGEPAGE); /* a hint */
	return p;
}

static int alloc_pages(
	uint64_t size, uint32_t lead, bool zeroed, tarn_storage **ret)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t total = (size + lead + page - 1) & ~(page - 1);
	struct pages *p = zeroed ? NULL : pages_take(total);
	int r;

	if (!p)
		p = pages_map(total, page);
	if (!p)
		return tarn_fail(ENOMEM, "storage: no memory for %llu bytes",
			(unsigned long long)size);
	p->zeroed = zeroed;
	r = tarn_storage_new(TARN_STORAGE_OWNED, (char *)p->start + lead, size,
		true, pages_free, p, ret);
	if (r < 0)
		pages_free(p);
	return r;
}

/* calloc, not aligned_alloc and memset: fresh memory from the kernel is zero
 * already. */
static int alloc_heap(uint64_t size, bool zeroed, tarn_storage **ret)
{
	_cleanup_free_ void *raw =
		zeroed ? calloc(1, size + ALIGNMENT) : malloc(size + ALIGNMENT);
	uintptr_t start;
	int r;

	if (!raw)
		return tarn_fail(ENOMEM, "storage: no memory for %llu bytes",
			(unsigned long long)size);
	start = ((uintptr_t)raw + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
	r = tarn_storage_new(
		TARN_STORAGE_OWNED, (void *)start, size, true, free, raw, ret);
	if (r >= 0)
		raw = NULL;
	return r;
}

static int alloc(
	uint64_t size, uint64_t offset, bool zeroed, tarn_storage **ret)
{
	if (size > MAX_ALLOC)
		return tarn_fail(ENOMEM,
			"storage: %llu bytes are more than one address space",
			(unsigned long long)size);
	if (size < MEDIUM)
		return alloc_heap(size, zeroed, ret);
	return alloc_pages(size, (uint32_t)(offset % IO_BLOCK), zeroed, ret);
}

int storage_alloc_like(uint64_t size, uint64_t offset, tarn_storage **ret)
{
	return alloc(size, offset, true, ret);
}

int storage_alloc_any(uint64_t size, tarn_storage **ret)
{
	return alloc(size, 0, false, ret);
}

int tarn_storage_alloc(uint64_t size, tarn_storage **ret)
{
	return storage_alloc_like(size, 0, ret);
}

/* ---- borrowed -------------------------------------------------------- */

int tarn_storage_borrow(void *data, uint64_t size, unsigned flags,
	void (*release)(void *arg), void *arg, tarn_storage **ret)
{
	if (flags & ~TARN_BORROW_WRITABLE)
		return tarn_fail(EINVAL, "storage: unknown flags %#x",
			flags & ~TARN_BORROW_WRITABLE);
	if (!data && size > 0)
		return tarn_fail(EINVAL,
			"storage: %llu bytes were lent without an address",
			(unsigned long long)size);
	if (size > PTRDIFF_MAX)
		return tarn_fail(EOVERFLOW,
			"storage: %llu bytes are more than one address space",
			(unsigned long long)size);
	return tarn_storage_new(TARN_STORAGE_BORROWED, data, size,
		flags & TARN_BORROW_WRITABLE, release, arg, ret);
}

/* ---- life ------------------------------------------------------------ */

tarn_storage *tarn_storage_ref(tarn_storage *storage)
{
	/* Relaxed: a caller that passes a reference on already holds one, and
	 * whatever brought it to this thread ordered everything else. */
	if (storage)
		atomic_fetch_add_explicit(
			&storage->refs, 1, memory_order_relaxed);
	return storage;
}

tarn_storage *tarn_storage_unref(tarn_storage *storage)
{
	if (!storage)
		return NULL;
	if (storage->part) {
		if (storage_drop(storage, 1))
			storage->release(storage->arg);
		return NULL;
	}
	/* Release: this thread's last accesses happen before the bytes are
	 * given back; pairs with the acquire half of the same in the thread
	 * that drops the last reference. A fence there would be enough, but
	 * ThreadSanitizer does not support fences. */
	if (atomic_fetch_sub_explicit(
		    &storage->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	storage_drop_guard(storage);
	if (storage->release)
		storage->release(storage->arg);
	free(storage);
	return NULL;
}

int tarn_storage_read(
	const tarn_storage *storage, uint64_t offset, void *buf, uint64_t size)
{
	uint64_t end;

	if (add_u64(offset, size, &end) || end > storage->size)
		return tarn_fail(ERANGE,
			"storage: bytes %llu to %llu of a storage of %llu",
			(unsigned long long)offset,
			(unsigned long long)(offset + size),
			(unsigned long long)storage->size);
	if (size == 0)
		return 0;
	if (!storage_by_address(storage))
		return storage->read(storage, offset, buf, size);
	memcpy(buf, (const char *)storage->data + offset, size);
	return 0;
}

enum tarn_storage_kind tarn_storage_kind(const tarn_storage *storage)
{
	return storage->kind;
}

uint64_t tarn_storage_size(const tarn_storage *storage)
{
	return storage->size;
}

bool tarn_storage_writable(const tarn_storage *storage)
{
	return storage->writable;
}

void *tarn_storage_data(const tarn_storage *storage)
{
	return storage->data;
}
