// SPDX-License-Identifier: MIT
/*
 * How bytes are written to a file: directly, in grains, where the runs are long
 * and the file system supports it; otherwise, and for the ends of runs, through
 * the page cache.
 *
 * A page must not be written both ways at once, or a stale copy of it in the
 * cache would later overwrite the direct write. So the border between both is
 * at whole pages, counted in the file: even two copies that write neighbouring
 * tensors agree on it without coordination.
 *
 * That is not enough if a process reads the file through the cache meanwhile.
 * The kernel reads ahead, in folios of many pages: one folio may hold old bytes
 * of a range that is being written directly, and an end that is written through
 * it, which makes all of it dirty. Then the kernel cannot throw it away when
 * the direct write is done ("Page cache invalidation failure on direct I/O", it
 * logs): the disk has the new bytes, and readers through the cache get the old
 * ones until the folio is dropped. The library cannot detect such readers, so
 * the documentation tells callers that have some to use TARN_IO_BUFFERED.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/file_limit.h"
#include "lib/copy/copy_write.h"
#include "lib/io/direct.h"
#include "lib/io/io_mode.h"

/* Shorter runs are written through the cache unless the caller asks otherwise:
 * the cache gathers them, while each direct write would cost a disk access. */
enum { DIRECT_MIN = 256 << 10 };

/* The largest block of a file system, where it is larger than a page. */
enum { BLOCK_MAX = 64 << 10 };

/* The unit within which pages and blocks are shared, never smaller. */
static uint64_t granule_of(const struct stat *st, const struct tarn_direct *ask)
{
	uint64_t granule = MAX((uint64_t)sysconf(_SC_PAGESIZE), BOUNCE_ALIGN);
	uint64_t block = (uint64_t)st->st_blksize;

	if (block <= BLOCK_MAX && !(block & (block - 1)))
		granule = MAX(granule, block);
	return MAX(granule, MAX(ask->offset, ask->memory));
}

static bool wants_direct(const struct copy_write *w)
{
	switch (w->head.options.io_mode) {
	case TARN_IO_BUFFERED:
		return false;
	case TARN_IO_DIRECT:
		/* tmpfs accepts the flag, but copies anyway. */
		return io_fs_of(w->file->fd) != IO_FS_MEMORY;
	default:
		/* A network file system's own caching is better than direct
		 * writes. */
		return w->run_bytes >= DIRECT_MIN &&
		       io_fs_of(w->file->fd) == IO_FS_LOCAL;
	}
}

static int choose_io_mode(struct copy_write *w, const struct stat *st)
{
	struct tarn_direct ask = {0};
	char name[160];
	int fd = -1;

	w->direct = false;
	if (wants_direct(w))
		fd = storage_file_direct(w->head.dst->storage);
	if (fd >= 0)
		ask = tarn_direct_ask(fd);
	/* Windows are aligned to this, and no more. */
	if (ask.offset && ask.memory <= BOUNCE_ALIGN) {
		w->direct = true;
		w->memory_align = ask.memory;
		w->granule = granule_of(st, &ask);
		return 0;
	}
	if (w->head.options.io_mode != TARN_IO_DIRECT)
		return 0;
	return tarn_fail(EINVAL,
		"copy: direct I/O was asked for, and %s is on a file system "
		"that has none",
		storage_file_name(w->file, name, sizeof(name)));
}

/* The range of the file that dst reaches: *at to *to. */
static void span(const struct copy_write *w, uint64_t *at, uint64_t *to)
{
	struct nest nest = w->pack.move.nest;
	int64_t first, last;

	for (int i = 0; i < w->outer; i++)
		nest.dst[i] = w->dst[i];
	nest_span(&nest, NEST_DST, &first, &last);
	*at = w->origin + (uint64_t)(w->run_dst * w->bits / 8);
	*to = *at + ((uint64_t)((last - first + 1) * w->bits) + 7) / 8;
}

/* The limit applies to writes inside a file too, where the file is longer than
 * the limit. */
static int check_limit(const struct copy_write *w, const struct stat *st)
{
	uint64_t at, to;
	char name[160];
	int r;

	span(w, &at, &to);
	r = S_ISREG(st->st_mode) ? file_limit_check(to) : 0;
	if (r < 0)
		tarn_fail_prefix(r, "copy: %s: ",
			storage_file_name(w->file, name, sizeof(name)));
	return r;
}

/*
 * Direct writes past the end of a file wait for each other, since each moves
 * the end; inside it they do not. So the file gets its length and its blocks
 * first, where that is possible at once (never by writing zeros), and where the
 * gaps are not the larger part.
 */
static int reserve(const struct copy_write *w, const struct stat *st)
{
	uint64_t at, from, to;
	char name[160];
	int r;

	span(w, &at, &to);
	if (!S_ISREG(st->st_mode) || to <= (uint64_t)st->st_size ||
		(to - at) / 2 > w->head.info.bytes)
		return 0;
	from = MAX(at, (uint64_t)st->st_size);
	do {
		r = fallocate(w->file->fd, 0, (off_t)from, (off_t)(to - from));
	} while (r < 0 && errno == EINTR);
	if (r == 0 || (errno != ENOSPC && errno != EDQUOT && errno != EFBIG))
		return 0; /* not possible at once: it grows as it is written */
	r = errno;
	return tarn_fail(r, "copy: no room for bytes %llu to %llu of %s: %s",
		(unsigned long long)from, (unsigned long long)to,
		storage_file_name(w->file, name, sizeof(name)),
		tarn_errno_text(r));
}

int write_begin(struct copy_write *w)
{
	struct file_slots *files = w->head.env->files;
	tarn_storage *dst = w->head.dst->storage;
	struct stat st;
	char name[160];
	int r = 0;

	if (fstat(w->file->fd, &st) < 0) {
		r = errno;
		return tarn_fail(r, "copy: %s: %s",
			storage_file_name(w->file, name, sizeof(name)),
			tarn_errno_text(r));
	}
	r = check_limit(w, &st);
	if (r >= 0)
		r = choose_io_mode(w, &st);
	if (r >= 0)
		r = file_slots_take(files, dst, w->file->fd,
			w->direct ? storage_file_direct(dst) : -1, &w->slot);
	if (r <= 0)
		return r;
	if (w->direct)
		r = reserve(w, &st);
	w->begun = r >= 0;
	return r < 0 ? r : 1;
}

void write_end(struct copy_write *w)
{
	file_slots_drop(w->head.env->files, &w->slot);
}
