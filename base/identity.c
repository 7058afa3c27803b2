/* SPDX-License-Identifier: MIT */
/*
 * File identities: reading a file's stamps, and judging what they prove on its
 * file system.
 *
 * The ctime is the stamp to rely on. Every change of bytes or size sets it, and
 * no call sets it back; an mtime can be set at will.
 */
#include "base/identity.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/fd.h"

/* Servers stamp with their own clocks, and FAT in steps of two seconds. */
#define COARSE_NS 2000000000ull

/* A tick is 10 ms at most; on a busy machine the sleep takes longer. */
#define TICK_TRIES 20
#define TICK_NAP_NS 1000000
#define TICK_LONG_NS 20000000ull

enum stamps {
	STAMPS_FINE,   /* one tick of the kernel's clock */
	STAMPS_COARSE, /* up to two seconds */
};

#define OVERLAYFS 0x794C7630
#define BCACHEFS 0xCA451A4E

/* Images, which are never written while they are mounted. */
static const uint32_t images[] = {
	0x73717368, /* squashfs */
	0xE0F5E1E2, /* erofs */
	0x00009660, /* ISO 9660 */
	0x28CD3D45, /* cramfs */
};

/* File systems whose files are kept. All others are WEAK and coarse: squashfs,
 * erofs, iso9660 (constants of the image), vfat, FUSE (its server may report
 * anything), and all unknown ones. */
static const struct {
	uint32_t type;
	enum stamps stamps;
} lasting[] = {
	/* Local ones, which stamp each store through a mapping that was clean
	 * (page_mkwrite), and each write, with the kernel's own clock. */
	{0x0000EF53, STAMPS_FINE}, /* ext2, ext3, ext4 */
	{0x58465342, STAMPS_FINE}, /* XFS */
	{0x9123683E, STAMPS_FINE}, /* btrfs */
	{0xF2F52010, STAMPS_FINE}, /* F2FS */
	{0x2FC12FC1, STAMPS_FINE}, /* ZFS */
	{BCACHEFS, STAMPS_FINE},
	/* It shows the stamps of the file system below it. */
	{OVERLAYFS, STAMPS_FINE},
	/* Their servers stamp, with their own clocks. */
	{0x00006969, STAMPS_COARSE}, /* NFS */
	{0x00C36400, STAMPS_COARSE}, /* Ceph */
	{0x0BD00BD0, STAMPS_COARSE}, /* Lustre */
	{0x47504653, STAMPS_COARSE}, /* GPFS, Storage Scale */
	{0x19830326, STAMPS_COARSE}, /* BeeGFS */
	{0x20030528, STAMPS_COARSE}, /* OrangeFS */
	{0xFE534D42, STAMPS_COARSE}, /* SMB2 */
	{0xFF534D42, STAMPS_COARSE}, /* CIFS */
};

/* Memory file systems: stamps of the kernel's clock, but a page that was
 * mapped by a read fault is writable without one. */
static const uint32_t memory[] = {
	0x01021994, /* tmpfs */
	0x858458F6, /* ramfs */
};

static bool is_memory(uint32_t type)
{
	return type == memory[0] || type == memory[1];
}

static bool lasts(uint32_t type, enum stamps *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(lasting); i++)
		if (lasting[i].type == type) {
			*ret = lasting[i].stamps;
			return true;
		}
	*ret = is_memory(type) ? STAMPS_FINE : STAMPS_COARSE;
	return false;
}

/* ---- looking ----------------------------------------------------------- */

/* Modulo 2^64: times before 1970 and after 2554 differ from each other too. */
static uint64_t stamp(const struct statx_timestamp *time)
{
	return (uint64_t)time->tv_sec * 1000000000u + time->tv_nsec;
}

static int look_at(
	int fd, const char *path, int flags, struct file_identity *ret)
{
	struct statx st;

	if (statx(fd, path, flags, STATX_BASIC_STATS, &st) < 0)
		return tarn_fail(
			errno, "statx of the file: %s", tarn_errno_text(errno));
	ret->dev = makedev(st.stx_dev_major, st.stx_dev_minor);
	ret->ino = st.stx_ino;
	ret->size = st.stx_size;
	ret->mtime = stamp(&st.stx_mtime);
	ret->ctime = stamp(&st.stx_ctime);
	return 0;
}

/* Asks a network file system's server, not its cache. */
static int look(int fd, struct file_identity *ret)
{
	return look_at(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, ret);
}

#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x4000u
#endif

/* 0: the kernel does not provide it. */
static uint64_t unique_mount(int fd)
{
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID_UNIQUE, &st) < 0 ||
		!(st.stx_mask & STATX_MNT_ID_UNIQUE))
		return 0;
	return st.stx_mnt_id;
}

/* The number in that file of a disk's folder in sysfs; 0: there is none. */
static uint64_t disk_number(uint64_t dev, const char *file)
{
	_cleanup_fd_ int fd = -1;
	char path[80], text[32];
	ssize_t n;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s", major(dev),
		minor(dev), file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	return strtoull(text, NULL, 10);
}

/* A partition's is that of its disk, whose folder is the one above. */
static uint64_t disk_sequence(uint64_t dev)
{
	uint64_t n = 0;

	if (major(dev))
		n = disk_number(dev, "diskseq");
	return n || !major(dev) ? n : disk_number(dev, "../diskseq");
}

/* A file system that does not identify itself (FUSE need not) is unknown. */
static void look_at_fs(int fd, struct file_identity *ret)
{
	struct statfs st;

	if (fstatfs(fd, &st) < 0)
		return;
	ret->fs = (uint32_t)st.f_type;
	ret->fsid = (uint64_t)(uint32_t)st.f_fsid.__val[0] << 32 |
		    (uint32_t)st.f_fsid.__val[1];
	if (ret->fs == OVERLAYFS)
		ret->instance = unique_mount(fd);
}

int identity_of(int fd, struct file_identity *ret)
{
	struct file_identity id = {0};
	int r = look(fd, &id);

	if (r < 0)
		return r;
	look_at_fs(fd, &id);
	*ret = id;
	return 0;
}

int identity_settled(int fd, struct file_identity *ret)
{
	const struct timespec nap = {.tv_nsec = TICK_NAP_NS};
	struct file_identity id = {0};
	bool settled = false;
	int r = 0;

	look_at_fs(fd, &id);
	for (int i = 0; r >= 0 && !settled && i < TICK_TRIES; i++) {
		uint64_t now;

		if (i > 0)
			nanosleep(&nap, NULL);
		/* Before the look: a change after it is stamped no earlier. */
		now = clock_ns(CLOCK_REALTIME_COARSE);
		r = look(fd, &id);
		settled = id.ctime < now || id.ctime - now > TICK_LONG_NS;
	}
	if (r < 0)
		return r;
	if (id.fs != OVERLAYFS)
		id.instance = disk_sequence(id.dev);
	*ret = id;
	return settled ? 0 : 1;
}

/* ---- comparing --------------------------------------------------------- */

static bool same_stamps(
	const struct file_identity *a, const struct file_identity *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       a->mtime == b->mtime && a->ctime == b->ctime;
}

bool identity_same(const struct file_identity *a, const struct file_identity *b)
{
	return same_stamps(a, b) && a->fsid == b->fsid && a->fs == b->fs &&
	       (a->instance == b->instance || !a->instance || !b->instance);
}

bool identity_is_at(const struct file_identity *id, const char *path)
{
	struct file_identity now;

	/* A file server's own word: its clients cache stamps for a minute. */
	return look_at(AT_FDCWD, path, AT_STATX_FORCE_SYNC, &now) >= 0 &&
	       same_stamps(&now, id);
}

static int changed_time(
	int err, const char *when, const char *which, uint64_t was, uint64_t is)
{
	return tarn_fail(err,
		"the file changed %s: its %s was %llu.%09llu, now it is "
		"%llu.%09llu; load it again when its writer is done",
		when, which, (unsigned long long)(was / 1000000000u),
		(unsigned long long)(was % 1000000000u),
		(unsigned long long)(is / 1000000000u),
		(unsigned long long)(is % 1000000000u));
}

static int compare(const struct file_identity *was,
	const struct file_identity *is, int err, const char *when)
{
	if (is->dev != was->dev || is->ino != was->ino)
		return tarn_fail(err,
			"the file changed %s: it was inode %llu of device "
			"%#llx, now it is inode %llu of device %#llx; open it "
			"again",
			when, (unsigned long long)was->ino,
			(unsigned long long)was->dev,
			(unsigned long long)is->ino,
			(unsigned long long)is->dev);
	if (is->size != was->size)
		return tarn_fail(err,
			"the file changed %s: it had %llu bytes, now it has "
			"%llu; load it again when its writer is done",
			when, (unsigned long long)was->size,
			(unsigned long long)is->size);
	if (is->mtime != was->mtime)
		return changed_time(err, when, "mtime", was->mtime, is->mtime);
	return 0;
}

int identity_compare_bytes(const struct file_identity *was,
	const struct file_identity *is, const char *when)
{
	return compare(was, is, ESTALE, when);
}

int identity_same_bytes(
	int fd, const struct file_identity *was, const char *when)
{
	struct file_identity is;
	int r = look_at(fd, "", AT_EMPTY_PATH, &is);

	return r < 0 ? r : compare(was, &is, ESTALE, when);
}

int identity_unchanged(int fd, const struct file_identity *was)
{
	static const char when[] = "while it was being read";
	struct file_identity is;
	int r = look(fd, &is);

	if (r >= 0)
		r = compare(was, &is, EBUSY, when);
	/* Its bytes may be the same, but nothing proves it. */
	if (r >= 0 && is.ctime != was->ctime)
		r = changed_time(ESTALE, when, "ctime", was->ctime, is.ctime);
	return r;
}

/* ---- files that are open ------------------------------------------------ */

bool identity_is_fixed(const struct file_identity *id)
{
	for (size_t i = 0; i < ARRAY_SIZE(images); i++)
		if (images[i] == id->fs)
			return true;
	return false;
}

bool identity_is_one_file(const struct file_identity *id)
{
	enum stamps stamps;

	/* Snapshots of bcachefs share a device, and numbers. */
	if (id->fs == OVERLAYFS || id->fs == BCACHEFS)
		return false;
	return is_memory(id->fs) || identity_is_fixed(id) ||
	       (lasts(id->fs, &stamps) && stamps == STAMPS_FINE);
}

/* ---- worth ------------------------------------------------------------- */

bool identity_is_remote(const struct file_identity *id)
{
	enum stamps stamps;

	return lasts(id->fs, &stamps) && stamps == STAMPS_COARSE;
}

enum identity_worth identity_worth(const struct file_identity *id)
{
	uint64_t now = clock_ns(CLOCK_REALTIME);
	enum stamps stamps;
	bool last = lasts(id->fs, &stamps);

	if (id->ctime > now)
		return IDENTITY_AHEAD;
	/* A whole second is a time that an image's builder wrote, or all that
	 * an inode of 128 bytes has room for, a file server's too: the next
	 * version may have the same. */
	if (id->ctime % 1000000000u == 0)
		return IDENTITY_WEAK;
	if (id->fs == OVERLAYFS && !id->instance)
		return IDENTITY_WEAK;
	if (stamps == STAMPS_COARSE && now - id->ctime < COARSE_NS)
		return IDENTITY_RACY;
	return last ? IDENTITY_LASTS : IDENTITY_WEAK;
}
