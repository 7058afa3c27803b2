/* SPDX-License-Identifier: MIT */
/*
 * What a client's descriptors are: readable, of a regular file, both of the
 * same one; and which file that is. A file is the same as long as its device,
 * inode, size and both times are. Times are only as fine as the kernel's tick,
 * so two writes within one may leave the same time: who looks in between sees
 * a file that is "young", and its bytes are not kept for others.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/fail.h"
#include "daemon/loader_impl.h"

/* Two seconds is the coarsest time that a file system in use has (FAT); the
 * others have a tick of a few ms. */
#define YOUNG_SECONDS 2

static const char *kind_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return "folder";
	case S_IFIFO:
		return "fifo";
	case S_IFSOCK:
		return "socket";
	case S_IFCHR:
		return "character device";
	case S_IFBLK:
		return "block device";
	default:
		return "special file";
	}
}

static int check_flags(int fd, bool direct)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return tarn_fail(errno, "the file's descriptor: %s",
			tarn_errno_text(errno));
	if (flags & O_PATH)
		return tarn_fail(EBADF,
			"the file was opened with O_PATH, which gives no right "
			"to read it");
	if ((flags & O_ACCMODE) == O_WRONLY)
		return tarn_fail(EBADF, "the file was opened for writing only");
	if (direct && !(flags & O_DIRECT))
		return tarn_fail(EINVAL,
			"the second descriptor was opened without O_DIRECT");
	return 0;
}

static int status(int fd, struct stat *ret)
{
	if (fstat(fd, ret) < 0)
		return tarn_fail(
			errno, "fstat of the file: %s", tarn_errno_text(errno));
	return 0;
}

/* Modulo 2^64, as times before 1970 and after 2554 are told apart too. */
static uint64_t stamp(const struct timespec *time)
{
	return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
}

static bool is_young(const struct timespec *time, const struct timespec *now)
{
	if (time->tv_sec != now->tv_sec - YOUNG_SECONDS)
		return time->tv_sec > now->tv_sec - YOUNG_SECONDS;
	return time->tv_nsec >= now->tv_nsec;
}

static void identity_of(const struct stat *st, struct msg_identity *ret)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	*ret = (struct msg_identity) {
		.dev = st->st_dev,
		.ino = st->st_ino,
		.size = (uint64_t)st->st_size,
		.mtime = stamp(&st->st_mtim),
		.ctime = stamp(&st->st_ctim),
		.young = is_young(&st->st_mtim, &now) ||
			 is_young(&st->st_ctim, &now),
	};
}

static int check_direct(int fd, const struct stat *buffered)
{
	struct stat st;
	int r = check_flags(fd, true);

	if (r >= 0)
		r = status(fd, &st);
	if (r < 0)
		return r;
	if (st.st_dev != buffered->st_dev || st.st_ino != buffered->st_ino)
		return tarn_fail(EINVAL,
			"the two descriptors are of different files: inode "
			"%llu and %llu",
			(unsigned long long)buffered->st_ino,
			(unsigned long long)st.st_ino);
	return 0;
}

int loader_identify(int buffered_fd, int direct_fd, struct msg_identity *ret)
{
	struct stat st;
	int r = check_flags(buffered_fd, false);

	if (r >= 0)
		r = status(buffered_fd, &st);
	if (r < 0)
		return r;
	if (!S_ISREG(st.st_mode))
		return tarn_fail(S_ISDIR(st.st_mode) ? EISDIR : EINVAL,
			"the file is a %s, not a regular file",
			kind_of(st.st_mode));
	if (direct_fd >= 0)
		r = check_direct(direct_fd, &st);
	if (r < 0)
		return r;
	identity_of(&st, ret);
	return 0;
}

static int changed_time(const char *which, uint64_t was, uint64_t is)
{
	return tarn_fail(EBUSY,
		"the file changed while it was being read: %s was %llu.%09llu, "
		"now it is %llu.%09llu; load it again when its writer is done",
		which, (unsigned long long)(was / 1000000000u),
		(unsigned long long)(was % 1000000000u),
		(unsigned long long)(is / 1000000000u),
		(unsigned long long)(is % 1000000000u));
}

int loader_unchanged(int fd, const struct msg_identity *was)
{
	struct msg_identity is;
	struct stat st;
	int r = status(fd, &st);

	if (r < 0)
		return r;
	identity_of(&st, &is);
	if (is.size != was->size)
		return tarn_fail(EBUSY,
			"the file changed while it was being read: it had %llu "
			"bytes, now it has %llu; load it again when its writer "
			"is done",
			(unsigned long long)was->size,
			(unsigned long long)is.size);
	if (is.mtime != was->mtime)
		return changed_time("its mtime", was->mtime, is.mtime);
	if (is.ctime != was->ctime)
		return changed_time("its ctime", was->ctime, is.ctime);
	return 0;
}
