/* SPDX-License-Identifier: MIT */
/*
 * Chooses the road. One idea keeps it cheap: a question about a large window
 * costs what one about a page does, when the answer is all or nothing, and it
 * nearly always is. Only where it is neither, windows are halved until they
 * are the size of a request.
 *
 * cachestat (6.5) knows. It refuses strangers to the file, and older kernels
 * lack it: then a few pages are read with RWF_NOWAIT, which fails where that
 * would wait. Such a look starts the reading of that very page; so the pages
 * are drawn at random, or the next one to look would find just them.
 */
#include "lib/io/road.h"

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
	/* The largest window. To count 16 MiB of single pages takes some 30
	 * microseconds, to copy them a hundred times that. */
	WINDOW_MAX = 16 << 20,
	WINDOW_MIN = TARN_IO_REQUEST,
	/* Buffers of copies are aligned to this, and so are pools. */
	ALIGN_MAX = 4096,
	PAGE = 4096, /* if pages are larger, one is looked at twice */
	LOOKS = 3,
};

enum resident { RESIDENT_NONE, RESIDENT_FEW, RESIDENT_MOST, RESIDENT_ALL };

/* ---- file systems ---------------------------------------------------- */

/* From the kernel's magic.h, and the headers of those that are not in it. */
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

enum road_fs road_file_system(int fd)
{
	struct stat file;
	struct statfs st;

	/* A disk's file system is where its name is. */
	if (fstat(fd, &file) < 0 || S_ISBLK(file.st_mode) ||
		fstatfs(fd, &st) < 0)
		return ROAD_FS_LOCAL;
	if (listed((uint32_t)st.f_type, remote, ARRAY_SIZE(remote)))
		return ROAD_FS_REMOTE;
	if (listed((uint32_t)st.f_type, memory, ARRAY_SIZE(memory)))
		return ROAD_FS_MEMORY;
	return ROAD_FS_LOCAL;
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
	/* What is dirty must be written out before it can be read directly. */
	if (now.cached >= pages / 2 || now.dirty)
		return now.cached ? RESIDENT_MOST : RESIDENT_NONE;
	return now.cached ? RESIDENT_FEW : RESIDENT_NONE;
}

/* Whether the page at a byte is there: 1, 0; -errno: it cannot be asked. */
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
static uint64_t draw(struct road *road, uint64_t begin, uint64_t end)
{
	uint64_t page;

	road->seed = road->seed * 1664525 + 1013904223;
	page = (end - begin - 1) / PAGE + 1;
	page = road->seed % page * PAGE + begin;
	return MIN(page, end - 1);
}

static int ask_nowait(struct road *road, uint64_t begin, uint64_t end)
{
	int seen = 0, r;

	for (int i = 0; i < LOOKS; i++) {
		r = look(road->fd, draw(road, begin, end));
		if (r < 0)
			return r;
		seen += r;
		/* Mostly it is cold, and then one look says enough. */
		if (i == 0 && r == 0)
			return RESIDENT_NONE;
	}
	return seen == LOOKS ? RESIDENT_ALL : RESIDENT_MOST;
}

static enum resident resident(struct road *road, uint64_t begin, uint64_t end)
{
	int r = 0;

	if (road->ask == ROAD_ASK_CACHESTAT) {
		r = ask_cachestat(road->fd, begin, end);
		if (r < 0)
			road->ask = ROAD_ASK_NOWAIT;
	}
	if (road->ask == ROAD_ASK_NOWAIT) {
		r = ask_nowait(road, begin, end);
		if (r < 0)
			road->ask = ROAD_ASK_NOTHING;
	}
	return road->ask == ROAD_ASK_NOTHING ? RESIDENT_NONE : (enum resident)r;
}

/* ---- the road -------------------------------------------------------- */

static int no_direct(int direct_fd, enum road_fs fs)
{
	return tarn_fail(EINVAL,
		"road: the file cannot be read directly: %s; let the road be "
		"chosen (TARN_ROAD_AUTO)",
		fs == ROAD_FS_MEMORY ? "its file system is memory"
		: direct_fd < 0      ? "its file system refuses O_DIRECT"
				     : "its disk asks for larger blocks than "
				       "4096 bytes, or has none");
}

int road_init(struct road *road, int fd, int direct_fd, enum tarn_road wish,
	enum road_fs fs)
{
	struct timespec now = {0};

	*road = (struct road) {
		.fd = fd,
		.fs = fs,
		.wish = wish,
		.end = UINT64_MAX,
		.window = WINDOW_MAX,
	};
	if (fs != ROAD_FS_MEMORY && direct_fd >= 0 &&
		wish != TARN_ROAD_BUFFERED &&
		(fs == ROAD_FS_LOCAL || wish == TARN_ROAD_DIRECT))
		road->align = tarn_direct_ask(direct_fd);
	if (road->align.offset > ALIGN_MAX || road->align.memory > ALIGN_MAX)
		road->align = (struct tarn_direct) {0, 0};
	if (wish == TARN_ROAD_DIRECT && road->align.offset == 0)
		return no_direct(direct_fd, fs);
	if (fd < 0 || fs == ROAD_FS_MEMORY || wish == TARN_ROAD_DIRECT)
		road->ask = ROAD_ASK_NOTHING;
	clock_gettime(CLOCK_MONOTONIC, &now);
	road->seed = (uint32_t)now.tv_nsec;
	return 0;
}

/* What a window of this kind is read by; the smaller ones of a mixed window
 * are asked first. */
static enum road_way way_of(const struct road *road, enum resident resident)
{
	if (road->fs == ROAD_FS_MEMORY || resident == RESIDENT_ALL)
		return ROAD_CACHED;
	if (road->align.offset == 0 || resident == RESIDENT_MOST)
		return ROAD_BUFFERED;
	return ROAD_DIRECT;
}

/* Asks about a window from begin on, the next one being twice as large when
 * this one was all of one kind. It ends at a multiple of WINDOW_MIN, whatever
 * was asked: who rounds direct reads to blocks reads none twice then. */
static void find_out(struct road *road, uint64_t begin)
{
	enum resident state = RESIDENT_NONE;

	if (road->ask == ROAD_ASK_NOTHING) {
		road->upto = UINT64_MAX;
	} else {
		for (;; road->window /= 2) {
			road->upto = round_down_u64(begin, WINDOW_MIN);
			if (add_u64(road->upto, road->window, &road->upto))
				road->upto = UINT64_MAX;
			road->upto = MIN(road->upto, road->end);
			road->upto = MAX(road->upto, begin + 1);
			state = resident(road, begin, road->upto);
			if (state == RESIDENT_NONE || state == RESIDENT_ALL ||
				road->window <= WINDOW_MIN)
				break;
		}
		road->window = MIN(road->window * 2, (uint64_t)WINDOW_MAX);
	}
	road->known = begin;
	road->way = way_of(road, state);
}

enum road_way road_at(
	struct road *road, uint64_t begin, uint64_t end, uint64_t *ret_upto)
{
	if (begin < road->known || begin >= road->upto)
		find_out(road, begin);
	*ret_upto = MIN(end, road->upto);
	return road->way;
}

bool road_mostly_cached(int fd, uint64_t begin, uint64_t end)
{
	struct road road = {.fd = fd, .ask = ROAD_ASK_CACHESTAT};
	struct timespec now = {0};

	clock_gettime(CLOCK_MONOTONIC, &now);
	road.seed = (uint32_t)now.tv_nsec;
	return begin < end && resident(&road, begin, end) >= RESIDENT_MOST;
}

void road_refused(struct road *road)
{
	road->align = (struct tarn_direct) {0, 0};
	road->upto = 0; /* ask again */
}
