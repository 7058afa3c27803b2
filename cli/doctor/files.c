/* SPDX-License-Identifier: MIT */
/*
 * The file system of a path: what it is, whether files of it can be read past
 * the page cache, and on what kind of disk they lie.
 *
 * A file is opened twice, with and without O_DIRECT. In a folder a nameless
 * file is made, which is gone when it is closed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "base/file_limit.h"
#include "base/identity.h"
#include "cli/doctor/doctor.h"
#include "lib/io/direct.h"
#include "lib/io/disk.h"
#include "lib/io/io_mode.h"

enum { BLOCK = 4096 }; /* alignments above it are not used: lib/io/io_mode.c */

struct place {
	const char *path;
	int fd;        /* of the folder or the file */
	int direct_fd; /* of a file that can be read directly; -errno */
	bool is_folder;
	enum io_fs fs;
};

static struct finding *about(struct finding *finding, const struct place *place)
{
	finding->path = place->path;
	return finding;
}

/* ---- the file system ----------------------------------------------------- */

/* Its name, from the line of its mount: "36 35 98:0 / /mnt rw - ext4 ...". */
static bool mount_type(
	const struct machine *machine, int fd, char *buf, size_t size)
{
	char words[32], line[4096];
	const char *type;
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) < 0 ||
		!(st.stx_mask & STATX_MNT_ID))
		return false;
	snprintf(words, sizeof(words), "^%llu ",
		(unsigned long long)st.stx_mnt_id);
	if (machine_line(machine, "/proc/self/mountinfo", words, line,
		    sizeof(line)) < 0)
		return false;
	type = strstr(line, " - ");
	if (!type)
		return false;
	type += 3;
	snprintf(buf, size, "%.*s", (int)strcspn(type, " "), type);
	return true;
}

static bool is_kept(const struct place *place)
{
	struct file_identity id;

	return place->is_folder || identity_of(place->fd, &id) < 0 ||
	       identity_worth(&id) != IDENTITY_WEAK;
}

static void find_type(struct findings *findings, const struct machine *machine,
	const struct place *place)
{
	static const char *const where[] = {
		[IO_FS_LOCAL] = "local",
		[IO_FS_REMOTE] = "of another machine or process",
		[IO_FS_MEMORY] = "in memory",
	};
	char type[64];
	struct finding *f;

	if (!mount_type(machine, place->fd, type, sizeof(type)))
		f = found_unknown(findings, "files", "type",
			"a file system whose mount is not seen, %s",
			where[place->fs]);
	else
		f = found(findings, "files", "type", "%s, %s", type,
			where[place->fs]);
	about(f, place);
	if (!is_kept(place))
		advise(f, WORTH_COSTS,
			"Times of this file do not tell every change, so each "
			"load reads it again.",
			"load it under a name (tarn load FILE --name PREFIX), "
			"or keep it on ext4, XFS or btrfs");
	else if (place->fs == IO_FS_REMOTE)
		advise(f, WORTH_COSTS,
			"Loads pass through the page cache, at the speed of "
			"the server.",
			"copy the file to a local disk");
}

/* ---- direct reads -------------------------------------------------------- */

/* The bytes that a direct read got; -errno. */
static ssize_t try_direct(int fd)
{
	_cleanup_free_ void *block = aligned_alloc(BLOCK, BLOCK);
	ssize_t n = block ? pread(fd, block, BLOCK, 0) : -1;

	return block && n < 0 ? -errno : n;
}

static void refuse_direct(struct finding *f)
{
	advise(f, WORTH_COSTS,
		"Reads pass through the page cache: one copy more, and the "
		"memory for it.",
		"keep files on ext4, XFS or btrfs on a local disk");
}

/* Such a file is not read directly, whatever its file system can do. */
static const char *needs_none(const struct place *place)
{
	switch (place->fs) {
	case IO_FS_MEMORY:
		return "not used: the file is in memory";
	case IO_FS_REMOTE:
		return "not used: many buffered reads are faster here";
	default:
		return NULL;
	}
}

static void find_direct(struct findings *findings, const struct place *place)
{
	static const char key[] = "direct";
	struct tarn_direct align;
	ssize_t n;

	if (needs_none(place)) {
		about(found(findings, "files", key, "%s", needs_none(place)),
			place);
		return;
	}
	if (place->direct_fd == -EINVAL) {
		refuse_direct(about(
			found(findings, "files", key, "O_DIRECT is refused"),
			place));
		return;
	}
	if (place->direct_fd < 0) {
		about(found_unknown(findings, "files", key,
			      "%s; name a file that you may read",
			      tarn_errno_text(-place->direct_fd)),
			place);
		return;
	}
	align = tarn_direct_ask(place->direct_fd);
	n = try_direct(place->direct_fd);
	if (align.offset == 0 || MAX(align.offset, align.memory) > BLOCK)
		refuse_direct(about(found(findings, "files", key,
					    "offsets must be multiples of %u, "
					    "addresses of %u (0: none will do)",
					    align.offset, align.memory),
			place));
	else if (n < 0)
		refuse_direct(about(
			found(findings, "files", key, "a read fails with %s",
				tarn_errno_text((int)-n)),
			place));
	else if (n == 0)
		about(found_unknown(findings, "files", key,
			      "the file is empty; name a larger one"),
			place);
	else
		about(found(findings, "files", key,
			      "works; offsets are multiples of %u, addresses "
			      "of %u",
			      align.offset, align.memory),
			place);
}

/* ---- the disk ------------------------------------------------------------ */

static void disk_name(const struct machine *machine, unsigned major,
	unsigned minor, char *buf, size_t size)
{
	char path[4096], target[4096];
	const char *slash;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/sys/dev/block/%u:%u", machine->root,
		major, minor);
	n = readlink(path, target, sizeof(target) - 1);
	target[MAX(n, 0)] = '\0';
	slash = strrchr(target, '/');
	snprintf(buf, size, "%s", slash ? slash + 1 : "disk");
}

/* A disk of virtio's or of Xen's says that it rotates: its driver does not learn
 * what the host keeps it on. */
static bool is_virtual(const char *name)
{
	return strncmp(name, "vd", 2) == 0 || strncmp(name, "xvd", 3) == 0;
}

void find_disk(struct findings *findings, const struct machine *machine,
	const char *path, unsigned major, unsigned minor)
{
	char name[64], text[16];
	struct finding *f;
	bool turns;

	if (disk_queue(machine->root, major, minor, "rotational", text,
		    sizeof(text)) <= 0) {
		found_unknown(findings, "files", "disk",
			"device %u:%u is no disk that /sys shows", major, minor)
			->path = path;
		return;
	}
	turns = text[0] == '1';
	disk_name(machine, major, minor, name, sizeof(name));
	if (turns && is_virtual(name)) {
		found_unknown(findings, "files", "disk",
			"%s, a virtual disk, which does not tell what it is "
			"made of",
			name)
			->path = path;
		return;
	}
	f = found(findings, "files", "disk", "%s, %s", name,
		turns                           ? "a hard disk"
		: strncmp(name, "nvme", 4) == 0 ? "NVMe"
						: "not rotational");
	f->path = path;
	if (turns)
		advise(f, WORTH_COSTS,
			"A hard disk reads some 200 MB a second at most, and "
			"less where loads compete.",
			"keep files on an SSD");
}

/* ---- the path ------------------------------------------------------------ */

static int open_direct(const char *path, bool is_folder)
{
	static const char block[BLOCK] __attribute__((__aligned__(BLOCK)));
	int fd;

	if (is_folder && file_limit_check(BLOCK) < 0)
		return -EFBIG;
	fd = is_folder ? open(path, O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC,
				 0600)
		       : open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (is_folder && pwrite(fd, block, BLOCK, 0) != BLOCK) {
		int error = errno;

		fd_close(fd);
		return -error;
	}
	return fd;
}

static void find_unreadable(
	struct findings *findings, const char *path, const char *what)
{
	struct finding *f = found(findings, "files", "type", "%s", what);

	f->path = path;
	advise(f, WORTH_BROKEN, "It cannot be loaded.",
		"name a file or a folder that you may read");
}

void find_files(struct findings *findings, const struct machine *machine,
	const char *path)
{
	/* A pipe would wait for its writer. */
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	_cleanup_fd_ int direct_fd = -1;
	struct place place = {.path = path, .fd = fd};
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0) {
		find_unreadable(findings, path, strerror(errno));
		return;
	}
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
		find_unreadable(findings, path, "neither a file nor a folder");
		return;
	}
	place.is_folder = S_ISDIR(st.st_mode);
	place.fs = io_fs_of(fd);
	place.direct_fd = direct_fd = open_direct(path, place.is_folder);
	find_type(findings, machine, &place);
	find_direct(findings, &place);
	if (place.fs == IO_FS_LOCAL)
		find_disk(findings, machine, path, major(st.st_dev),
			minor(st.st_dev));
}
