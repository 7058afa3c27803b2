// SPDX-License-Identifier: MIT
/*
 * Reading a header, each byte once.
 *
 * The digest is computed from the very bytes that the parser got, in the order
 * in which it got them. The first bytes, which are examined twice, are read
 * from the file once and kept meanwhile.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "lib/file/file.h"

/* The whole of most .npy headers, and a page. */
#define FIRST_MAX 4096

struct file_reading {
	struct digest_state *digest;
	uint64_t digested; /* bytes of the file in the digest, from the first
			    * one on */
	size_t n_first;
	char first[FIRST_MAX];
};

int file_read_at(
	const struct tarn_file *file, void *buf, size_t size, uint64_t offset)
{
	ssize_t n = fd_pread(file->fd, buf, size, offset);

	if (n < 0)
		return tarn_fail((int)-n, "reading %zu bytes at byte %llu: %s",
			size, (unsigned long long)offset,
			tarn_errno_text((int)-n));
	if ((size_t)n < size)
		return tarn_fail(EBADMSG,
			"the file ends at byte %llu, it had %llu bytes when it "
			"was opened: another process is truncating it",
			(unsigned long long)(offset + (size_t)n),
			(unsigned long long)file->size);
	return 0;
}

int file_read_begin(struct tarn_file *file)
{
	struct file_reading *reading = calloc(1, sizeof(*reading));

	file->reading = reading;
	if (!reading)
		return file_no_memory("the header of a file");
	reading->digest = digest_new();
	if (!reading->digest)
		return file_no_memory("the header of a file");
	reading->n_first = MIN(file->size, (uint64_t)FIRST_MAX);
	return file_read_at(file, reading->first, reading->n_first, 0);
}

const char *file_first(const struct tarn_file *file, size_t *ret_size)
{
	*ret_size = file->reading->n_first;
	return file->reading->first;
}

/* Only the first bytes may be read again, since they are the same bytes then;
 * they enter the digest once. */
static int count(struct file_reading *reading, const char *bytes, size_t size,
	uint64_t offset)
{
	uint64_t again = reading->digested - MIN(offset, reading->digested);

	again = MIN(again, (uint64_t)size);
	if (offset > reading->digested ||
		(again && offset + again > reading->n_first))
		return tarn_fail(EIO,
			"%zu bytes at byte %llu of a header are read out of "
			"order",
			size, (unsigned long long)offset);
	digest_add(reading->digest, bytes + again, size - again);
	reading->digested += size - again;
	return 0;
}

int file_read(struct tarn_file *file, void *buf, size_t size, uint64_t offset)
{
	struct file_reading *reading = file->reading;
	size_t n = 0;
	int r = 0;

	if (offset < reading->n_first) {
		n = MIN(size, reading->n_first - (size_t)offset);
		memcpy(buf, reading->first + offset, n);
	}
	if (n < size)
		r = file_read_at(file, (char *)buf + n, size - n, offset + n);
	return r < 0 ? r : count(reading, buf, size, offset);
}

int file_read_end(struct tarn_file *file)
{
	struct file_reading *reading = file->reading;
	uint64_t front = MIN(file->data_offset, (uint64_t)FILE_FRONT_MAX);

	/* No bytes of an index are loaded. */
	if (!file->shards && reading->digested != front)
		return tarn_fail(EIO,
			"%llu bytes of a header were read, which has %llu",
			(unsigned long long)reading->digested,
			(unsigned long long)front);
	file->version.header_size = reading->digested;
	file->version.header = digest_end(reading->digest);
	file_read_drop(file);
	return 0;
}

/* How old fd is means how old the file is that it stands for. */
static int same_age(int fd, int of)
{
	struct stat st;

	if (fstat(of, &st) < 0 ||
		futimens(fd, (struct timespec[]) {st.st_atim, st.st_mtim}) < 0)
		return tarn_fail(errno, "the time of what was inflated: %s",
			tarn_errno_text(errno));
	return 0;
}

int file_inflated(const struct tarn_file *file, int fd)
{
	int r = file_check_version(file, "while it was inflated");

	return r < 0 ? r : same_age(fd, file->fd);
}

int file_replace_consume_fd(struct tarn_file *file, int fd)
{
	int r = identity_of(fd, &file->version.identity);

	if (r < 0) {
		fd_close(fd);
		return r;
	}
	/* The one before is the opener's, which closes it. */
	file->fd = fd;
	file->is_inflated = true;
	file->size = file->version.identity.size;
	file_read_drop(file);
	return file_read_begin(file);
}

void file_read_drop(struct tarn_file *file)
{
	if (file->reading)
		digest_free(file->reading->digest);
	free(file->reading);
	file->reading = NULL;
}

int file_check_version(const struct tarn_file *file, const char *when)
{
	return identity_same_bytes(file->fd, &file->version.identity, when);
}
