// SPDX-License-Identifier: MIT
/*
 * The headers of an archive of stored records, for zip.c to read: all sizes are
 * of 64 bits.
 *
 * Source: PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 to 4.5.
 */
#include <string.h>

#include "lib/file/zip.h"

#define EXTRA_SIZE 28u

static unsigned char *put(unsigned char *p, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		*p++ = (unsigned char)(i < 8 ? value >> 8 * i : 0);
	return p;
}

static unsigned char *put_text(unsigned char *p, const char *text, size_t size)
{
	memcpy(p, text, size);
	return p + size;
}

/* What fills it up to the record is an extra field, which nobody reads. */
void zip_write_local(
	unsigned char *p, const struct zip_record *record, uint64_t at)
{
	uint64_t extra =
		record->offset - at - ZIP_LOCAL_SIZE - record->name_size;

	p = put(p, 0x04034b50, 4);
	p = put(p, 45, 2);
	p = put(p, 0, 8);
	p = put(p, record->crc, 4);
	p = put(p, UINT32_MAX, 4);
	p = put(p, UINT32_MAX, 4);
	p = put(p, record->name_size, 2);
	p = put(p, extra, 2);
	put_text(p, record->name, record->name_size);
}

static unsigned char *put_entry(
	unsigned char *p, const struct zip_record *record, uint64_t local)
{
	p = put(p, 0x02014b50, 4);
	p = put(p, 45, 2);
	p = put(p, 45, 2);
	p = put(p, 0, 8);
	p = put(p, record->crc, 4);
	p = put(p, UINT32_MAX, 4);
	p = put(p, UINT32_MAX, 4);
	p = put(p, record->name_size, 2);
	p = put(p, EXTRA_SIZE, 2);
	p = put(p, 0, 10);
	p = put(p, UINT32_MAX, 4);
	p = put_text(p, record->name, record->name_size);
	p = put(p, 1, 2);
	p = put(p, EXTRA_SIZE - 4, 2);
	p = put(p, record->size, 8);
	p = put(p, record->size, 8);
	return put(p, local, 8);
}

void zip_write_directory(unsigned char *base, const struct zip_record *records,
	size_t count, uint64_t directory)
{
	unsigned char *p = base + directory;
	uint64_t local = 0, end;

	for (size_t i = 0; i < count; i++) {
		p = put_entry(p, &records[i], local);
		local = records[i].offset + records[i].size;
	}
	end = (uint64_t)(p - base);
	p = put(p, 0x06064b50, 4);
	p = put(p, 44, 8);
	p = put(p, 45, 2);
	p = put(p, 45, 2);
	p = put(p, 0, 8);
	p = put(p, count, 8);
	p = put(p, count, 8);
	p = put(p, end - directory, 8);
	p = put(p, directory, 8);
	p = put(p, 0x07064b50, 4);
	p = put(p, 0, 4);
	p = put(p, end, 8);
	p = put(p, 1, 4);
	p = put(p, 0x06054b50, 4);
	p = put(p, 0, 4);
	p = put(p, UINT16_MAX, 2);
	p = put(p, UINT16_MAX, 2);
	p = put(p, UINT32_MAX, 4);
	p = put(p, UINT32_MAX, 4);
	put(p, 0, 2);
}
