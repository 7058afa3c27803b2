/* SPDX-License-Identifier: MIT */
/*
 * cut LOG DISK IMAGES COUNT SEED OFFSET: the disks that a power cut can leave.
 *
 * LOG is what qemu's driver blklogwrites wrote down: every write to the disk,
 * with its bytes, and every flush, in their order. DISK is the disk before all
 * of them. A cut is a point of the log. The disk then has all that was written
 * before the last flush, and of the rest none, all, or any sectors, whatever
 * their order: a disk's cache keeps none. COUNT such disks, drawn by SEED, go
 * to IMAGES, one behind the other, and for each a line says "INDEX LEAST MOST",
 * the versions of the file that may be on it: from the last whose save had
 * returned to the last whose save had begun, by the marks at OFFSET.
 */
#include "tests/vm/cut.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fd.h"
#include "tests/kit/tap.h"

#define BLOCK 4096u
#define LOG_MAGIC 0x6a736677736872ull
#define LOG_FLUSH 1u
#define LOG_FUA 2u
#define LOG_DISCARD 4u

struct super {
	uint64_t magic, version, n;
	uint32_t sector;
};

struct entry {
	uint64_t sector, n_sectors, flags, data_len;
};

struct mapped {
	unsigned char *bytes;
	uint64_t size;
};

struct log {
	struct mapped file;
	const struct entry **entries;
	uint64_t n;
};

struct range {
	int64_t least, most;
};

static uint64_t random_state;

static uint32_t random_next(void)
{
	random_state =
		random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(random_state >> 33);
}

static struct mapped map_file(const char *path)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct mapped m = {0};
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		bail("%s: %m", path);
	m.size = (uint64_t)st.st_size;
	m.bytes = mmap(NULL, m.size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (m.bytes == MAP_FAILED)
		bail("%s: %m", path);
	return m;
}

/* ---- the log ------------------------------------------------------------- */

static const unsigned char *data_of(const struct entry *e)
{
	return (const unsigned char *)e + CUT_SECTOR;
}

static uint64_t data_size(const struct entry *e)
{
	return e->flags & LOG_DISCARD ? 0 : e->n_sectors * CUT_SECTOR;
}

/* Its count is written now and then only; behind the last entry are zeros, or
 * the end of the file. */
static struct log read_log(const char *path)
{
	struct log log = {.file = map_file(path)};
	const struct super *super = (const void *)log.file.bytes;
	uint64_t at = CUT_SECTOR;

	if (log.file.size < CUT_SECTOR || super->magic != LOG_MAGIC ||
		super->sector != CUT_SECTOR)
		bail("%s: not a log of blklogwrites", path);
	log.entries =
		calloc(log.file.size / CUT_SECTOR, sizeof(struct entry *));
	while (log.file.size - at >= CUT_SECTOR) {
		const struct entry *e = (const void *)(log.file.bytes + at);

		at += CUT_SECTOR;
		if ((!e->n_sectors && !e->flags) ||
			e->n_sectors > log.file.size / CUT_SECTOR ||
			data_size(e) > log.file.size - at)
			break;
		if (e->flags & LOG_DISCARD)
			bail("the log has a discard, which is not replayed");
		log.entries[log.n++] = e;
		at += data_size(e);
	}
	return log;
}

/* The mark that the entry is; NULL: it is none. */
static const struct cut_mark *mark_in(const struct entry *e, uint64_t offset)
{
	const struct cut_mark *mark = (const void *)data_of(e);

	return e->n_sectors == 1 && e->sector == offset / CUT_SECTOR &&
			       mark->magic == CUT_MAGIC
		       ? mark
		       : NULL;
}

static struct range versions_at(
	const struct log *log, uint64_t n, uint64_t offset)
{
	struct range range = {-1, -1};

	for (uint64_t i = 0; i < n; i++) {
		const struct cut_mark *mark = mark_in(log->entries[i], offset);

		if (mark && mark->state == CUT_BEGUN)
			range.most = (int64_t)mark->version;
		else if (mark)
			range.least = (int64_t)mark->version;
	}
	return range;
}

/* ---- disks --------------------------------------------------------------- */

enum draw { NONE, ALL, SOME, DRAWS };

static void put(
	const struct mapped *disk, const struct entry *e, enum draw draw)
{
	const unsigned char *from = data_of(e);

	if ((e->sector + e->n_sectors) * CUT_SECTOR > disk->size)
		bail("the log has a write behind the end of the disk");
	for (uint64_t i = 0; i < e->n_sectors; i++)
		if (draw == ALL || (draw == SOME && random_next() & 1))
			memcpy(disk->bytes + (e->sector + i) * CUT_SECTOR,
				from + i * CUT_SECTOR, CUT_SECTOR);
}

static void make_disk(const struct mapped *disk, const struct mapped *before,
	const struct log *log, uint64_t n, enum draw draw)
{
	uint64_t flushed = 0;

	memcpy(disk->bytes, before->bytes, before->size);
	for (uint64_t i = 0; i < n; i++)
		if (log->entries[i]->flags & LOG_FLUSH)
			flushed = i;
	for (uint64_t i = 0; i < n; i++)
		put(disk, log->entries[i],
			i < flushed || log->entries[i]->flags & LOG_FUA ? ALL
									: draw);
}

/* The first cut at which there must be a file. */
static uint64_t first_cut(const struct log *log, uint64_t offset)
{
	for (uint64_t i = 0; i < log->n; i++) {
		const struct cut_mark *mark = mark_in(log->entries[i], offset);

		if (mark && mark->state == CUT_RETURNED)
			return i + 1;
	}
	bail("no save had returned when the power was cut");
}

/* With holes where there are zeros, which is most of it. */
static void write_image(int fd, const struct mapped *disk, uint64_t at)
{
	static const unsigned char zeros[BLOCK];

	if (ftruncate(fd, (off_t)(at + disk->size)) < 0)
		bail("the images cannot be written: %m");
	for (uint64_t i = 0; i < disk->size; i += BLOCK)
		if (memcmp(disk->bytes + i, zeros, BLOCK) &&
			pwrite(fd, disk->bytes + i, BLOCK, (off_t)(at + i)) !=
				BLOCK)
			bail("the images cannot be written: %m");
}

int main(int argc, char **argv)
{
	if (argc != 7)
		bail("usage: cut LOG DISK IMAGES COUNT SEED OFFSET");
	struct log log = read_log(argv[1]);
	struct mapped before = map_file(argv[2]);
	struct mapped disk = {malloc(before.size), before.size};
	_cleanup_fd_ int fd =
		open(argv[3], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	uint64_t count = strtoull(argv[4], NULL, 10);
	uint64_t offset = strtoull(argv[6], NULL, 10);
	uint64_t first = first_cut(&log, offset);

	if (fd < 0)
		bail("%s: %m", argv[3]);
	random_state = strtoull(argv[5], NULL, 10);
	for (uint64_t i = 0; i < count; i++) {
		/* The last is what the killed guest left. */
		bool last = i == count - 1;
		uint64_t n = last ? log.n
				  : first + random_next() % (log.n - first + 1);
		struct range range = versions_at(&log, n, offset);

		make_disk(&disk, &before, &log, n,
			last ? ALL : (enum draw)(i % DRAWS));
		write_image(fd, &disk, i * disk.size);
		printf("%" PRIu64 " %" PRId64 " %" PRId64 "\n", i, range.least,
			range.most);
	}
	return 0;
}
