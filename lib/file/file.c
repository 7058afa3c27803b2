/* SPDX-License-Identifier: MIT */
/*
 * Tensor files: opened with the caller's rights, told apart by their first
 * bytes, kept as a list in file order and an index by name.
 *
 * A file is read once, with pread into private memory, within the size that
 * one fstat gave. What is checked is therefore what is used, whatever others
 * do to the file meanwhile; a file that shrinks is an error, never a signal.
 */
#include "lib/file/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "lib/file/shard_index.h"
#include "lib/tensor/storage.h"

/* As much of a path as leaves room for the sentence behind it. */
#define SHOWN_MAX 300

/* What people hand us by mistake, so that the sentence can say so. */
static const struct {
	const char *magic;
	size_t size;
	const char *what;
} others[] = {
	{"PK\3\4", 4, "a zip archive (.npz, or a PyTorch checkpoint)"},
	{"GGUF", 4, "a GGUF file"},
	{"\x89HDF\r\n\x1a\n", 8, "an HDF5 file"},
	{"\x1f\x8b", 2, "compressed by gzip"},
	{"\x28\xb5\x2f\xfd", 4, "compressed by zstd"},
	{"\x80\x02", 2, "a Python pickle"},
	{"\x80\x04", 2, "a Python pickle"},
	{"version https://git-lfs", 23, "a Git LFS pointer; run git lfs pull"},
};

int file_no_memory(const char *what)
{
	return tarn_fail(ENOMEM, "no memory for %s", what);
}

int file_read(
	const struct tarn_file *file, void *buf, size_t size, uint64_t offset)
{
	ssize_t n = fd_pread(file->fd, buf, size, offset);

	if (n < 0)
		return tarn_fail((int)-n, "reading %zu bytes at byte %llu: %s",
			size, (unsigned long long)offset,
			tarn_errno_text((int)-n));
	if ((size_t)n < size)
		return tarn_fail(EBADMSG,
			"the file ends at byte %llu, it had "
			"%llu bytes when it was opened: somebody is "
			"shortening it",
			(unsigned long long)(offset + (size_t)n),
			(unsigned long long)file->size);
	return 0;
}

/* Bytes of the UTF-8 sequence that begins with c; 1 where none does. */
static size_t sequence_size(unsigned char c)
{
	return c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
}

const char *file_clean(
	const char *text, size_t size, char buf[static FILE_TEXT_MAX])
{
	const size_t room = FILE_TEXT_MAX - 4; /* "...", NUL */
	size_t used = 0, i = 0;

	while (i < size) {
		unsigned char c = (unsigned char)text[i];
		size_t n = MIN(sequence_size(c), size - i);

		/* Also the control codes U+0080 to U+009F. */
		bool control = c < 0x20 || c == 0x7f ||
			       (c == 0xc2 && n == 2 &&
				       (unsigned char)text[i + 1] < 0xa0);

		if (used + (control ? 4 * n : n) > room)
			break;
		for (size_t k = 0; control && k < n; k++)
			used += (size_t)sprintf(buf + used, "\\x%02x",
				(unsigned char)text[i + k]);
		if (!control) {
			memcpy(buf + used, text + i, n);
			used += n;
		}
		i += n;
	}
	strcpy(buf + used, i < size ? "..." : "");
	return buf;
}

static const char *kind_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return "a directory";
	case S_IFIFO:
		return "a fifo or a pipe";
	case S_IFSOCK:
		return "a socket";
	case S_IFBLK:
		return "a block device";
	case S_IFCHR:
		return "a character device";
	case S_IFLNK:
		return "a symbolic link";
	default:
		return "no file";
	}
}

/* What it is instead, or NULL. */
static const char *other_format(const char *head, size_t size)
{
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (size >= others[i].size &&
			!memcmp(head, others[i].magic, others[i].size))
			return others[i].what;
	return NULL;
}

static int read_format(struct tarn_file *file)
{
	char head[24] = "";
	size_t size = MIN(sizeof(head), file->size);
	const char *other;
	int r = file_read(file, head, size, 0);

	if (r < 0)
		return r;
	if (size >= 6 && !memcmp(head, "\x93NUMPY", 6))
		return npy_read(file);
	if (shard_index_begins(head, size))
		return shards_read(file);
	/* The first bytes of a safetensors file are a number, and may be any
	 * magic; what it opens with behind them is not. */
	other = head[8] == '{' ? NULL : other_format(head, size);
	if (other)
		return tarn_fail(EBADMSG,
			"neither a safetensors nor a .npy "
			"file: it is %s",
			other);
	return safetensors_read(file);
}

static int check_descriptor(struct tarn_file *file)
{
	int flags = fcntl(file->fd, F_GETFL);
	struct stat st;

	if (flags < 0 || fstat(file->fd, &st) < 0)
		return tarn_fail(errno, "descriptor %d: %s", file->fd,
			tarn_errno_text(errno));
	if (!S_ISREG(st.st_mode))
		return tarn_fail(S_ISDIR(st.st_mode) ? EISDIR : EBADMSG,
			"it is %s; tensors are read from regular files",
			kind_of(st.st_mode));
	if ((flags & O_ACCMODE) == O_WRONLY || (flags & O_PATH))
		return tarn_fail(
			EBADF, "its descriptor was not opened for reading");
	file->size = (uint64_t)st.st_size;
	return 0;
}

/* Puts the path in front of the sentence, or as much as leaves it room. */
static int name_failure(int r, const char *path)
{
	size_t n = strlen(path);

	if (n <= SHOWN_MAX)
		return tarn_fail_prefix(r, "%s: ", path);
	return tarn_fail_prefix(r, "...%s: ", path + n - SHOWN_MAX);
}

DEFINE_CLEANUP(tarn_file *, tarn_file_unref);

/* The storage has a descriptor too: one of them is enough, since a checkpoint
 * may have more shards than a process descriptors. */
static int make_storage(struct tarn_file *file)
{
	int r = tarn_storage_from_fd(
		file->fd, file->data_offset, file->data_size, &file->storage);

	if (r < 0)
		return r;
	fd_close(file->fd);
	file->fd = storage_file(file->storage)->fd;
	return 0;
}

/* Takes fd, also when it fails. by_path, part: as in struct tarn_file. */
static int open_consume_fd(
	int fd, const char *path, bool by_path, bool part, tarn_file **ret)
{
	_cleanup_(tarn_file_unrefp) tarn_file *file = calloc(1, sizeof(*file));
	int r;

	if (!file) {
		fd_close(fd);
		return file_no_memory("an open file");
	}
	atomic_init(&file->refs, 1);
	atomic_init(&file->mapped, NULL);
	atomic_init(&file->by_key, NULL);
	file->fd = fd;
	file->by_path = by_path;
	file->part = part;
	file->path = arena_text(&file->arena, path, strlen(path));
	if (!file->path)
		return file_no_memory("the path of a file");
	r = check_descriptor(file);
	if (r >= 0)
		r = read_format(file);
	if (r >= 0 && !file->shards)
		r = make_storage(file);
	if (r < 0)
		return name_failure(r, path);
	*ret = STEAL(file);
	return 0;
}

static int open_path(const char *path, bool part, tarn_file **ret)
{
	struct stat st;
	int fd;

	if (!path || !*path)
		return tarn_fail(EINVAL, "no path of a file was given");
	/* Without O_NONBLOCK a fifo that nobody writes would hold us. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0) {
		int err = errno;

		if (err == ENXIO && stat(path, &st) == 0)
			return name_failure(
				tarn_fail(EBADMSG,
					"it is %s; "
					"tensors are read from regular files",
					kind_of(st.st_mode)),
				path);
		return name_failure(
			tarn_fail(err, "%s", tarn_errno_text(err)), path);
	}
	/* On a regular file the flag would make io_uring say EAGAIN. */
	if (fcntl(fd, F_SETFL, O_RDONLY) < 0) {
		int err = errno;

		fd_close(fd);
		return name_failure(tarn_fail(err, "fcntl(F_SETFL): %s",
					    tarn_errno_text(err)),
			path);
	}
	return open_consume_fd(fd, path, true, part, ret);
}

int tarn_file_open(const char *path, tarn_file **ret)
{
	return open_path(path, false, ret);
}

int file_open_shard(const char *path, tarn_file **ret)
{
	return open_path(path, true, ret);
}

int tarn_file_open_fd(int fd, const char *name, tarn_file **ret)
{
	int copy = fd_dup(fd);

	if (!name || !*name)
		name = "(descriptor)";
	if (copy < 0)
		return tarn_fail(-copy, "%s: descriptor %d: %s", name, fd,
			tarn_errno_text(copy));
	return open_consume_fd(copy, name, false, false, ret);
}

tarn_file *tarn_file_ref(tarn_file *file)
{
	/* Whoever calls holds a reference: nothing to order. */
	if (file)
		atomic_fetch_add_explicit(&file->refs, 1, memory_order_relaxed);
	return file;
}

tarn_file *tarn_file_unref(tarn_file *file)
{
	if (!file)
		return NULL;
	/*
	 * The release pairs with the acquire of whoever drops the last one, so
	 * that all uses come before the free; the acquire pairs with those
	 * releases.
	 */
	if (atomic_fetch_sub_explicit(&file->refs, 1, memory_order_acq_rel) > 1)
		return NULL;
	/* Relaxed, both: nobody else has the file any more. */
	tarn_storage_unref(
		atomic_load_explicit(&file->mapped, memory_order_relaxed));
	metadata_index_free(
		atomic_load_explicit(&file->by_key, memory_order_relaxed));
	if (!file->storage)
		fd_close(file->fd); /* else it is the storage's */
	tarn_storage_unref(file->storage);
	for (size_t i = 0; i < file->shard_count; i++)
		tarn_file_unref(file->shards[i]);
	free(file->shards);
	file_tensors_free(file);
	arena_free(&file->arena);
	free(file);
	return NULL;
}

const char *tarn_file_path(const tarn_file *file)
{
	return file->path;
}

const char *tarn_file_format(const tarn_file *file)
{
	return file->format;
}

void tarn_file_data_range(
	const tarn_file *file, uint64_t *ret_offset, uint64_t *ret_size)
{
	*ret_offset = file->data_offset;
	*ret_size = file->data_size;
}

int tarn_file_fd(const tarn_file *file)
{
	return file->fd;
}
