/* SPDX-License-Identifier: MIT */
/*
 * Tensor files: opened with the caller's rights, recognised by their first
 * bytes, and kept as a list in file order and an index by name.
 *
 * A file is read once, with pread into private memory, within the size that one
 * fstat returned. So the library uses the same bytes that it checked, whatever
 * others do to the file meanwhile; a file that shrinks is an error, never a
 * signal.
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

/* The part of a path that leaves room for the rest of the sentence. */
#define SHOWN_MAX 300

/* How often a file that is being written is parsed anew; picked. A reader that
 * comes between two writes needs one try. */
#define PARSE_TRIES 5

/* What can be done with tables: their readers are Python's. */
#define TABLE                                                                  \
	"; in Python, tarn.load(table, name) publishes the columns of a "      \
	"table that pyarrow or polars has read"
#define IN_PYTHON TABLE ", and tarn.data.arrow(path) reads its records"

/* Formats that users open by mistake, so that the sentence can name them. */
static const struct {
	const char *magic;
	size_t size;
	const char *what;
} others[] = {
	{"GGUF", 4, "a GGUF file"},
	{"\x89HDF\r\n\x1a\n", 8, "an HDF5 file"},
	{"\x1f\x8b", 2, "compressed by gzip"},
	{"\x28\xb5\x2f\xfd", 4, "compressed by zstd"},
	{"\x80\x02", 2,
		"a Python pickle; load a checkpoint of PyTorch before 1.6 "
		"with torch.load, and save it again"},
	{"\x80\x04", 2, "a Python pickle"},
	{"version https://git-lfs", 23, "a Git LFS pointer; run git lfs pull"},
	{"ARROW1\0\0", 8, "an Arrow file" IN_PYTHON},
	/* A stream begins with a message: this mark, and its length. */
	{"\xff\xff\xff\xff", 4, "an Arrow stream" IN_PYTHON},
	{"FEA1", 4, "a Feather file of version 1" TABLE},
	{"PAR1", 4, "a Parquet file" TABLE},
};

int file_no_memory(const char *what)
{
	return tarn_fail(ENOMEM, "no memory for %s", what);
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

/* The format that it has instead, or NULL. */
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
	size_t size;
	const char *head = file_first(file, &size), *other;

	if (size >= 6 && !memcmp(head, "\x93NUMPY", 6))
		return npy_read(file);
	if (size >= 4 &&
		(!memcmp(head, "PK\3\4", 4) || !memcmp(head, "PK\5\6", 4)))
		return archive_read(file);
	if (shard_index_begins(head, size))
		return shards_read(file);
	/* The first bytes of a safetensors file are a number, and may be any
	 * magic; the bytes after them are not. */
	other = size > 8 && head[8] == '{' ? NULL : other_format(head, size);
	if (other)
		return tarn_fail(EBADMSG,
			"neither a safetensors file, a .npy or .npz, nor a "
			"PyTorch checkpoint: it is %s",
			other);
	return safetensors_read(file);
}

static int check_descriptor(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat st;

	if (flags < 0 || fstat(fd, &st) < 0)
		return tarn_fail(
			errno, "descriptor %d: %s", fd, tarn_errno_text(errno));
	if (!S_ISREG(st.st_mode))
		return tarn_fail(S_ISDIR(st.st_mode) ? EISDIR : EBADMSG,
			"it is %s; tensors are read from regular files",
			kind_of(st.st_mode));
	if ((flags & O_ACCMODE) == O_WRONLY || (flags & O_PATH))
		return tarn_fail(
			EBADF, "its descriptor was not opened for reading");
	return 0;
}

/* Puts the path in front of the sentence, shortened to fit. */
static int name_failure(int r, const char *path)
{
	size_t n = strlen(path);

	if (n <= SHOWN_MAX)
		return tarn_fail_prefix(r, "%s: ", path);
	return tarn_fail_prefix(r, "...%s: ", path + n - SHOWN_MAX);
}

/* The storage has a descriptor too: one is enough, since a checkpoint may have
 * more shards than a process descriptors. */
static int make_storage(struct tarn_file *file)
{
	int r = tarn_storage_from_fd(
		file->fd, file->data_offset, file->data_size, &file->storage);

	if (r < 0)
		return r;
	fd_close(file->fd);
	storage_file_parsed(file->storage->arg, &file->version.identity);
	file->fd = storage_file(file->storage)->fd;
	return 0;
}

static int parse(struct tarn_file *file)
{
	int r = file_read_begin(file);

	if (r >= 0)
		r = read_format(file);
	if (r >= 0)
		r = file_read_end(file);
	file_read_drop(file);
	return r;
}

/* How a file is opened: as the fields of struct tarn_file say. */
struct way {
	bool by_path, part;
	const struct file_sharing *sharing;
};

static tarn_file *new_file(int fd, const char *path, const struct way *way)
{
	tarn_file *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	atomic_init(&file->refs, 1);
	atomic_init(&file->mapped, NULL);
	atomic_init(&file->by_key, NULL);
	file->fd = fd;
	file->by_path = way->by_path;
	file->part = way->part;
	file->sharing = way->sharing;
	file->path = arena_text(&file->arena, path, strlen(path));
	if (!file->path) {
		arena_free(&file->arena);
		free(file);
		return NULL;
	}
	return file;
}

/* On failure fd stays the caller's. -ESTALE: the file changed, also where
 * parsing failed because of that. */
static int open_version(
	int fd, const char *path, const struct way *way, tarn_file **ret)
{
	tarn_file *file = new_file(fd, path, way);
	int r, changed;

	if (!file)
		return file_no_memory("an open file");
	r = identity_of(fd, &file->version.identity);
	if (r >= 0) {
		file->size = file->version.identity.size;
		r = parse(file);
		changed = file_check_version(file, "while its header was read");
		r = changed < 0 ? changed : r;
	}
	file->sharing = NULL;
	if (r >= 0 && !file->shards)
		r = make_storage(file);
	if (r < 0) {
		if (!file->is_inflated)
			file->fd = -1;
		tarn_file_unref(file);
		return r;
	}
	/* It has another descriptor than it was given: see inflate.c. */
	if (file->is_inflated)
		fd_close(fd);
	*ret = file;
	return 0;
}

/* Takes fd, also on failure. */
static int open_consume_fd(
	int fd, const char *path, const struct way *way, tarn_file **ret)
{
	int r = check_descriptor(fd);

	for (int i = 0; r >= 0 && i < PARSE_TRIES; i++) {
		r = open_version(fd, path, way, ret);
		if (r >= 0)
			return 0;
		if (r == -ESTALE && i + 1 < PARSE_TRIES)
			r = 0;
	}
	fd_close(fd);
	return name_failure(r, path);
}

static int open_path(const char *path, const struct way *way, tarn_file **ret)
{
	struct stat st;
	int fd;

	if (!path || !*path)
		return tarn_fail(EINVAL, "no path of a file was given");
	/* Without O_NONBLOCK a fifo without a writer would block. */
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
	/* On a regular file the flag would make io_uring return EAGAIN. */
	if (fcntl(fd, F_SETFL, O_RDONLY) < 0) {
		int err = errno;

		fd_close(fd);
		return name_failure(tarn_fail(err, "fcntl(F_SETFL): %s",
					    tarn_errno_text(err)),
			path);
	}
	return open_consume_fd(fd, path, way, ret);
}

int tarn_file_open(const char *path, tarn_file **ret)
{
	return file_open_shared(path, NULL, ret);
}

int file_open_shared(
	const char *path, const struct file_sharing *sharing, tarn_file **ret)
{
	const struct way way = {.by_path = true, .sharing = sharing};

	return open_path(path, &way, ret);
}

int file_open_shard(
	const char *path, const struct file_sharing *sharing, tarn_file **ret)
{
	const struct way way = {
		.by_path = true, .part = true, .sharing = sharing};

	return open_path(path, &way, ret);
}

int tarn_file_open_fd(int fd, const char *name, tarn_file **ret)
{
	const struct way way = {0};
	int copy = fd_dup(fd);

	if (!name || !*name)
		name = "(descriptor)";
	if (copy < 0)
		return tarn_fail(-copy, "%s: descriptor %d: %s", name, fd,
			tarn_errno_text(copy));
	return open_consume_fd(copy, name, &way, ret);
}

tarn_file *tarn_file_ref(tarn_file *file)
{
	/* The caller holds a reference: there is nothing to order. */
	if (file)
		atomic_fetch_add_explicit(&file->refs, 1, memory_order_relaxed);
	return file;
}

tarn_file *tarn_file_unref(tarn_file *file)
{
	if (!file)
		return NULL;
	/*
	 * The release pairs with the acquire of the thread that drops the last
	 * one, so that all uses come before the free; the acquire pairs with
	 * those releases.
	 */
	if (atomic_fetch_sub_explicit(&file->refs, 1, memory_order_acq_rel) > 1)
		return NULL;
	/* Relaxed, both: no other thread has the file any more. */
	tarn_storage_unref(
		atomic_load_explicit(&file->mapped, memory_order_relaxed));
	metadata_index_free(
		atomic_load_explicit(&file->by_key, memory_order_relaxed));
	if (!file->storage)
		fd_close(file->fd); /* otherwise the storage owns it */
	tarn_storage_unref(file->storage);
	tarn_storage_unref(file->inflated);
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
