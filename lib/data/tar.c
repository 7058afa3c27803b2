// SPDX-License-Identifier: MIT
/*
 * From head to head through a tar file. Heads are read ahead as far as data are
 * short; data are jumped over. All that is in the file is hostile: each step goes
 * forward, and to a place within the file.
 */
#include "lib/data/tar.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/tensor/storage.h"

enum { SIZE_AT = 124, SIZE_SIZE = 12, TYPE_AT = 156 };

/* Reading a page costs as much as a head alone. Of short members, many heads are
 * read at once: picked. */
#define AHEAD_LEAST 4096u
#define AHEAD_MOST 65536u

void tar_scan_begin(
	struct tar_scan *scan, const tarn_storage *storage, uint64_t at)
{
	*scan = (struct tar_scan) {.storage = storage,
		.size = tarn_storage_size(storage),
		.at = at};
}

void tar_scan_end(struct tar_scan *scan)
{
	free(scan->buf);
	scan->buf = NULL;
}

static int cut_off(const struct tar_scan *scan, uint64_t at, uint64_t n)
{
	return tarn_fail(EBADMSG,
		"the member at byte %llu needs %llu bytes, and the file ends at "
		"byte %llu: it is cut off, or no tar file",
		(unsigned long long)at, (unsigned long long)n,
		(unsigned long long)scan->size);
}

static int room_for(struct tar_scan *scan, size_t n)
{
	unsigned char *buf;

	if (n <= scan->buf_room)
		return 0;
	buf = realloc(scan->buf, n);
	if (!buf)
		return tarn_fail(ENOMEM, "no memory for %zu bytes of heads", n);
	scan->buf = buf;
	scan->buf_room = n;
	return 0;
}

/* n bytes, which stay until the next call. */
static int bytes_at(
	struct tar_scan *scan, uint64_t at, size_t n, const unsigned char **ret)
{
	size_t ahead;
	int r;

	if (at > scan->size || n > scan->size - at)
		return cut_off(scan, at, n);
	if (at >= scan->buf_at && at - scan->buf_at <= scan->buf_n &&
		n <= scan->buf_n - (at - scan->buf_at)) {
		*ret = scan->buf + (at - scan->buf_at);
		return 0;
	}
	/* Do members follow each other closely? */
	ahead = scan->buf_n && at - scan->buf_at < scan->buf_n + AHEAD_MOST / 4
			? AHEAD_MOST
			: AHEAD_LEAST;
	ahead = scan->ahead ? scan->ahead : ahead;
	ahead = (size_t)MIN((uint64_t)MAX(n, ahead), scan->size - at);
	r = room_for(scan, ahead);
	if (r < 0)
		return r;
	scan->buf_n = 0;
	r = tarn_storage_read(scan->storage, at, scan->buf, ahead);
	if (r < 0)
		return r;
	scan->buf_at = at;
	scan->buf_n = ahead;
	*ret = scan->buf;
	return 0;
}

/* The byte behind n of data and what fills up their last block. */
static int behind(
	const struct tar_scan *scan, uint64_t data, uint64_t n, uint64_t *ret)
{
	uint64_t end;

	if (round_up_u64(n, TAR_BLOCK, &end) || add_u64(data, end, &end) ||
		end > scan->size)
		return cut_off(scan, data, n);
	*ret = end;
	return 0;
}

/* ---- heads before a member's own --------------------------------------------- */

static int long_name(struct tar_scan *scan, const unsigned char *bytes,
	size_t n, uint64_t at)
{
	struct tar_extra *extra = &scan->extra;
	size_t size = strnlen((const char *)bytes, n);

	if (!size || size > TAR_NAME_MAX)
		return tarn_fail(EBADMSG,
			"the long name at byte %llu has %zu bytes, and a name "
			"has 1 to %u",
			(unsigned long long)at, size, TAR_NAME_MAX);
	if (extra->has_name)
		return 0;
	memcpy(extra->name, bytes, size);
	extra->name_size = size;
	extra->has_name = true;
	return 0;
}

static bool is_before(char type)
{
	return type == 'x' || type == 'X' || type == 'g' || type == 'L' ||
	       type == 'K';
}

/* The data of such a head, n bytes. */
static int read_before(struct tar_scan *scan, char type, uint64_t n)
{
	const unsigned char *bytes;
	uint64_t data = scan->at + TAR_BLOCK, end = data;
	int r;

	if (n > TAR_EXTRA_MAX)
		return tarn_fail(EBADMSG,
			"the head at byte %llu announces %llu bytes of records, "
			"and %u are the most",
			(unsigned long long)scan->at, (unsigned long long)n,
			TAR_EXTRA_MAX);
	r = behind(scan, data, n, &end);
	/* Of a long link the name is of no use here. */
	if (r >= 0 && type != 'K')
		r = bytes_at(scan, data, (size_t)n, &bytes);
	if (r >= 0 && type == 'L')
		r = long_name(scan, bytes, (size_t)n, data);
	else if (r >= 0 && type != 'K')
		r = tar_pax(bytes, (size_t)n, data, type == 'g', &scan->extra);
	if (r >= 0)
		scan->at = end;
	return r;
}

/* ---- members -------------------------------------------------------------------- */

/* Data of links, folders, devices and pipes are none, whatever their size is. */
static bool has_data(char type)
{
	return !(type >= '1' && type <= '6');
}

static int own_head(struct tar_scan *scan, const unsigned char *head,
	uint64_t size, struct tar_member *ret)
{
	struct tar_extra *extra = &scan->extra;
	char type = (char)head[TYPE_AT];
	uint64_t end = scan->at;
	int r;

	if (type == 'S')
		return tarn_fail(ENOTSUP,
			"the member at byte %llu has holes, which are not "
			"supported: write it without --sparse",
			(unsigned long long)scan->at);
	if (extra->has_name)
		memcpy(scan->name, extra->name, extra->name_size);
	ret->name_size = extra->has_name ? extra->name_size
					 : tar_head_name(head, scan->name);
	scan->name[ret->name_size] = '\0';
	ret->name = scan->name;
	ret->data = scan->at + TAR_BLOCK;
	ret->size = extra->has_size ? extra->size : size;
	/* Before POSIX a folder was a file with such a name. */
	if (type == '\0' && ret->name_size &&
		ret->name[ret->name_size - 1] == '/')
		type = '5';
	if (!has_data(type))
		ret->size = 0;
	r = behind(scan, ret->data, ret->size, &end);
	if (r < 0)
		return r;
	ret->file = type == '0' || type == '\0' || type == '7';
	scan->at = end;
	return 1;
}

static bool is_zero(const unsigned char head[TAR_BLOCK])
{
	return !head[0] && !memcmp(head, head + 1, TAR_BLOCK - 1);
}

/* 1: a head; 0: the end. */
static int next_head(struct tar_scan *scan, bool begun,
	const unsigned char **ret, uint64_t *ret_size)
{
	int r;

	/* A writer that was killed between two members leaves no end; nobody can
	 * tell that from one that had no more. */
	if (scan->at == scan->size && scan->at && !begun)
		return 0;
	r = bytes_at(scan, scan->at, TAR_BLOCK, ret);
	if (r < 0)
		return r;
	if (is_zero(*ret) && !begun)
		return 0;
	if (!tar_sum_is_right(*ret))
		return tarn_fail(EBADMSG,
			"byte %llu is no head of a member: its sum is wrong",
			(unsigned long long)scan->at);
	if (!tar_number(*ret + SIZE_AT, SIZE_SIZE, ret_size))
		return tarn_fail(EBADMSG,
			"the head at byte %llu has no size below 2^63",
			(unsigned long long)scan->at);
	return 1;
}

int tar_next(struct tar_scan *scan, struct tar_member *ret)
{
	const unsigned char *head = NULL;
	uint64_t size = 0;
	char type;
	int r;

	scan->extra.has_name = scan->extra.has_size = false;
	ret->at = scan->at;
	for (unsigned heads = 0; heads < TAR_HEADS_MAX;) {
		r = next_head(scan, heads > 0, &head, &size);
		if (r <= 0)
			return r;
		type = (char)head[TYPE_AT];
		if (!is_before(type))
			return own_head(scan, head, size, ret);
		r = read_before(scan, type, size);
		if (r < 0)
			return r;
		/* Those for all members are no part of the one that follows. */
		if (type == 'g' && !heads)
			ret->at = scan->at;
		else
			heads++;
	}
	return tarn_fail(EBADMSG,
		"the member at byte %llu has more than %u heads",
		(unsigned long long)ret->at, TAR_HEADS_MAX);
}
