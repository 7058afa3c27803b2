/* SPDX-License-Identifier: MIT */
/*
 * Chooses the I/O mode. A query about a large window costs as much as one about
 * a page when the answer is all or nothing, as it nearly always is. Only where
 * it is neither, windows are halved until they have the size of a request.
 *
 * cachestat (6.5) answers it. It is refused to users who neither own the file
 * nor may write it, and older kernels lack it: then a few pages are read with
 * RWF_NOWAIT, which fails where that would wait. Such a test starts the reading
 * of that very page; so the pages are drawn at random, or the next test would
 * find just those.
 */
#include "lib/io/io_mode.h"

#include <stddef.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/io/io.h"

#ifndef SYS_cachestat
#define SYS_cachestat 451 /* on every architecture */
#endif

enum {
	/* The largest window. Counting 16 MiB of single pages takes some 30
	 * microseconds, copying them a hundred times that. */
	WINDOW_MAX = 16 << 20,
	WINDOW_MIN = TARN_IO_REQUEST,
	/* Buffers of copies are aligned to this, and so are pools. */
	ALIGN_MAX = 4096,
	PAGE = 4096, /* if pages are larger, one is tested twice */
	LOOKS = 3,
	/* Small reads for which one test must do, where a test begins to read
	 * what it tests. Picked. */
	REUSES = 32,
};

enum resident { RESIDENT_NONE, RESIDENT_FEW, RESIDENT_MOST, RESIDENT_ALL };

/* ---- file systems ---------------------------------------------------- */

/* From the kernel's magic.h, and for others from their own headers. */
static const uint32_t remote[] = {
	0x00006969, /* NFS */
	0x0000517B, /* SMB */
	0xFF534D42, /* CIFS */
	0xFE534D42, /* SMB2 */
	0x01021997, /* 9P */
	0x00C36400, /* Ceph */
	0x0BD00BD0, /* Lustre */
	0x47504653, /* GPFS, Storage Scale */
	0x19830326, /* BeeGFS */
	0x20030528, /* OrangeFS */
	0xAAD7AAEA, /* PanFS */
	0x6B414653, /* AFS, the kernel's */
	0x5346414F, /* OpenAFS */
	0x73757245, /* Coda */
	0x65735546, /* FUSE, virtiofs */
	0xBACBACBC, /* VMware's shared folders */
	0x786F4256, /* VirtualBox's */
};

/* Their files have FMODE_NOWAIT in the kernel, and a read of them waits for a
 * disk, not for a process or a peer. */
static const uint32_t prompt[] = {
	0x0000EF53, /* ext2, ext3, ext4 */
	0x58465342, /* XFS */
	0x9123683E, /* btrfs */
	0xF2F52010, /* F2FS */
	0x01021994, /* tmpfs */
};

static const uint32_t memory[] = {
	0x01021994, /* tmpfs */
	0x858458F6, /* ramfs */
	0x958458F6, /* hugetlbfs */
};

static bool listed(uint32_t type, const uint32_t *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == type)
			return true;
	return false;
}

enum io_fs io_fs_of(int fd)
{
	struct stat file;
	struct statfs st;

	/* A disk's file system is that of its device node. */
	if (fstat(fd, &file) < 0 || S_ISBLK(file.st_mode) ||
		fstatfs(fd, &st) < 0)
		return IO_FS_LOCAL;
	if (listed((uint32_t)st.f_type, remote, ARRAY_SIZE(remote)))
		return IO_FS_REMOTE;
	if (listed((uint32_t)st.f_type, memory, ARRAY_SIZE(memory)))
		return IO_FS_MEMORY;
	return IO_FS_LOCAL;
}

bool io_nowait_works(int fd)
{
	struct statfs st;

	return fstatfs(fd, &st) == 0 &&
	       listed((uint32_t)st.f_type, prompt, ARRAY_SIZE(prompt));
}

/* ---- the page cache -------------------------------------------------- */

/* As the kernel has them; older headers do not. */
struct stat_range {
	uint64_t offset, size;
};

struct stat_result {
	uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

static int ask_cachestat(int fd, uint64_t begin, uint64_t end)
{
	struct stat_range range = {begin, end - begin};
	struct stat_result now = {0};
	uint64_t pages = (uint64_t)sysconf(_SC_PAGESIZE);

	if (syscall(SYS_cachestat, fd, &range, &now, 0) < 0)
		return -errno;
	pages = (end - 1) / pages - begin / pages + 1;
	if (now.cached >= pages)
		return RESIDENT_ALL;
	/* Dirty pages must be written out before they can be read directly. */
	if (now.cached >= pages / 2 || now.dirty)
		return now.cached ? RESIDENT_MOST : RESIDENT_NONE;
	return now.cached ? RESIDENT_FEW : RESIDENT_NONE;
}

/* Is the page at a byte in the cache? 1, 0; -errno: unknown. */
static int look(int fd, uint64_t at)
{
	char byte;
	struct iovec iov = {&byte, 1};
	ssize_t n = preadv2(fd, &iov, 1, (off_t)at, RWF_NOWAIT);

	if (n >= 0)
		return n > 0;
	return errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

/* A page of the window, another one each time. */
static uint64_t draw(struct io_mode *io_mode, uint64_t begin, uint64_t end)
{
	uint64_t page;

	io_mode->seed = io_mode->seed * 1664525 + 1013904223;
	page = (end - begin - 1) / PAGE + 1;
	page = io_mode->seed % page * PAGE + begin;
	return MIN(page, end - 1);
}

static int ask_nowait(struct io_mode *io_mode, uint64_t begin, uint64_t end)
{
	int seen = 0, r;

	for (int i = 0; i < LOOKS; i++) {
		r = look(io_mode->fd, draw(io_mode, begin, end));
		if (r < 0)
			return r;
		seen += r;
		/* Usually it is cold, and then one test is enough. */
		if (i == 0 && r == 0)
			return RESIDENT_NONE;
	}
	return seen == LOOKS ? RESIDENT_ALL : RESIDENT_MOST;
}

static enum resident resident(
	struct io_mode *io_mode, uint64_t begin, uint64_t end)
{
	int r = 0;

	if (io_mode->ask == IO_PROBE_CACHESTAT) {
		r = ask_cachestat(io_mode->fd, begin, end);
		if (r < 0)
			io_mode->ask = io_mode->prompt ? IO_PROBE_NOWAIT
						       : IO_PROBE_NOTHING;
	}
	if (io_mode->ask == IO_PROBE_NOWAIT) {
		r = ask_nowait(io_mode, begin, end);
		if (r < 0)
			io_mode->ask = IO_PROBE_NOTHING;
	}
	return io_mode->ask == IO_PROBE_NOTHING ? RESIDENT_NONE
						: (enum resident)r;
}

/* ---- the I/O mode -------------------------------------------------------- */

static int no_direct(int direct_fd, enum io_fs fs)
{
	return tarn_fail(EINVAL,
		"I/O mode direct: the file cannot be read directly: %s; use "
		"TARN_IO_AUTO (--io auto)",
		fs == IO_FS_MEMORY ? "its file system is memory"
		: direct_fd < 0    ? "its file system refuses O_DIRECT"
				   : "its disk asks for larger blocks than "
				     "4096 bytes, or has none");
}

int io_mode_init(struct io_mode *io_mode, int fd, int direct_fd,
	enum tarn_io_mode wish, enum io_fs fs)
{
	struct timespec now = {0};

	*io_mode = (struct io_mode) {
		.fd = fd,
		.fs = fs,
		.wish = wish,
		.end = UINT64_MAX,
		.prompt = true,
		.window = WINDOW_MAX,
	};
	if (fs != IO_FS_MEMORY && direct_fd >= 0 && wish != TARN_IO_BUFFERED &&
		(fs == IO_FS_LOCAL || wish == TARN_IO_DIRECT))
		io_mode->align = tarn_direct_ask(direct_fd);
	if (io_mode->align.offset > ALIGN_MAX ||
		io_mode->align.memory > ALIGN_MAX)
		io_mode->align = (struct tarn_direct) {0, 0};
	if (wish == TARN_IO_DIRECT && io_mode->align.offset == 0)
		return no_direct(direct_fd, fs);
	if (fd < 0 || fs == IO_FS_MEMORY || wish == TARN_IO_DIRECT)
		io_mode->ask = IO_PROBE_NOTHING;
	clock_gettime(CLOCK_MONOTONIC, &now);
	io_mode->seed = (uint32_t)now.tv_nsec;
	return 0;
}

/* The mode for a window of this kind; the parts of a mixed window are queried
 * first. */
static enum io_kind kind_of(
	const struct io_mode *io_mode, enum resident resident)
{
	if (io_mode->fs == IO_FS_MEMORY || resident == RESIDENT_ALL)
		return IO_KIND_CACHED;
	if (io_mode->align.offset == 0 || resident == RESIDENT_MOST)
		return IO_KIND_BUFFERED;
	return IO_KIND_DIRECT;
}

/* Queries a window from begin on; the next one is twice as large if this one
 * was all of one kind. It ends at a multiple of WINDOW_MIN, whatever was asked:
 * so direct reads that are rounded to blocks read none twice. */
static void find_out(struct io_mode *io_mode, uint64_t begin)
{
	enum resident state = RESIDENT_NONE;

	if (io_mode->ask == IO_PROBE_NOTHING) {
		io_mode->upto = UINT64_MAX;
	} else {
		for (;; io_mode->window /= 2) {
			io_mode->upto = round_down_u64(begin, WINDOW_MIN);
			if (add_u64(io_mode->upto, io_mode->window,
				    &io_mode->upto))
				io_mode->upto = UINT64_MAX;
			io_mode->upto = MIN(io_mode->upto, io_mode->end);
			io_mode->upto = MAX(io_mode->upto, begin + 1);
			state = resident(io_mode, begin, io_mode->upto);
			if (state == RESIDENT_NONE || state == RESIDENT_ALL ||
				io_mode->window <= WINDOW_MIN)
				break;
		}
		io_mode->window =
			MIN(io_mode->window * 2, (uint64_t)WINDOW_MAX);
	}
	io_mode->known = begin;
	io_mode->kind = kind_of(io_mode, state);
}

enum io_kind io_mode_at(struct io_mode *io_mode, uint64_t begin, uint64_t end,
	uint64_t *ret_upto)
{
	if (begin < io_mode->known || begin >= io_mode->upto)
		find_out(io_mode, begin);
	*ret_upto = MIN(end, io_mode->upto);
	return io_mode->kind;
}

enum io_kind io_mode_just(struct io_mode *io_mode, uint64_t begin, uint64_t end)
{
	if (io_mode->ask == IO_PROBE_NOTHING)
		return kind_of(io_mode, RESIDENT_NONE);
	if (io_mode->ask == IO_PROBE_NOWAIT && io_mode->reuses) {
		io_mode->reuses--;
		return io_mode->kind;
	}
	io_mode->upto = io_mode->known; /* io_mode_at has to query again */
	io_mode->kind = kind_of(io_mode, resident(io_mode, begin, end));
	io_mode->reuses = REUSES;
	return io_mode->kind;
}

bool io_mostly_cached(int fd, uint64_t begin, uint64_t end)
{
	struct io_mode io_mode = {
		.fd = fd, .ask = IO_PROBE_CACHESTAT, .prompt = true};
	struct timespec now = {0};

	clock_gettime(CLOCK_MONOTONIC, &now);
	io_mode.seed = (uint32_t)now.tv_nsec;
	return begin < end && resident(&io_mode, begin, end) >= RESIDENT_MOST;
}

void io_mode_refused(struct io_mode *io_mode)
{
	io_mode->align = (struct tarn_direct) {0, 0};
	io_mode->upto = 0; /* query again */
	io_mode->reuses = 0;
}
