/* SPDX-License-Identifier: MIT */
/*
 * Checks a client's descriptors: they must be readable, of a regular file, and
 * both of the same version of one. Finds out which version of which file that
 * is, whether it is the one whose header the client has parsed, and whether its
 * bytes may be kept for others.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fail.h"
#include "daemon/loader/internal.h"

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

/* Device and inode do not tell two files apart everywhere: an overlayfs over
 * subvolumes of one btrfs shows the inodes of all of them under one device. All
 * stamps do: nobody can give a file the change time of another. */
static int check_direct(int fd, const struct file_identity *buffered)
{
	struct file_identity id;
	int r = identity_of(fd, &id);

	if (r < 0 || identity_same(&id, buffered))
		return r;
	if (id.dev != buffered->dev || id.ino != buffered->ino)
		return tarn_fail(EINVAL,
			"the two descriptors are of different files: inode "
			"%llu and %llu",
			(unsigned long long)buffered->ino,
			(unsigned long long)id.ino);
	return tarn_fail(ESTALE,
		"the two descriptors are of different files or of different "
		"versions of one, both inode %llu: %llu and %llu bytes; open "
		"it again when its writer is done",
		(unsigned long long)id.ino, (unsigned long long)buffered->size,
		(unsigned long long)id.size);
}

static bool has_writers(int buffered_fd, int direct_fd)
{
	return loader_writers(buffered_fd) == WRITERS_SOME ||
	       (direct_fd >= 0 && loader_writers(direct_fd) == WRITERS_SOME);
}

static enum not_kept judge(
	int buffered_fd, int direct_fd, const struct file_identity *id)
{
	/* On a network file system a refusal means only that its server gave no
	 * delegation. */
	if (has_writers(buffered_fd, direct_fd) && !identity_is_remote(id))
		return NOT_KEPT_WRITERS;
	switch (identity_worth(id)) {
	case IDENTITY_LASTS:
		return NOT_KEPT_KEPT;
	case IDENTITY_RACY:
		return NOT_KEPT_RACY;
	case IDENTITY_AHEAD:
		return NOT_KEPT_AHEAD;
	case IDENTITY_WEAK:
		break;
	}
	return NOT_KEPT_FILE_SYSTEM;
}

/* Nothing is compared with a client that names no version. */
static int check_seen(
	const struct file_version *seen, const struct file_identity *is)
{
	const struct file_identity none = {0};
	int r = 0;

	if (memcmp(&seen->identity, &none, sizeof(none)) != 0)
		r = identity_compare_bytes(
			&seen->identity, is, "after its header was read");
	if (r == 0 && seen->header_size > is->size)
		r = tarn_fail(ESTALE,
			"the file changed after its header was read: the "
			"header had %llu bytes, now the file has %llu; open it "
			"again",
			(unsigned long long)seen->header_size,
			(unsigned long long)is->size);
	return r;
}

int loader_identify(int buffered_fd, int direct_fd,
	const struct file_version *seen, struct msg_identity *ret)
{
	struct stat st;
	bool settled;
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
		r = check_flags(direct_fd, true);
	*ret = (struct msg_identity) {0};
	if (r >= 0)
		r = identity_settled(buffered_fd, &ret->file);
	settled = r == 0;
	if (r >= 0 && direct_fd >= 0)
		r = check_direct(direct_fd, &ret->file);
	if (r >= 0)
		r = check_seen(seen, &ret->file);
	/* After the stamps, before any read: see loader/writers.c. A writer
	 * that writes in every tick may have closed the file in between. */
	if (r >= 0)
		ret->not_kept =
			settled ? judge(buffered_fd, direct_fd, &ret->file)
				: NOT_KEPT_WRITERS;
	return r;
}

int loader_unchanged(
	int buffered_fd, int direct_fd, const struct msg_identity *was)
{
	int r = identity_unchanged(buffered_fd, &was->file);

	return r < 0 || direct_fd < 0
		       ? r
		       : identity_unchanged(direct_fd, &was->file);
}
