// SPDX-License-Identifier: MIT
/*
 * Zip archives, as torch.save and numpy.savez write them: the end of the file
 * says where the directory is, the directory where each record's local header
 * is, and that how long it is itself. 64-bit sizes stand in extra fields.
 *
 * Source: PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 to 4.5.
 */
#include "lib/file/zip.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/fail.h"

#define END_SIZE 22u
#define LOCATOR_SIZE 20u
#define END64_SIZE 56u
#define ENTRY_SIZE 46u
#define LOCAL_SIZE 30u
#define COMMENT_MAX 65535u
#define EXTRA_64 1u
#define DEFLATED 8u

/* A checkpoint of 100,000 tensors has some 10 MB of it. Picked. */
#define DIRECTORY_MAX (1u << 30)

typedef unsigned long long llu;

static unsigned u16_at(const unsigned char *p)
{
	return p[0] | (unsigned)p[1] << 8;
}

static uint32_t u32_at(const unsigned char *p)
{
	return u16_at(p) | (uint32_t)u16_at(p + 2) << 16;
}

static uint64_t u64_at(const unsigned char *p)
{
	return u32_at(p) | (uint64_t)u32_at(p + 4) << 32;
}

static int damaged(const char *what, uint64_t at)
{
	return tarn_fail(
		EBADMSG, "damaged zip archive: %s at byte %llu", what, (llu)at);
}

/* ---- the end ------------------------------------------------------------- */

struct directory {
	uint64_t offset, size, count;
	uint64_t end; /* where what comes after it begins */
};

/* The last one whose comment ends with the file. */
static const unsigned char *find_end(const unsigned char *tail, size_t n)
{
	for (size_t i = n - END_SIZE + 1; i-- > 0;)
		if (!memcmp(tail + i, "PK\5\6", 4) &&
			i + END_SIZE + u16_at(tail + i + 20) == n)
			return tail + i;
	return NULL;
}

static int read_end64(
	struct tarn_file *file, uint64_t locator, struct directory *ret)
{
	unsigned char b[LOCATOR_SIZE], e[END64_SIZE];
	uint64_t at;
	int r = file_read_at(file, b, sizeof(b), locator);

	if (r < 0)
		return r;
	if (memcmp(b, "PK\6\7", 4) != 0)
		return damaged("no locator of the 64-bit end", locator);
	at = u64_at(b + 8);
	if (at > locator || locator - at < sizeof(e))
		return damaged("a 64-bit end outside of the file", at);
	r = file_read_at(file, e, sizeof(e), at);
	if (r < 0)
		return r;
	if (memcmp(e, "PK\6\6", 4) != 0)
		return damaged("no 64-bit end", at);
	ret->count = u64_at(e + 32);
	ret->size = u64_at(e + 40);
	ret->offset = u64_at(e + 48);
	ret->end = at;
	return 0;
}

static int find_directory(struct tarn_file *file, struct directory *ret)
{
	size_t n = MIN(file->size, (uint64_t)END_SIZE + COMMENT_MAX);
	_cleanup_free_ unsigned char *tail = malloc(n + 1);
	uint64_t begin = file->size - n, at;
	const unsigned char *e;
	int r;

	if (!tail)
		return file_no_memory("the end of an archive");
	if (n < END_SIZE)
		return damaged("it ends too early,", file->size);
	r = file_read_at(file, tail, n, begin);
	if (r < 0)
		return r;
	e = find_end(tail, n);
	if (!e)
		return tarn_fail(EBADMSG,
			"the zip archive has no directory at its end: it seems "
			"not fully written");
	at = begin + (uint64_t)(e - tail);
	*ret = (struct directory) {.count = u16_at(e + 10),
		.size = u32_at(e + 12),
		.offset = u32_at(e + 16),
		.end = at};
	/* torch.save writes both ends, whatever the sizes are. */
	if (ret->count == UINT16_MAX || ret->size == UINT32_MAX ||
		ret->offset == UINT32_MAX)
		r = at < LOCATOR_SIZE
			    ? damaged("no room for a 64-bit end", at)
			    : read_end64(file, at - LOCATOR_SIZE, ret);
	if (r < 0)
		return r;
	if (ret->offset > ret->end || ret->size > ret->end - ret->offset)
		return damaged(
			"a directory that is not in the file", ret->offset);
	if (ret->size > DIRECTORY_MAX)
		return tarn_fail(EBADMSG,
			"its directory has %llu bytes, more than the %u that "
			"are read",
			(llu)ret->size, DIRECTORY_MAX);
	if (ret->count > ret->size / ENTRY_SIZE)
		return damaged(
			"more entries than its directory holds", ret->offset);
	return 0;
}

/* ---- entries ------------------------------------------------------------- */

/* The sizes that do not fit into 32 bits, in their order. */
static bool read_extra(const unsigned char *p, const unsigned char *end,
	uint64_t *const wanted[3])
{
	while (end - p >= 4) {
		unsigned id = u16_at(p), size = u16_at(p + 2);

		p += 4;
		if (size > end - p)
			return false;
		for (int i = 0; id == EXTRA_64 && i < 3; i++) {
			if (*wanted[i] != UINT32_MAX)
				continue;
			if (size < 8)
				return false;
			*wanted[i] = u64_at(p);
			p += 8;
			size -= 8;
		}
		p += size;
	}
	return true;
}

int zip_readable(const struct zip_record *record)
{
	char shown[FILE_TEXT_MAX];

	file_clean(record->name, record->name_size, shown);
	if (record->encrypted)
		return tarn_fail(ENOTSUP, "record '%s' is encrypted", shown);
	if (record->method && record->method != DEFLATED)
		return tarn_fail(ENOTSUP,
			"record '%s' is compressed by zip's method %u; tarn "
			"knows stored and deflated ones: save it with "
			"numpy.savez, or torch.save",
			shown, record->method);
	return 0;
}

/* An entry of the directory; *ret_local is where its local header is. */
static int read_entry(struct tarn_file *file, const unsigned char **at,
	const unsigned char *end, uint64_t place, struct zip_record *ret,
	uint64_t *ret_local)
{
	const unsigned char *p = *at;
	uint64_t stored, size, local;
	unsigned n_name, n_extra, n_comment;

	if (end - p < ENTRY_SIZE || memcmp(p, "PK\1\2", 4) != 0)
		return damaged("no entry of the directory", place);
	n_name = u16_at(p + 28);
	n_extra = u16_at(p + 30);
	n_comment = u16_at(p + 32);
	if ((size_t)(end - p) - ENTRY_SIZE <
		(size_t)n_name + n_extra + n_comment)
		return damaged("an entry that ends too late", place);
	stored = u32_at(p + 20);
	size = u32_at(p + 24);
	local = u32_at(p + 42);
	if (!read_extra(p + ENTRY_SIZE + n_name,
		    p + ENTRY_SIZE + n_name + n_extra,
		    (uint64_t *[]) {&size, &stored, &local}))
		return damaged("a wrong extra field", place);
	ret->name =
		arena_text(&file->arena, (const char *)p + ENTRY_SIZE, n_name);
	if (!ret->name)
		return file_no_memory("the names of an archive");
	ret->name_size = n_name;
	ret->size = stored;
	ret->whole = size;
	ret->crc = u32_at(p + 16);
	/* A folder has nothing that could be compressed. */
	ret->method = stored ? u16_at(p + 10) : 0;
	ret->encrypted = stored && u16_at(p + 8) & 1;
	if (memchr(ret->name, 0, n_name))
		return damaged("a name with a NUL", place);
	*at = p + ENTRY_SIZE + n_name + n_extra + n_comment;
	*ret_local = local;
	if (!ret->method && !ret->encrypted && size != stored)
		return damaged("two sizes of one record", place);
	return 0;
}

/* The local header's name and extra field have lengths of their own. */
static int place_record(struct tarn_file *file, uint64_t local,
	uint64_t directory, struct zip_record *record)
{
	unsigned char b[LOCAL_SIZE];
	uint64_t left;
	int r;

	if (local > directory || directory - local < LOCAL_SIZE)
		return damaged("a record outside of the file", local);
	r = file_read_at(file, b, sizeof(b), local);
	if (r < 0)
		return r;
	if (memcmp(b, "PK\3\4", 4) != 0)
		return damaged("no record", local);
	record->begin = local;
	record->offset = local + LOCAL_SIZE + u16_at(b + 26) + u16_at(b + 28);
	left = directory - MIN(record->offset, directory);
	if (record->offset > directory || record->size > left)
		return damaged("a record that ends too late", local);
	return 0;
}

static const struct zip_record *find(const struct zip *zip, const char *name,
	size_t size, struct name_state *state)
{
	int64_t i;

	while ((i = name_index_next(&zip->index, name, size, state)) >= 0) {
		const struct zip_record *record = &zip->records[i];

		if (record->name_size == size &&
			!memcmp(record->name, name, size))
			return record;
	}
	return NULL;
}

const struct zip_record *zip_find(
	const struct zip *zip, const char *name, size_t size)
{
	struct name_state state = {0};

	return find(zip, name, size, &state);
}

static int read_entries(struct tarn_file *file, const struct directory *d,
	const unsigned char *bytes, struct zip *ret)
{
	const unsigned char *p = bytes, *end = bytes + d->size;
	int r = name_index_init(&ret->index, &file->arena, d->count);

	for (size_t i = 0; r >= 0 && i < d->count; i++) {
		struct zip_record *record = &ret->records[i];
		struct name_state state = {0};
		uint64_t local = 0;

		r = read_entry(file, &p, end, d->offset + (uint64_t)(p - bytes),
			record, &local);
		if (r >= 0)
			r = place_record(file, local, d->offset, record);
		if (r >= 0 &&
			find(ret, record->name, record->name_size, &state))
			r = file_named_twice(record->name, record->name_size);
		if (r >= 0)
			name_index_add(&ret->index, &state, (uint32_t)i);
	}
	return r;
}

/* ---- records that share bytes --------------------------------------------- */

static int by_begin(const void *a, const void *b)
{
	const struct zip_record *const *x = a, *const *y = b;

	if ((*x)->begin != (*y)->begin)
		return (*x)->begin < (*y)->begin ? -1 : 1;
	return 0;
}

static int overlapping(const struct zip_record *a, const struct zip_record *b)
{
	char first[FILE_TEXT_MAX], second[FILE_TEXT_MAX];

	return tarn_fail(EBADMSG,
		"records '%s' and '%s' of the zip archive share bytes: the "
		"first ends at byte %llu, the second begins at byte %llu",
		file_clean(a->name, a->name_size, first),
		file_clean(b->name, b->name_size, second),
		(llu)(a->offset + a->size), (llu)b->begin);
}

/* Each with its local header. So all work for records is linear in the file's
 * size. */
static int check_apart(const struct zip *zip)
{
	_cleanup_free_ const struct zip_record **sorted =
		calloc(zip->count + 1, sizeof(*sorted));

	if (!sorted)
		return file_no_memory("the records of an archive");
	for (size_t i = 0; i < zip->count; i++)
		sorted[i] = &zip->records[i];
	qsort(sorted, zip->count, sizeof(*sorted), by_begin);
	for (size_t i = 1; i < zip->count; i++)
		if (sorted[i - 1]->offset + sorted[i - 1]->size >
			sorted[i]->begin)
			return overlapping(sorted[i - 1], sorted[i]);
	return 0;
}

int zip_read(struct tarn_file *file, struct zip *ret)
{
	_cleanup_free_ unsigned char *bytes = NULL;
	struct directory d = {0};
	int r = find_directory(file, &d);

	if (r < 0)
		return r;
	bytes = malloc(d.size + 1);
	ret->count = d.count;
	ret->records =
		arena_array(&file->arena, d.count + 1, sizeof(*ret->records));
	if (!bytes || !ret->records)
		return file_no_memory("the directory of an archive");
	r = file_read_at(file, bytes, d.size, d.offset);
	if (r >= 0)
		r = read_entries(file, &d, bytes, ret);
	return r < 0 ? r : check_apart(ret);
}
