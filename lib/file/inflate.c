// SPDX-License-Identifier: MIT
/*
 * An archive with compressed records becomes one of the same records, stored as
 * they are, in shared memory, and is read from there as any file is. So all that
 * uses files uses it, the daemon included, which inflates nothing. Where there is
 * a store at hand other processes find that memory: lib/store/inflated.c.
 *
 * What an archive declares is not believed: memory is taken for no more than its
 * compressed bytes can become, and each record that is inflated must have the size
 * and the sum that it declares.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/fail.h"
#include "base/fd.h"
#include "base/headroom.h"
#include "base/page.h"
#include "lib/file/zip.h"

/* Compressed bytes are read in pieces of this size. Picked. */
#define PIECE (256u << 10)
/* More than one byte cannot become: 258 for two codes of a bit each. */
#define RATIO_MAX 1032u
/* zlib counts in 32 bits. */
#define STEP (1u << 30)
/* Memory is taken in steps: a signal makes the system give a step back. */
#define TAKEN_STEP (64u << 20)
/* Values begin at multiples of so much, as numpy's headers mean them to. */
#define ALIGNMENT 64u

typedef unsigned long long llu;

struct unpacked {
	int fd;
	unsigned char *at;
	uint64_t size;
};

static int wrong(const struct zip_record *record, const char *what)
{
	char shown[FILE_TEXT_MAX];

	return tarn_fail(EBADMSG,
		"record '%s' is damaged: %s; it declares %llu bytes, of %llu "
		"compressed ones",
		file_clean(record->name, record->name_size, shown), what,
		(llu)record->whole, (llu)record->size);
}

/* ---- the new archive's places -------------------------------------------- */

static int place_all(const struct zip *zip, struct zip_record *ret,
	uint64_t *ret_directory, uint64_t *ret_size)
{
	uint64_t at = 0, after = ZIP_END_SIZE;
	bool over = false;

	for (size_t i = 0; i < zip->count; i++) {
		const struct zip_record *record = &zip->records[i];
		int r = zip_readable(record);

		if (r < 0)
			return r;
		if (record->method && record->whole / RATIO_MAX > record->size)
			return wrong(record, "so much cannot come of so few");
		ret[i] = *record;
		ret[i].method = 0;
		ret[i].size = record->whole;
		over = over ||
		       add_u64(at, ZIP_LOCAL_SIZE + record->name_size, &at) ||
		       round_up_u64(at, ALIGNMENT, &at);
		ret[i].offset = at;
		over = over || add_u64(at, record->whole, &at);
		after += ZIP_ENTRY_SIZE + record->name_size;
	}
	/* Whole pages, as shared memory has, and the end at their end. */
	if (over || add_u64(at, after, &at) || round_up_u64(at, PAGE, &at) ||
		at > INT64_MAX)
		return tarn_fail(EBADMSG,
			"its records declare more bytes than there can be");
	*ret_size = at;
	*ret_directory = at - after;
	return 0;
}

static void unpacked_free(struct unpacked *u)
{
	if (u->at)
		munmap(u->at, u->size);
	fd_close(u->fd);
	*u = (struct unpacked) {.fd = -1};
}

/* Memory that is not there is an error here, and a signal later. An error number,
 * or 0. */
static int populate(const struct unpacked *u)
{
	int r = ftruncate(u->fd, (off_t)u->size) < 0 ? errno : 0;

	for (uint64_t at = 0, n; !r && at < u->size; at += n) {
		n = MIN(u->size - at, (uint64_t)TAKEN_STEP);
		do
			r = posix_fallocate(u->fd, (off_t)at, (off_t)n);
		while (r == EINTR);
	}
	return r;
}

static int take_memory(struct unpacked *u)
{
	int r = headroom_check(u->size);

	if (r == -ENOSPC)
		return tarn_fail_prefix(-ENOMEM, "inflating the archive: ");
	u->fd = fd_memory("tarn-inflated");
	if (u->fd < 0)
		return tarn_fail(-u->fd,
			"inflating the archive: "
			"memfd_create: %s",
			tarn_errno_text(-u->fd));
	r = populate(u);
	if (!r) {
		u->at = mmap(NULL, u->size, PROT_READ | PROT_WRITE, MAP_SHARED,
			u->fd, 0);
		if (u->at == MAP_FAILED) {
			u->at = NULL;
			r = errno;
		}
		/* The child of a fork would keep it from being sealed. */
		if (u->at && madvise(u->at, u->size, MADV_DONTFORK) < 0)
			r = errno;
	}
	if (r)
		return tarn_fail(r, "inflating the archive: %llu bytes: %s",
			(llu)u->size, tarn_errno_text(r));
	return 0;
}

/* ---- one record ---------------------------------------------------------- */

struct inflating {
	const struct tarn_file *file;
	const struct zip_record *record;
	unsigned char *in; /* PIECE bytes */
	unsigned char *out;
	uint64_t read, made;
	z_stream z;
};

static int read_more(struct inflating *s)
{
	uint64_t n = MIN(s->record->size - s->read, (uint64_t)PIECE);
	int r;

	r = file_read_at(s->file, s->in, n, s->record->offset + s->read);
	s->z.next_in = s->in;
	s->z.avail_in = (unsigned)n;
	s->read += n;
	return r;
}

/* One step of zlib. 1: it was the last. */
static int step(struct inflating *s)
{
	uint64_t room = MIN(s->record->whole - s->made, (uint64_t)STEP);
	unsigned char more;
	int r;

	/* Where there is no room, there must be no byte either. */
	s->z.next_out = room ? s->out + s->made : &more;
	s->z.avail_out = room ? (unsigned)room : 1;
	r = inflate(&s->z, Z_NO_FLUSH);
	if (r == Z_MEM_ERROR)
		return file_no_memory("inflating an archive");
	if (!room && !s->z.avail_out)
		return wrong(s->record, "there are more bytes in it");
	if (r == Z_BUF_ERROR)
		return wrong(s->record, "its compressed bytes end too early");
	if (r != Z_OK && r != Z_STREAM_END)
		return wrong(s->record, s->z.msg ? s->z.msg : "no deflate");
	s->made += room ? room - s->z.avail_out : 0;
	return r == Z_STREAM_END;
}

static int run(struct inflating *s)
{
	int r = 0;

	while (!r) {
		/* What zlib holds of the last ones may be more bytes yet. */
		if (!s->z.avail_in && s->read < s->record->size)
			r = read_more(s);
		if (!r)
			r = step(s);
	}
	if (r < 0)
		return r;
	if (s->made < s->record->whole)
		return wrong(s->record, "there are fewer bytes in it");
	if (s->z.avail_in || s->read < s->record->size)
		return wrong(s->record, "something comes after its last byte");
	return 0;
}

static int check_sum(const struct zip_record *record, const unsigned char *at)
{
	unsigned long sum = crc32(0, NULL, 0);

	for (uint64_t done = 0, n; done < record->whole; done += n) {
		n = MIN(record->whole - done, (uint64_t)STEP);
		sum = crc32(sum, at + done, (unsigned)n);
	}
	return sum == record->crc ? 0 : wrong(record, "its CRC is another");
}

static int inflate_record(const struct tarn_file *file,
	const struct zip_record *record, unsigned char *piece,
	unsigned char *out)
{
	struct inflating s = {
		.file = file, .record = record, .in = piece, .out = out};
	int r;

	if (!record->method)
		return file_read_at(file, out, record->size, record->offset);
	if (inflateInit2(&s.z, -MAX_WBITS) != Z_OK)
		return file_no_memory("inflating an archive");
	r = run(&s);
	inflateEnd(&s.z);
	return r < 0 ? r : check_sum(record, out);
}

/* ---- all of it ----------------------------------------------------------- */

struct job {
	struct tarn_file *file;
	const struct zip *zip;
	struct zip_record *placed;
	uint64_t directory, size;
};

/* A file_fill. */
static int fill(void *arg, int fd, unsigned char *base)
{
	const struct job *job = arg;
	const struct zip *zip = job->zip;
	const struct zip_record *placed = job->placed;
	_cleanup_free_ unsigned char *piece = malloc(PIECE);
	uint64_t at = 0;
	int r = piece ? 0 : file_no_memory("inflating an archive");

	for (size_t i = 0; r >= 0 && i < zip->count; i++) {
		zip_write_local(base + at, &placed[i], at);
		r = inflate_record(job->file, &zip->records[i], piece,
			base + placed[i].offset);
		at = placed[i].offset + placed[i].size;
	}
	if (r < 0)
		return r;
	zip_write_directory(base, placed, zip->count, job->directory);
	return file_inflated(job->file, fd);
}

/* Nobody who gets the descriptor may change it. A fork just after the memory was
 * mapped has the mapping, which it does not know: no other can be made. */
static int seal(struct unpacked *u)
{
	const int rest = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	int r;

	munmap(u->at, u->size);
	u->at = NULL;
	r = fcntl(u->fd, F_ADD_SEALS, rest | F_SEAL_WRITE);
	if (r < 0 && errno == EBUSY)
		r = fcntl(u->fd, F_ADD_SEALS, rest | F_SEAL_FUTURE_WRITE);
	if (r < 0)
		return tarn_fail(errno, "inflating the archive: sealing: %s",
			tarn_errno_text(errno));
	return 0;
}

/* In memory of this process's own. */
static int inflate_alone(struct job *job, int *ret_fd)
{
	struct unpacked u = {.fd = -1, .size = job->size};
	int r = take_memory(&u);

	if (r >= 0)
		r = fill(job, u.fd, u.at);
	if (r >= 0)
		r = seal(&u);
	if (r >= 0) {
		*ret_fd = u.fd;
		u.fd = -1;
	}
	unpacked_free(&u);
	return r;
}

int zip_inflate(struct tarn_file *file, const struct zip *zip, int *ret_fd)
{
	const struct file_sharing *sharing = file->sharing;
	struct job job = {.file = file,
		.zip = zip,
		.placed = arena_array(
			&file->arena, zip->count + 1, sizeof(*job.placed))};
	int r = job.placed
			? place_all(zip, job.placed, &job.directory, &job.size)
			: file_no_memory("inflating an archive");

	if (r >= 0)
		r = sharing ? sharing->get(sharing->arg, file, job.size, fill,
				      &job, ret_fd)
			    : 1;
	return r == 1 ? inflate_alone(&job, ret_fd) : r;
}
