/* SPDX-License-Identifier: MIT */
/*
 * Acquiring and releasing a lease.
 *
 * The client that acquires and the server that frees both store, fence, and
 * then read what the other stores (A1 to A3 and F1 to F3 in the header), so
 * that at least one of them sees the other.
 */
#include "shm/lease.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"

int lease_create(int *ret_fd)
{
	struct {
		uint64_t magic;
		uint32_t version;
		uint32_t pad; /* otherwise stack bytes would be sent */
	} head = {LEASE_MAGIC, LEASE_VERSION, 0};
	_cleanup_fd_ int fd =
		memfd_create("tarn-lease", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return tarn_fail(errno, "lease page: memfd_create: %s",
			tarn_errno_text(errno));
	if (ftruncate(fd, LEASE_SIZE) < 0 ||
		pwrite(fd, &head, sizeof(head), 0) != sizeof(head) ||
		fcntl(fd, F_ADD_SEALS,
			F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return tarn_fail(errno ? errno : ENOMEM,
			"lease page of %u bytes: %s", LEASE_SIZE,
			tarn_errno_text(errno));
	*ret_fd = fd_steal(&fd);
	return 0;
}

int lease_map(int fd, struct lease_page **ret)
{
	struct stat st;
	struct lease_page *page;
	int seals = fcntl(fd, F_GET_SEALS);

	if (fstat(fd, &st) < 0)
		return tarn_fail(
			errno, "lease page: fstat: %s", tarn_errno_text(errno));
	if (st.st_size != LEASE_SIZE || seals < 0 || !(seals & F_SEAL_SHRINK))
		return tarn_fail(EPROTO,
			"lease page: %lld bytes with seals 0x%x instead of %u "
			"bytes sealed against shrinking",
			(long long)st.st_size, (unsigned int)seals, LEASE_SIZE);
	page = mmap(
		NULL, LEASE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return tarn_fail(
			errno, "lease page: mmap: %s", tarn_errno_text(errno));
	if (page->magic != LEASE_MAGIC || page->version != LEASE_VERSION) {
		int r = tarn_fail(EPROTO,
			"lease page: magic %llx, version %u instead of %llx, "
			"%u",
			(unsigned long long)page->magic, page->version,
			(unsigned long long)LEASE_MAGIC, LEASE_VERSION);

		lease_unmap(page);
		return r;
	}
	*ret = page;
	return 0;
}

struct lease_page *lease_unmap(struct lease_page *page)
{
	if (page)
		munmap(page, LEASE_SIZE);
	return NULL;
}

/* The other side may write anything into used. */
static uint32_t slots_used(const struct lease_page *page)
{
	/* Relaxed: a reader that must not miss a slot has fenced before
	 * (F2). */
	uint32_t used = atomic_load_explicit(&page->used, memory_order_relaxed);

	return MIN(used, (uint32_t)LEASE_SLOTS);
}

static uint64_t storage_now(const struct table *table, uint32_t index)
{
	/* Acquire: pairs with the release store in table_storage_set and
	 * table_storage_add, so that the entry that the word describes is seen
	 * too. */
	return atomic_load_explicit(
		&table->storages[index].word, memory_order_acquire);
}

void lease_close(struct lease_page *page)
{
	/* C. Relaxed: it needs no order. A storage that is freed without a scan
	 * of this page gets another generation first. */
	atomic_store_explicit(&page->closed, 1, memory_order_relaxed);
}

bool lease_is_closed(const struct lease_page *page)
{
	/* Relaxed: see lease_close() */
	return atomic_load_explicit(&page->closed, memory_order_relaxed);
}

void lease_notify(struct lease_page *page)
{
	/* R1. Release: pairs with R3's acquire, in lease_was_notified() */
	atomic_store_explicit(&page->notified, 1, memory_order_release);
	/* The fence comes before R2 finds the socket full: it pairs with the
	 * fence in lease_was_notified(). No system call is guaranteed to be a
	 * fence. */
	atomic_thread_fence(memory_order_seq_cst);
}

bool lease_was_notified(struct lease_page *page)
{
	/* After the message left the socket, which makes room there: pairs with
	 * the fence in lease_notify(). */
	atomic_thread_fence(memory_order_seq_cst);
	/* Relaxed, after the fence: if this load does not see a client's store,
	 * that client finds room in the socket, and so sends a message. */
	if (!atomic_load_explicit(&page->notified, memory_order_relaxed))
		return false;
	/* R3. Acquire: pairs with R1's release, in lease_notify(). */
	return atomic_exchange_explicit(
		&page->notified, 0, memory_order_acquire);
}

int lease_acquire(struct lease_page *page, const struct table *table,
	uint32_t index, uint64_t generation, uint32_t slot)
{
	uint64_t word;
	int r = -ESTALE;

	if (index >= TABLE_STORAGES_MAX || generation == 0 ||
		generation >> TABLE_GENERATION_BITS)
		return tarn_fail(ESTALE,
			"lease: there is no storage %u of generation %llu",
			index, (unsigned long long)generation);
	/* used is written first: the server reads no slot beyond it. The fence
	 * orders both before A3, and the argument needs no more. */
	if (slot >= slots_used(page))
		atomic_store_explicit(
			&page->used, slot + 1, memory_order_relaxed);
	/* A1 */
	atomic_store_explicit(&page->slots[slot], lease_word(index, generation),
		memory_order_relaxed);
	/* A2: pairs with the server's fence between FREEING and its scan */
	atomic_thread_fence(memory_order_seq_cst);
	/* A3 */
	word = storage_now(table, index);
	if (storage_word_generation(word) == generation) {
		switch (storage_word_state(word)) {
		case STORAGE_FILLING:
		case STORAGE_LIVE:
		case STORAGE_UNNAMED:
			/* A4: after A3, which is an acquire load */
			if (!lease_is_closed(page))
				return 0;
			r = -ENOTCONN;
			break;
		case STORAGE_FREEING:
			r = -EBUSY;
			break;
		default:
			break;
		}
	}
	/* Release: this client's reads, if any, come before the slot is empty;
	 * pairs with the server's fence before it scans. */
	atomic_store_explicit(&page->slots[slot], 0, memory_order_release);
	if (r == -EBUSY)
		return tarn_fail(EBUSY,
			"lease: storage %u of generation %llu is being freed",
			index, (unsigned long long)generation);
	if (r == -ENOTCONN)
		return tarn_fail(ENOTCONN,
			"lease: the server does not scan this page any more");
	return tarn_fail(ESTALE,
		"lease: storage %u has generation %llu (state %d), not %llu",
		index, (unsigned long long)storage_word_generation(word),
		(int)storage_word_state(word), (unsigned long long)generation);
}

bool lease_is_awaited(
	const struct table *table, uint32_t index, uint64_t generation)
{
	uint64_t word = storage_now(table, index);

	/* It was freed in between: a superfluous notification does no harm. */
	if (storage_word_generation(word) != generation)
		return true;
	return storage_word_state(word) == STORAGE_UNNAMED ||
	       storage_word_state(word) == STORAGE_FREEING;
}

bool lease_release(
	struct lease_page *page, const struct table *table, uint32_t slot)
{
	uint64_t lease;
	uint32_t index;

	if (slot >= LEASE_SLOTS)
		return false;
	lease = atomic_load_explicit(&page->slots[slot], memory_order_relaxed);
	if (!lease)
		return false;
	index = (uint32_t)(lease & ((1u << TABLE_INDEX_BITS) - 1));
	/* Release: this client's last reads of the bytes come before it; pairs
	 * with the server's fence before it scans. */
	atomic_store_explicit(&page->slots[slot], 0, memory_order_release);
	/* As A2: pairs with the server's fence between its store to the
	 * storage's word and its scan. */
	atomic_thread_fence(memory_order_seq_cst);
	if (index >= TABLE_STORAGES_MAX)
		return false;
	return lease_is_awaited(table, index, lease >> TABLE_INDEX_BITS);
}

bool lease_is_unused(const struct lease_page *page)
{
	return slots_used(page) == 0;
}

uint32_t lease_count(const struct lease_page *page)
{
	uint32_t used = slots_used(page), count = 0;

	for (uint32_t i = 0; i < used; i++)
		count += atomic_load_explicit(
				 &page->slots[i], memory_order_relaxed) != 0;
	return count;
}
