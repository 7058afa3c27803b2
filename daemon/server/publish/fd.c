/* SPDX-License-Identifier: MIT */
/*
 * Sources that come as a memfd: adopted, also as a patch, left mutable, or copied.
 *
 * A memfd that is sealed against writing, and has all its pages, is as good as
 * the pool. The publisher adds the seals, which the kernel lets it do only if
 * no process has the memfd mapped writable; the server checks them. A memfd
 * that lacks them is copied: that costs only the publisher.
 *
 * No call here waits for the lock of the inode, which a client holds for as
 * long as it likes: by a write() from memory that does not come, of a FUSE file
 * or under userfaultfd. F_ADD_SEALS, ftruncate and fallocate take that lock.
 * F_GET_SEALS, fstat, fstatfs and open read fields. Reading a memfd takes the
 * lock of one page at a time, which the kernel never holds while it waits for
 * a process. So does a fault in a mapping; mmap takes the inode's lock only
 * for huge pages, which are not mapped here.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "base/page.h"
#include "base/shmem_huge.h"
#include "daemon/server/publish/internal.h"
#include "shm/segment.h"

#define ADOPT_MIN (2ull << 20) /* a descriptor each is for large ones */
/* Some 25 us of the server in memory that it has mapped, 150 in fresh memory,
 * whose pages are mapped and cleared on the way; picked. */
#define COPY_HERE (256ull << 10)

#define SEALS_SIZE (F_SEAL_SHRINK | F_SEAL_GROW)
#define SEALS_ADOPT (SEALS_SIZE | F_SEAL_WRITE)
/* Final, so that none of its writers keeps out another by one more seal. */
#define SEALS_MUTABLE (SEALS_SIZE | F_SEAL_SEAL)

#ifndef SYS_cachestat
#define SYS_cachestat 451 /* on every architecture */
#endif

/* What cachestat(2) counts; evicted: to swap. */
struct cached_pages {
	uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

static struct source *source_of(struct work *work)
{
	return (struct source *)((char *)work - offsetof(struct source, work));
}

static uint64_t whole_pages(uint64_t size)
{
	return size ? (size + PAGE - 1) & ~(PAGE - 1) : PAGE;
}

/* Bytes that its memfd should have. */
static uint64_t own_pages(const struct source *s)
{
	return whole_pages(s->kind == SOURCE_PATCH ? s->own_size : s->size);
}

/* ---- the worker ------------------------------------------------------ */

static void copy(struct work *work)
{
	struct source *s = source_of(work);
	uint64_t offset = 0;

	s->copied = 0;
	for (uint32_t i = 0; i < s->n_pieces; i++) {
		const struct iovec *piece = &s->pieces[i];
		ssize_t n = fd_pread(
			s->fd, piece->iov_base, piece->iov_len, offset);

		if (n < 0) {
			s->copied = (int64_t)n;
			return;
		}
		offset += (uint64_t)n;
		s->copied = (int64_t)offset;
		if ((size_t)n < piece->iov_len)
			return;
	}
}

/* ---- copies ---------------------------------------------------------- */

static int judge_copy(struct publish *p, struct source *s)
{
	const struct table_storage *e = &p->domain->table.storages[s->index];

	if (s->copied < 0)
		return tarn_fail((int)-s->copied,
			"publish: reading the memfd: %s",
			tarn_errno_text((int)s->copied));
	if ((uint64_t)s->copied < s->size)
		return tarn_fail(EINVAL,
			"publish: the memfd shrank to %lld bytes, %llu were "
			"promised",
			(long long)s->copied, (unsigned long long)s->size);
	pool_write(&p->domain->pool, e->base + s->size, NULL,
		e->alloc_size - s->size);
	return 1;
}

static int copy_from_fd(struct publish *p, struct source *s)
{
	const struct table_storage *e;
	int r;

	if (s->worked)
		return judge_copy(p, s);
	r = publish_take_memory(p, s);
	if (r != 1)
		return r;
	e = &p->domain->table.storages[s->index];
	r = pool_pieces(
		&p->domain->pool, e->base, s->size, &s->pieces, &s->n_pieces);
	if (r < 0)
		return r;
	if (s->size > COPY_HERE)
		return publish_give_work(p, s, copy);
	copy(&s->work);
	return judge_copy(p, s);
}

/* ---- storages of their own ------------------------------------------- */

struct table_storage publish_own_entry(
	const struct publish *p, const struct source *s)
{
	struct table_storage entry = {
		.pool = TABLE_POOL_OWN,
		.owner = p->uid,
		.size = s->size,
		.flags = STORAGE_CREATED | STORAGE_OWN,
	};

	if (s->kind == SOURCE_DEVICE) {
		entry.flags |= STORAGE_DEVICE;
		memcpy(entry.device, s->device, sizeof(entry.device));
	}
	if (s->kind == SOURCE_PATCH)
		publish_describe_patch(s, &entry);
	return entry;
}

/* 1: there is; 0: wait. The quota is checked once more: others of its user may
 * have been taken while it waited. */
static int find_room(struct publish *p, struct source *s)
{
	const struct table_storage entry = publish_own_entry(p, s);
	int r = storage_check_quota(p->domain, &entry, &p->wait);

	if (r != 0)
		return r == MEMORY_LATER ? 0 : r;
	return memory_want(&p->wait, own_pages(s), true);
}

/* Takes fd. */
static int add_own(struct publish *p, struct source *s, uint32_t flags, int fd)
{
	struct table_storage entry = publish_own_entry(p, s);
	int r;

	entry.flags |= flags;
	r = own_add(p->domain, &entry, fd, &s->index, &s->generation);

	s->made = r == 0;
	publish_awaited(p, s);
	return r < 0 ? r : 1;
}

/* Has it pages behind its end, where fallocate() puts them (FALLOC_FL_KEEP_SIZE)
 * and no process maps them? Nobody would be charged for them. Its last page may
 * reach beyond its end. */
static bool has_more(const struct stat *st)
{
	uint64_t there = (uint64_t)st->st_blocks * 512, size, page;

	if (there <= (uint64_t)st->st_size)
		return false;
	page = shmem_page_max("");
	return round_up_u64((uint64_t)st->st_size, page, &size) == 0 &&
	       there > size;
}

/* Sealed, of the size it should have, all of it there: a hole would be memory
 * that is taken when it is read. Huge pages are copied: their reserve is not
 * the daemon's to keep. */
static bool is_adoptable(const struct source *s)
{
	int seals = fcntl(s->fd, F_GET_SEALS);
	struct stat st;

	return seals >= 0 && (seals & SEALS_ADOPT) == SEALS_ADOPT &&
	       !segment_is_huge(s->fd) && fstat(s->fd, &st) == 0 &&
	       (uint64_t)st.st_size == own_pages(s) &&
	       (uint64_t)st.st_blocks * 512 >= (uint64_t)st.st_size &&
	       !has_more(&st);
}

bool publish_is_own(const struct publish *p, const struct source *s)
{
	if (s->kind == SOURCE_MUTABLE || s->kind == SOURCE_CHANNEL ||
		s->kind == SOURCE_DEVICE || s->kind == SOURCE_PATCH)
		return true;
	return s->kind == SOURCE_ADOPT && s->size >= ADOPT_MIN &&
	       own_has_room(p->domain->server) && is_adoptable(s);
}

/* Pages behind the end may make up for holes in what st_blocks counts. The call
 * takes no lock, and the longer the more of these pages there are. Where the
 * kernel lacks it (before Linux 6.5), such holes are not found. */
static void find_holes(struct work *work)
{
	struct source *s = source_of(work);
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t behind[] = {0, 0}; /* from where; 0: whatever comes */
	struct cached_pages there = {0};
	struct stat st;

	s->holes = fstat(s->fd, &st) < 0 ||
		   round_up_u64((uint64_t)st.st_size, page, &behind[0]);
	if (!s->holes && syscall(SYS_cachestat, s->fd, behind, &there, 0) == 0)
		s->holes = (uint64_t)st.st_blocks * 512 <
			   (uint64_t)st.st_size +
				   (there.cached + there.evicted) * page;
}

/* 0: the worker looks for them. */
static int know_holes(struct publish *p, struct source *s)
{
	if (s->worked)
		return 1;
	if (publish_give_work(p, s, find_holes) == 0)
		return 0;
	/* There can be no thread. */
	find_holes(&s->work);
	return 1;
}

/* There is no copy of a patch: it is what it says in its own pages. */
static int refuse_patch(const struct publish *p, const struct source *s)
{
	if (!own_has_room(p->domain->server))
		return tarn_fail(EMFILE,
			"publish: there are no descriptors for one more patch "
			"(ulimit -n of the daemon); publish the tensors whole");
	return tarn_fail(EINVAL,
		"publish: the memfd of a patch of %llu bytes is not sealed "
		"against writing, or has not all its pages",
		(unsigned long long)s->own_size);
}

static int adopt_patch(struct publish *p, struct source *s)
{
	int ro, r;

	if (!know_holes(p, s))
		return 0;
	if (s->holes || !own_has_room(p->domain->server) || !is_adoptable(s))
		return refuse_patch(p, s);
	r = find_room(p, s);
	if (r != 1)
		return r;
	/* From here on to its entry nothing else happens. */
	r = publish_check_base(p, s);
	if (r == 0)
		r = segment_reopen(s->fd, &ro);
	return r < 0 ? r : add_own(p, s, 0, ro);
}

static int adopt(struct publish *p, struct source *s)
{
	bool own = publish_is_own(p, s);
	int ro, r;

	if (own && !know_holes(p, s))
		return 0;
	if (own && !s->holes && segment_reopen(s->fd, &ro) == 0) {
		r = find_room(p, s);
		if (r == 1)
			return add_own(p, s, 0, ro);
		fd_close(ro);
		return r;
	}
	s->kind = SOURCE_COPY;
	s->worked = false;
	return copy_from_fd(p, s);
}

static int check_mutable(const struct publish *p, const struct source *s)
{
	int seals = fcntl(s->fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || (seals & SEALS_MUTABLE) != SEALS_MUTABLE ||
		seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE) ||
		(fcntl(s->fd, F_GETFL) & O_ACCMODE) != O_RDWR)
		return tarn_fail(EINVAL,
			"publish: a memfd with seals %#x cannot be a mutable "
			"tensor: it must be open for writing, and have the "
			"seals %#x, and neither of %#x",
			(unsigned)seals, (unsigned)SEALS_MUTABLE,
			(unsigned)(F_SEAL_WRITE | F_SEAL_FUTURE_WRITE));
	/* Its writers may punch pages out, and use up the reserve: then its
	 * readers are killed. */
	if (segment_is_huge(s->fd))
		return tarn_fail(EINVAL,
			"publish: a memfd of huge pages cannot be a mutable "
			"tensor; make it without MFD_HUGETLB");
	if (fstat(s->fd, &st) < 0 ||
		(uint64_t)st.st_size != whole_pages(s->size))
		return tarn_fail(EINVAL,
			"publish: a memfd of %lld bytes for a tensor of %llu; "
			"whole pages are wanted, and no more",
			(long long)st.st_size, (unsigned long long)s->size);
	if (has_more(&st))
		return tarn_fail(EINVAL,
			"publish: a memfd of %lld bytes for a mutable tensor "
			"has %lld bytes of memory; remove what lies behind its "
			"end (ftruncate)",
			(long long)st.st_size, (long long)st.st_blocks * 512);
	/* A client that may only read it gets a descriptor for reading, and
	 * must not be able to open it again for writing. */
	if (st.st_mode & 022)
		return tarn_fail(EPERM,
			"publish: the memfd of a mutable tensor has mode %o; "
			"others than its owner must not be able to write it",
			st.st_mode & 0777u);
	if (!own_has_room(p->domain->server))
		return tarn_fail(EMFILE,
			"publish: there are no descriptors for one more "
			"mutable tensor (ulimit -n of the daemon)");
	return 0;
}

/*
 * Opened again: as long as it is open for writing twice no process can take a
 * lease on it (F_SETLEASE), which would block clients that open it. A daemon
 * that may not open it so holds the descriptor that it was sent.
 */
static int leave_mutable(struct publish *p, struct source *s)
{
	int r = check_mutable(p, s), fd;

	if (r == 0)
		r = find_room(p, s);
	if (r != 1)
		return r;
	r = segment_reopen_as(s->fd, O_RDWR, &fd);
	if (r == -EACCES)
		fd = fd_steal(&s->fd);
	else if (r < 0)
		return r;
	if (s->kind == SOURCE_MUTABLE)
		return add_own(p, s, STORAGE_MUTABLE, fd);
	r = add_own(p, s, STORAGE_MUTABLE | STORAGE_CHANNEL, fd);
	if (r < 0)
		return r;
	r = channel_open(p->domain, s->index, s->generation,
		own_fd(p->domain, s->index, s->generation));
	return r < 0 ? tarn_fail_prefix(r, "publish: ") : 1;
}

int publish_from_fd(struct publish *p, struct source *s)
{
	switch (s->kind) {
	case SOURCE_COPY:
		return copy_from_fd(p, s);
	case SOURCE_ADOPT:
		return adopt(p, s);
	case SOURCE_PATCH:
		return adopt_patch(p, s);
	default:
		return leave_mutable(p, s);
	}
}
